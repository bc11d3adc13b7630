//! A manager in a world: the product, put together as its own process would.

use std::sync::Arc;
use std::time::Duration;

use nephele_cloud::{InProcess, Network};
use nephele_manager::{Clients, Config, Manager, Options, RunError};
use nephele_state::MemoryDisk;
use prometheus::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::scenario::Scope;
use crate::time::WorldClock;

/// The namespace of clusters with even numbers.
pub(crate) const EVEN: &str = "default";
/// The namespace of clusters with odd numbers.
pub(crate) const ODD: &str = "odd";
/// The lease that managers compete for.
pub(crate) const LEASE: (&str, &str) = ("default", "nephele");

/// Ports of workload clusters: fewer than a world makes clusters in its life.
const PORTS: &str = "20000-20009";
/// Ports of workload clusters of managers that see one namespace, as ARCHITECTURE wants it where managers share a host.
const PORTS_OF_ONE_NAMESPACE: &str = "20010-20019";

/// What a manager is told.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) scope: Scope,
    /// Whether a manager that sees one namespace takes its ports from where one of all namespaces does.
    pub(crate) shares_ports: bool,
    /// Machines that a namespace may have; 0 for any number.
    pub(crate) quota: u32,
    /// Where the objects of clusters are kept, if they are.
    pub(crate) disk: Option<MemoryDisk>,
}

/// A manager that runs.
pub(crate) struct Process {
    pub(crate) identity: String,
    pub(crate) connection: Arc<Connection>,
    /// What it serves.
    pub(crate) network: InProcess,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Process {
    pub(crate) fn start(
        connection: Arc<Connection>,
        identity: String,
        clock: &WorldClock,
        settings: Settings,
    ) -> Self {
        let Settings { scope, shares_ports, quota, disk } = settings;
        let (namespace, watch_filter) = match scope {
            Scope::All => (String::new(), String::new()),
            Scope::Even => (EVEN.to_owned(), String::new()),
            Scope::Nothing => (String::new(), "nobody".to_owned()),
        };
        let ports = if scope == Scope::Even && !shares_ports { PORTS_OF_ONE_NAMESPACE } else { PORTS };
        let options = Options {
            namespace,
            watch_filter,
            leader_elect: true,
            leader_election_id: format!("{}/{}", LEASE.0, LEASE.1),
            diagnostics_address: String::new(),
            health_address: String::new(),
            workload_ports: ports.to_owned(),
            machines_max: quota,
            state_dir: disk.as_ref().map(|_| "in memory".to_owned()).unwrap_or_default(),
            seed: "world".to_owned(),
            identity: identity.clone(),
            ..Options::default()
        };
        let config = Config::new(options).expect("these options are a configuration");
        let manager = Manager::build_with(config, Clients::one(connection.client()), Registry::new());
        let network = InProcess::keeping_on(disk.unwrap_or_default());
        let manager =
            manager.expect("nothing to listen on").within(clock.clock(), Network::InProcess(network.clone()));
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(manager.run(shutdown.clone()));
        Self { identity, connection, network, shutdown, task }
    }

    /// Whether it has ended by itself, as a manager does that lost its lease; whoever supervises it starts another.
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        match self.task.await {
            Ok(Ok(()) | Err(RunError::Task(_) | RunError::Cloud(_))) => {}
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Ends it as seen from outside: nothing it still does is heard of. Its memory goes in its own time.
    pub(crate) async fn kill(self) {
        self.connection.sever();
        self.stop().await;
    }

    /// How long a supervisor takes to start a process again.
    pub(crate) const START: Duration = Duration::from_secs(1);
}
