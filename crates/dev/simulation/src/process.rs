//! A manager in a world: the product, assembled as in its own process.

use std::{sync::Arc, time::Duration};

use axum::Router;
use nephele_apiserver::{Key, Store};
use nephele_cloud::{InProcess, Network};
use nephele_manager::{Clients, Config, Manager, Options, RunError};
use nephele_state::MemoryDisk;
use prometheus::Registry;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{connection::Connection, scenario::Scope, time::WorldClock};

/// The namespace of clusters with even numbers, and the value of their watch filter's label.
pub(crate) const EVEN: &str = "default";
/// The namespace of clusters with odd numbers.
pub(crate) const ODD: &str = "odd";
/// The lease that managers compete for.
const LEASE: (&str, &str) = ("default", "nephele");

/// The identity of the manager that holds the lease, in a management API with this store; empty if none does.
pub(crate) fn holder(store: &Store) -> String {
    let lease = store.get(&Key::new("coordination.k8s.io", "leases", LEASE.0, LEASE.1));
    let holder = lease.map(|lease| lease.value()["spec"]["holderIdentity"].take());
    holder
        .as_ref()
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// The ports of workload clusters: fewer than a world creates clusters in total.
const PORTS: &str = "20000-20009";
/// The ports of workload clusters of managers that see the clusters with even numbers: docs/design asks for separate
/// ranges where managers share a host.
const PORTS_OF_SOME_CLUSTERS: &str = "20010-20019";

/// The settings of a manager.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) scope: Scope,
    /// Whether a manager of the clusters with even numbers uses the same port range as a manager of all namespaces.
    pub(crate) shares_ports: bool,
    /// The quota of machines in a namespace; 0 means no limit.
    pub(crate) quota: u32,
    /// The disk on which the objects of workload clusters are kept, if they are.
    pub(crate) disk: Option<MemoryDisk>,
    /// How long the lease lasts, if not for a manager's default.
    pub(crate) lease: Option<Duration>,
}

/// A running manager.
pub(crate) struct Process {
    pub(crate) identity: String,
    pub(crate) connection: Arc<Connection>,
    /// The network on which it serves workload clusters.
    pub(crate) network: InProcess,
    /// The routes of its cloud.
    pub(crate) routes: Router,
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
        let Settings {
            scope,
            shares_ports,
            quota,
            disk,
            lease,
        } = settings;
        let (namespace, watch_filter) = match scope {
            Scope::All => (String::new(), String::new()),
            Scope::Even => (EVEN.to_owned(), String::new()),
            Scope::LabelledEven => (String::new(), EVEN.to_owned()),
            Scope::LabelledOdd => (String::new(), ODD.to_owned()),
            Scope::Nothing => (String::new(), "unnamed".to_owned()),
        };
        let sees_some = matches!(scope, Scope::Even | Scope::LabelledEven);
        let ports = if sees_some && !shares_ports {
            PORTS_OF_SOME_CLUSTERS
        } else {
            PORTS
        };
        let defaults = Options::default();
        let times = (
            defaults.lease_duration,
            defaults.renew_deadline,
            defaults.retry_period,
        );
        let (lease_duration, renew_deadline, retry_period) =
            lease.map_or(times, |lease| (lease, lease / 3 * 2, lease / 8));
        let options = Options {
            lease_duration,
            renew_deadline,
            retry_period,
            namespace,
            watch_filter,
            leader_elect: true,
            // Two managers of different objects lead at the same time.
            leader_election_id: match scope {
                Scope::LabelledOdd => format!("{ODD}/{}", LEASE.1),
                _ => format!("{}/{}", LEASE.0, LEASE.1),
            },
            diagnostics_address: String::new(),
            health_address: String::new(),
            workload_ports: ports.to_owned(),
            moved_ports: format!("{PORTS},{PORTS_OF_SOME_CLUSTERS}"),
            machines_max: quota,
            state_dir: disk.as_ref().map(|_| "in memory".to_owned()).unwrap_or_default(),
            seed: "world".to_owned(),
            identity: identity.clone(),
            ..defaults
        };
        let config = Config::new(options)
            .expect("these options are a configuration")
            .with_stand_in();
        let manager = Manager::build_with(config, Clients::one(connection.client()), Registry::new());
        let network = InProcess::keeping_on(disk.unwrap_or_default());
        let manager = manager
            .expect("nothing to listen on")
            .within(clock.clock(), Network::InProcess(network.clone()));
        let shutdown = CancellationToken::new();
        let routes = manager.cloud_routes();
        let task = tokio::spawn(manager.run(shutdown.clone()));
        Self {
            identity,
            connection,
            network,
            routes,
            shutdown,
            task,
        }
    }

    /// Whether it has ended by itself, as a manager does that lost its lease. Its supervisor then starts another one.
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Stops the manager, and waits until it has ended.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        match self.task.await {
            Ok(Ok(()) | Err(RunError::Task(_) | RunError::Cloud(_))) => {}
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Kills the manager as seen from outside: none of its later requests arrives. Its tasks still end in an orderly
    /// way.
    pub(crate) async fn kill(self) {
        self.connection.sever();
        self.stop().await;
    }

    /// How long a supervisor takes to start a process again.
    pub(crate) const START: Duration = Duration::from_secs(1);
}
