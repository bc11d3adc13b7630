//! Hooks before a machine is created and after it is deleted. The implementation of [`MachineHooks`] decides how they
//! are called: nothing here knows of extensions, HTTP or JSON.

use std::{error::Error, fmt, time::Duration};

use futures::{
    future::{self, BoxFuture, FutureExt as _},
    stream::{self, BoxStream, StreamExt as _},
};
use nephele_api::{
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryMachine, MachineAddress},
};
use nephele_controller::{ReconcileError, Retry};

/// Calls the registered extensions. A hook may be called more than once for a machine, for instance after a restart, so
/// extensions have to be idempotent.
pub trait MachineHooks: Send + Sync + 'static {
    /// Whether the machine may be created. Called at least once for each machine, and never again once its creation has
    /// begun.
    fn before_create<'a>(
        &'a self,
        machine: MachineInQuestion<'a>,
    ) -> BoxFuture<'a, Result<Answer, HookError>>;

    /// Whether the InMemoryMachine may go: the simulated machine and its addresses are gone. Called at least once, also
    /// for a machine that was never created, since an extension may have recorded it.
    fn after_delete<'a>(&'a self, machine: MachineInQuestion<'a>)
    -> BoxFuture<'a, Result<Answer, HookError>>;

    /// Yields whenever the registered extensions change, so that machines which wait for an answer are reconciled
    /// again.
    fn changes(&self) -> BoxStream<'static, ()>;
}

/// The machine that a hook is called for.
#[derive(Clone, Debug)]
pub struct MachineInQuestion<'a> {
    pub object: &'a InMemoryMachine,
    /// Its Machine, if there is one, with the fields that this provider reads.
    pub machine: Option<&'a Machine>,
    /// Its Cluster, if there is one, with the fields that this provider reads.
    pub cluster: Option<&'a Cluster>,
    /// The simulated machine, as it will be or as it was.
    pub instance: Instance,
}

/// A simulated machine as users know it. A string is empty when the value is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// The provider ID of its Node; empty after the deletion of a machine that was never created.
    pub provider_id: String,
    /// Whether it is a control plane machine.
    pub control_plane: bool,
    pub version: String,
    pub failure_domain: String,
    /// The region of the zone.
    pub region: String,
    pub instance_type: String,
    /// The image that it boots from.
    pub image: String,
    /// Its known addresses: before it is created, only those from pools.
    pub addresses: Vec<MachineAddress>,
}

/// The answer of the extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No extension objects.
    Continue,
    /// Not now; call the hook again.
    Wait {
        /// The time until the next call.
        after: Duration,
        /// Which extension says so, and why. The same answer gives the same message.
        message: String,
    },
}

/// The hook could not be called, or failed. Displays as its cause.
#[derive(Debug)]
pub struct HookError {
    /// The category of the error, out of a small fixed set.
    pub category: &'static str,
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

/// No extension is registered: every machine may continue.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl MachineHooks for NoHooks {
    fn before_create<'a>(&'a self, _: MachineInQuestion<'a>) -> BoxFuture<'a, Result<Answer, HookError>> {
        future::ready(Ok(Answer::Continue)).boxed()
    }

    fn after_delete<'a>(&'a self, _: MachineInQuestion<'a>) -> BoxFuture<'a, Result<Answer, HookError>> {
        future::ready(Ok(Answer::Continue)).boxed()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }
}
