//! Calls extensions, and combines their answers.

mod verdict;

use std::{sync::Arc, time::Duration};

use futures::{
    future::{BoxFuture, FutureExt as _},
    stream::{BoxStream, StreamExt as _},
};
use kube::ResourceExt as _;
use nephele_infra_controller::{Answer, HookError, MachineHooks, MachineInQuestion};
use nephele_runtime_sdk::{
    client::{CallAll, CallAllError, Client, RegistryError, Subject, Waits},
    hooks::{Hook, Response as _},
};
use parking_lot::RwLock;
use tokio::{sync::watch, time::Instant};
use tokio_stream::wrappers::WatchStream;

use crate::{
    hooks::{AfterMachineDelete, BeforeMachineCreate},
    request,
};

/// The time until the next call while the registered extensions are unknown. They are known shortly after the start,
/// unless the management API does not answer.
const NOT_READY: Duration = Duration::from_secs(1);

/// Calls the registered extensions. Cheap to clone.
#[derive(Clone)]
pub struct CloudHooks {
    client: Client,
    /// The machines for which an extension asked to wait. Replaced whenever the extensions change.
    waits: Arc<RwLock<Arc<Waits>>>,
    changed: watch::Sender<()>,
}

impl CloudHooks {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            waits: Arc::default(),
            changed: watch::Sender::new(()),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Forgets the extensions' former answers, because the extensions may have changed.
    pub(crate) fn changed(&self) {
        *self.waits.write() = Arc::default();
        self.changed.send_replace(());
    }

    async fn ask<H: Hook>(
        &self,
        machine: &MachineInQuestion<'_>,
        request: fn(&MachineInQuestion<'_>) -> H::Request,
    ) -> Result<Answer, HookError> {
        match self.client.registry().handlers(&H::id()) {
            Ok(handlers) if handlers.is_empty() => return Ok(Answer::Continue),
            Ok(_) => {}
            Err(RegistryError::NotReady) => {
                let message = "Waiting to learn which extensions there are".to_owned();
                return Ok(Answer::Wait {
                    after: NOT_READY,
                    message,
                });
            }
            Err(error) => {
                return Err(HookError {
                    category: error.category(),
                    cause: Box::new(error),
                });
            }
        }
        let namespace = machine.object.namespace().unwrap_or_default();
        // The key is the uid: for another machine of the same name the extensions are called at once.
        let subject = Subject::new(&namespace, machine.object.uid().unwrap_or_default());
        let waits = Arc::clone(&self.waits.read());
        if let Some(too_soon) = waits.get::<H>(Instant::now(), &subject) {
            return Ok(answer::<H>(&too_soon));
        }
        let called = Subject::new(namespace, machine.object.name_any());
        let responses = self
            .client
            .call_each::<H>(&called, &request(machine), CallAll::default())
            .await;
        let response = verdict::verdict::<H>(&responses.map_err(hook_error)?);
        waits.put::<H>(Instant::now(), &subject, &response);
        let answer = answer::<H>(&response);
        // The extensions may have changed during the call.
        let outdated = !Arc::ptr_eq(&waits, &self.waits.read());
        Ok(match answer {
            Answer::Wait { after, message } if outdated => Answer::Wait {
                after: after.min(NOT_READY),
                message,
            },
            answer => answer,
        })
    }
}

impl MachineHooks for CloudHooks {
    fn before_create<'a>(
        &'a self,
        machine: MachineInQuestion<'a>,
    ) -> BoxFuture<'a, Result<Answer, HookError>> {
        async move {
            self.ask::<BeforeMachineCreate>(&machine, request::before_create)
                .await
        }
        .boxed()
    }

    fn after_delete<'a>(
        &'a self,
        machine: MachineInQuestion<'a>,
    ) -> BoxFuture<'a, Result<Answer, HookError>> {
        async move {
            self.ask::<AfterMachineDelete>(&machine, request::after_delete)
                .await
        }
        .boxed()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        WatchStream::from_changes(self.changed.subscribe()).boxed()
    }
}

fn hook_error(error: CallAllError) -> HookError {
    HookError {
        category: error.category(),
        cause: Box::new(error),
    }
}

fn answer<H: Hook>(response: &H::Response) -> Answer {
    match response
        .retry_after_seconds()
        .and_then(|seconds| u64::try_from(seconds).ok())
    {
        None | Some(0) => Answer::Continue,
        Some(seconds) => Answer::Wait {
            after: Duration::from_secs(seconds),
            message: response.message().to_owned(),
        },
    }
}
