//! Who has a say, from outside, in machines that come and go. How they are asked is the business of whoever implements
//! [`MachineHooks`]: nothing here knows of extensions, HTTP or JSON.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use futures::future::{self, BoxFuture, FutureExt as _};
use futures::stream::{self, BoxStream, StreamExt as _};
use nephele_api::core::{Cluster, Machine};
use nephele_api::infrastructure::v1beta2::{InMemoryMachine, MachineAddress};
use nephele_kit::{ReconcileError, Retry};

/// Asks those outside who want to be asked. Each question may be asked again, after a restart for instance, so whoever
/// is asked has to be prepared for that.
pub trait MachineHooks: Send + Sync + 'static {
    /// Whether the machine may be created. Asked at least once for each machine and, once its creation has begun, never
    /// again.
    fn before_create<'a>(
        &'a self,
        machine: MachineInQuestion<'a>,
    ) -> BoxFuture<'a, Result<Answer, HookError>>;

    /// Whether the InMemoryMachine may go: the simulated machine has gone, and its addresses with it. Asked at least once,
    /// also about a machine that never was created, since somebody may have taken note of it.
    fn after_delete<'a>(&'a self, machine: MachineInQuestion<'a>)
    -> BoxFuture<'a, Result<Answer, HookError>>;

    /// Yields whenever somebody else may be asked than before: what waits for an answer is looked at again.
    fn changes(&self) -> BoxStream<'static, ()>;
}

/// What a question is about.
#[derive(Clone, Debug)]
pub struct MachineInQuestion<'a> {
    /// The object.
    pub object: &'a InMemoryMachine,
    /// Its Machine, if there is one, as far as it is read here.
    pub machine: Option<&'a Machine>,
    /// Its Cluster, if there is one, as far as it is read here.
    pub cluster: Option<&'a Cluster>,
    /// What is simulated, as it is to be or as it was.
    pub instance: Instance,
}

/// A simulated machine as people know it. A text is empty where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// What ties it to its Node; empty after the deletion of one that never was created.
    pub provider_id: String,
    /// Whether it is of a control plane.
    pub control_plane: bool,
    /// The version of Kubernetes that it runs.
    pub version: String,
    /// Its zone.
    pub failure_domain: String,
    /// The region of the zone.
    pub region: String,
    /// How large it is, in a word.
    pub instance_type: String,
    /// What it boots from.
    pub image: String,
    /// Its addresses, as far as they are known: before it is created, those of pools.
    pub addresses: Vec<MachineAddress>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nobody objects.
    GoOn,
    /// Not now; ask again.
    Wait {
        /// After that long.
        after: Duration,
        /// Who says so, and why. It reads the same as long as the same is said.
        message: String,
    },
}

/// Nobody could say. It reads as what went wrong does.
#[derive(Debug)]
pub struct HookError {
    /// A word for it, out of few.
    pub category: &'static str,
    /// What went wrong.
    pub cause: Box<dyn Error + Send + Sync>,
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl Error for HookError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

impl ReconcileError for HookError {
    fn category(&self) -> &'static str {
        self.category
    }

    fn retry(&self) -> Retry {
        Retry::BackOff
    }
}

/// Nobody wants to be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl MachineHooks for NoHooks {
    fn before_create<'a>(&'a self, _: MachineInQuestion<'a>) -> BoxFuture<'a, Result<Answer, HookError>> {
        future::ready(Ok(Answer::GoOn)).boxed()
    }

    fn after_delete<'a>(&'a self, _: MachineInQuestion<'a>) -> BoxFuture<'a, Result<Answer, HookError>> {
        future::ready(Ok(Answer::GoOn)).boxed()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }
}
