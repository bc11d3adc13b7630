//! A world with one manager and no trouble.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use nephele_standin::{Plan, PlannedClusters};
use nephele_state::MemoryDisk;
use nephele_testkit::ManagementApi;
use tokio_util::sync::CancellationToken;

use crate::connection::{Conditions, Connection};
use crate::hub::Hub;
use crate::process::{Process, Settings};
use crate::scenario::Scope;
use crate::time::WorldClock;
use crate::world::{create_pools, management_api, play_cluster_api};

/// The world.
pub(crate) struct Quiet {
    pub(crate) api: ManagementApi,
    /// The clusters that the stand-in for Cluster API takes care of.
    pub(crate) planned: PlannedClusters,
    /// The way to workload clusters.
    pub(crate) hub: Hub,
    standin: CancellationToken,
    manager: Process,
}

impl Quiet {
    /// Starts it. The manager's lease lasts for `lease`.
    pub(crate) async fn start(lease: Duration) -> Self {
        Self::with_disk(lease, false).await
    }

    /// Starts it, with a manager that may keep the objects of workload clusters.
    pub(crate) async fn with_disk(lease: Duration, keeps_state: bool) -> Self {
        let clock = WorldClock::start();
        let api = management_api("management", &clock).await;
        create_pools(&api, "default", 0).await;
        let planned = PlannedClusters::new(Plan::default());
        let hub = Hub::default();
        let standin = CancellationToken::new();
        play_cluster_api(&api, &planned, &hub, &clock, standin.clone());
        let conditions = Conditions { trouble: Arc::default(), away: Arc::default() };
        let connection =
            Connection::new(api.server().clone(), 0, "manager".to_owned(), conditions, Arc::new(|_| {}));
        let settings = Settings {
            scope: Scope::All,
            shares_ports: false,
            quota: 0,
            disk: keeps_state.then(MemoryDisk::default),
            lease: Some(lease),
        };
        let manager = Process::start(connection, "manager".to_owned(), &clock, settings);
        hub.set(std::iter::once(manager.network.clone()));
        Self { api, planned, hub, standin, manager }
    }

    /// The routes of the manager's cloud.
    pub(crate) fn routes(&self) -> Router {
        self.manager.routes.clone()
    }

    /// Stops the manager and the stand-in.
    pub(crate) async fn stop(self) {
        self.manager.stop().await;
        self.standin.cancel();
    }
}
