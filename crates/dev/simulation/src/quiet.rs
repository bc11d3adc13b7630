//! A world without trouble, with one manager at a time.

use std::{sync::Arc, time::Duration};

use axum::Router;
use nephele_fake_capi::{Plan, PlannedClusters};
use nephele_state::MemoryDisk;
use nephele_testkit::ManagementApi;
use tokio_util::sync::CancellationToken;

use crate::{
    connection::{Conditions, Connection},
    hub::Hub,
    process::{Process, Settings},
    scenario::Scope,
    time::WorldClock,
    world::{create_pools, management_api, play_cluster_api},
};

/// The world.
pub(crate) struct Quiet {
    pub(crate) api: ManagementApi,
    /// The clusters that the stand-in for Cluster API takes care of.
    pub(crate) planned: PlannedClusters,
    /// The way to workload clusters.
    pub(crate) hub: Hub,
    clock: WorldClock,
    settings: Settings,
    fake_capi: CancellationToken,
    /// The managers that run, the one that leads first.
    managers: Vec<Process>,
    started: u32,
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
        let fake_capi = CancellationToken::new();
        play_cluster_api(&api, &planned, &hub, &clock, fake_capi.clone());
        let settings = Settings {
            scope: Scope::All,
            shares_ports: false,
            quota: 0,
            disk: keeps_state.then(MemoryDisk::default),
            lease: Some(lease),
        };
        let managers = Vec::new();
        let mut world = Self {
            api,
            planned,
            hub,
            clock,
            settings,
            fake_capi,
            managers,
            started: 0,
        };
        world.start_manager();
        world
    }

    /// Starts a manager, which leads once no other one does.
    pub(crate) fn start_manager(&mut self) {
        self.started += 1;
        let identity = match self.started {
            1 => "manager".to_owned(),
            number => format!("manager-{number}"),
        };
        let conditions = Conditions {
            trouble: Arc::default(),
            away: Arc::default(),
        };
        let server = self.api.server().clone();
        let connection = Connection::new(server, 0, identity.clone(), conditions, Arc::new(|_| {}));
        self.managers.push(Process::start(
            connection,
            identity,
            &self.clock,
            self.settings.clone(),
        ));
        self.show_managers();
    }

    /// Ends the manager that leads: in an orderly way, or as a crash does.
    pub(crate) async fn end_manager(&mut self, crashes: bool) {
        let manager = self.managers.remove(0);
        self.show_managers();
        if crashes {
            manager.kill().await;
        } else {
            manager.stop().await;
        }
    }

    fn show_managers(&self) {
        self.hub
            .set(self.managers.iter().map(|manager| manager.network.clone()));
    }

    /// The routes of the manager's cloud.
    pub(crate) fn routes(&self) -> Router {
        self.managers[0].routes.clone()
    }

    /// The name of the manager that leads, or comes next.
    pub(crate) fn manager(&self) -> Option<&str> {
        self.managers.first().map(|manager| manager.identity.as_str())
    }

    /// Stops the manager and the stand-in.
    pub(crate) async fn stop(mut self) {
        while !self.managers.is_empty() {
            self.end_manager(false).await;
        }
        self.fake_capi.cancel();
    }
}
