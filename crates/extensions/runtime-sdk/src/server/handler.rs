//! Handlers, their calls and their answers.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::body::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use nephele_listen::{Owner, Turns};
use tokio::time::Instant;
use tracing::{debug, error, warn};

use super::metrics::Outcome;
use crate::{
    hooks::{
        ExtensionHandler, Failure, FailurePolicy, GroupVersionHook, Hook, HookId, Response, ResponseStatus,
    },
    wire,
};

/// The context of a call.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) hook: Arc<HookId>,
    pub(super) handler: Arc<str>,
    pub(super) deadline: Instant,
}

impl Call {
    /// The called hook.
    #[must_use]
    pub fn hook(&self) -> &HookId {
        &self.hook
    }

    /// The name of the handler.
    #[must_use]
    pub fn handler(&self) -> &str {
        &self.handler
    }

    /// When the caller stops waiting. A handler that has not answered by then is dropped at its current await.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How long the caller still waits.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// A handler's options in discovery. The caller uses its defaults for absent options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandlerOptions {
    /// The timeout in seconds: 0 to 30; 0 and absent mean 10.
    pub timeout_seconds: Option<i32>,
    /// What the caller does when there is no response; absent means `Fail`.
    pub failure_policy: Option<FailurePolicy>,
}

impl HandlerOptions {
    /// No options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the timeout in seconds: 0 to 30.
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: i32) -> Self {
        self.timeout_seconds = Some(seconds);
        self
    }

    /// Sets the failure policy `Ignore`: the caller continues when there is no response.
    #[must_use]
    pub fn ignore_failures(mut self) -> Self {
        self.failure_policy = Some(FailurePolicy::Ignore);
        self
    }
}

/// The longest message of a failure, in bytes. A message can quote input of any length. Callers show it in a condition,
/// which has room for 32 KiB.
const MESSAGE_MAX: usize = 8 << 10;

/// A serialised answer.
pub(super) struct Answer {
    /// The response; `None` when it cannot be serialised or there is none.
    pub(super) body: Option<Vec<u8>>,
    pub(super) outcome: Outcome,
}

/// The body of a call.
pub(super) struct Received {
    pub(super) bytes: Bytes,
    pub(super) peer: Owner,
    /// The turns of large bodies.
    pub(super) turns: Turns,
}

type Run = dyn Fn(Received, Call) -> BoxFuture<'static, Answer> + Send + Sync;

/// A handler whose hook type has been erased.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) hook: Arc<HookId>,
    pub(super) name: Arc<str>,
    pub(super) options: HandlerOptions,
    pub(super) singleton: bool,
    pub(super) deprecated: bool,
    pub(super) run: Arc<Run>,
    /// A response with status `Failure`.
    pub(super) fail: fn(String, Outcome) -> Answer,
}

impl Handler {
    pub(super) fn new<H, F, Fut>(name: String, options: HandlerOptions, handle: F) -> Self
    where
        H: Hook,
        F: Fn(H::Request, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<H::Response, Failure>> + Send + 'static,
    {
        let handle = Arc::new(handle);
        let run = move |body: Received, call: Call| {
            let handle = Arc::clone(&handle);
            async move { run::<H, F, Fut>(body, call, handle).await }.boxed()
        };
        Self {
            hook: Arc::new(H::id()),
            name: name.into(),
            options,
            singleton: H::SINGLETON,
            deprecated: H::META.deprecated,
            run: Arc::new(run),
            fail: fail::<H::Response>,
        }
    }

    /// The handler as discovery lists it.
    pub(super) fn advertised(&self) -> ExtensionHandler {
        ExtensionHandler {
            name: self.name.to_string(),
            request_hook: GroupVersionHook::from(&*self.hook),
            timeout_seconds: self.options.timeout_seconds,
            failure_policy: self.options.failure_policy.clone(),
        }
    }

    pub(super) fn path(&self) -> String {
        self.hook.path((!self.singleton).then_some(&*self.name))
    }
}

async fn run<H, F, Fut>(body: Received, call: Call, handle: Arc<F>) -> Answer
where
    H: Hook,
    F: Fn(H::Request, Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<H::Response, Failure>> + Send + 'static,
{
    let Received { bytes, peer, turns } = body;
    let request: H::Request = match turns
        .work(peer, bytes.len(), move || wire::from_slice(&bytes))
        .await
    {
        Ok(request) => request,
        Err(error) => {
            debug!(%error, "Body is not a request");
            return fail::<H::Response>(
                format!("error unmarshalling request: {error}"),
                Outcome::Malformed,
            );
        }
    };
    // Also catches a panic of a handler before it returns its future.
    let guarded = AssertUnwindSafe(async { handle(request, call.clone()).await }).catch_unwind();
    match guarded.await {
        Ok(Ok(response)) => settle(&call, &response),
        Ok(Err(failure)) => {
            debug!(%failure, "Handler failed");
            fail::<H::Response>(failure.message().to_owned(), Outcome::Failure)
        }
        Err(panic) => {
            error!(panic = panic_text(&*panic), "Handler panicked");
            // The message does not have the text of the panic: callers show the message in conditions, which should
            // not change from call to call.
            let message = format!("handler {} of {} panicked", call.handler, call.hook.group_hook());
            fail::<H::Response>(message, Outcome::Panicked)
        }
    }
}

fn settle<R: Response>(call: &Call, response: &R) -> Answer {
    match response.status() {
        ResponseStatus::Success => {
            let waits = response.retry_after_seconds().is_some_and(|seconds| seconds > 0);
            write(response, if waits { Outcome::Retry } else { Outcome::Success })
        }
        ResponseStatus::Failure => write(response, Outcome::Failure),
        ResponseStatus::Other(text) => {
            warn!(status = text, "Handler returned an unknown status");
            let message = format!(
                "handler {} of {} returned an unknown status",
                call.handler,
                call.hook.group_hook()
            );
            fail::<R>(message, Outcome::Failure)
        }
    }
}

fn fail<R: Response>(mut message: String, outcome: Outcome) -> Answer {
    if message.len() > MESSAGE_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        message.push_str("...");
    }
    let mut response = R::default();
    response.set_status(ResponseStatus::Failure);
    response.set_message(message);
    write(&response, outcome)
}

fn write<R: Response>(response: &R, outcome: Outcome) -> Answer {
    match serde_json::to_vec(response) {
        Ok(body) => Answer {
            body: Some(body),
            outcome,
        },
        Err(error) => {
            error!(%error, "Failed to write a response");
            Answer {
                body: None,
                outcome: Outcome::Unwritten,
            }
        }
    }
}

pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("not a text")
}
