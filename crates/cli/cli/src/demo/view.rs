//! The demo's view of the clusters, and its lines of text. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, types},
    core::{Cluster, Machine},
    infrastructure::v1beta2::InMemoryMachine,
    ipam::v1alpha2::InClusterIPPool,
    labels,
};
use nephele_fake_capi::AVAILABLE;
use nephele_page::Stage;

/// All clusters, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) pools: BTreeMap<String, PoolView>,
    pub(super) clusters: BTreeMap<String, ClusterView>,
}

/// A pool of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolView {
    pub(super) addresses: String,
    /// How many addresses are in use; `None` before the pool has a status.
    pub(super) usage: Option<String>,
}

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterView {
    pub(super) phase: String,
    pub(super) endpoint: Option<String>,
    pub(super) available: bool,
    /// Why it is not available.
    pub(super) message: String,
    pub(super) machines: BTreeMap<String, MachineView>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MachineView {
    pub(super) phase: String,
    pub(super) address: Option<String>,
    pub(super) stages: Vec<(&'static str, Stage)>,
    /// Why it is not ready.
    pub(super) message: String,
}

fn mark(stage: Stage) -> char {
    match stage {
        Stage::Waiting | Stage::Terminated => '·',
        Stage::Starting => '◐',
        Stage::Up => '●',
        Stage::Failed => '✗',
    }
}

impl View {
    pub(super) fn new(
        pools: &[&InClusterIPPool],
        clusters: &[&Cluster],
        machines: &[&Machine],
        infrastructure: &[&InMemoryMachine],
    ) -> Self {
        let mut view = Self::default();
        for pool in pools {
            view.pools.insert(pool.name_any(), PoolView::new(pool));
        }
        for cluster in clusters {
            view.clusters
                .insert(cluster.name_any(), ClusterView::new(cluster));
        }
        for machine in machines {
            let Some(cluster) = view.clusters.get_mut(&machine.spec.cluster_name) else {
                continue;
            };
            let reference = machine.spec.infrastructure_ref.as_ref();
            let infrastructure = reference.and_then(|reference| {
                infrastructure
                    .iter()
                    .find(|other| other.name_any() == reference.name)
            });
            cluster.machines.insert(
                machine.name_any(),
                MachineView::new(machine, infrastructure.copied()),
            );
        }
        view
    }

    /// Whether all clusters of these names are available.
    pub(super) fn are_available<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        names.all(|name| self.clusters.get(name).is_some_and(|cluster| cluster.available))
    }

    /// The clusters and machines that are not up yet, with the reasons.
    pub(super) fn what_is_missing(&self) -> String {
        let mut missing = Vec::new();
        for (name, cluster) in self.clusters.iter().filter(|(_, cluster)| !cluster.available) {
            missing.push(format!(
                "cluster {name}: {}",
                or(&cluster.message, "no status yet")
            ));
            for (name, machine) in cluster.machines.iter().filter(|(_, m)| !m.is_up()) {
                missing.push(format!(
                    "machine {name} is {}: {}",
                    or(&machine.phase, "new"),
                    or(&machine.message, "-")
                ));
            }
        }
        if missing.is_empty() {
            "there are no clusters".to_owned()
        } else {
            missing.join("; ")
        }
    }

    /// The picture, line by line.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, PoolView { addresses, usage }) in &self.pools {
            let usage = usage.as_deref().unwrap_or("no manager looks after it yet");
            lines.push(format!("{name:<28} {:<13} {addresses:<28} {usage}", "Pool"));
        }
        for (name, cluster) in &self.clusters {
            let up = cluster
                .machines
                .values()
                .filter(|machine| machine.is_up())
                .count();
            let state = if cluster.available {
                "Available"
            } else {
                or(&cluster.phase, "Pending")
            };
            let endpoint = cluster.endpoint.as_deref().unwrap_or("no endpoint yet");
            lines.push(format!(
                "{name:<28} {state:<13} {endpoint:<28} {up}/{} machines",
                cluster.machines.len()
            ));
            for (name, machine) in &cluster.machines {
                let stages: Vec<_> = machine
                    .stages
                    .iter()
                    .map(|(name, stage)| format!("{} {name}", mark(*stage)))
                    .collect();
                let address = machine.address.as_deref().unwrap_or("");
                let phase = or(&machine.phase, "Pending");
                lines.push(format!(
                    "  {name:<26} {phase:<13} {:<38} {address}",
                    stages.join("  ")
                ));
            }
        }
        lines
    }

    /// The changes since `before`, one line each.
    pub(super) fn news(&self, before: &Self) -> Vec<String> {
        let mut news = Vec::new();
        for (name, pool) in &self.pools {
            let old = before.pools.get(name).and_then(|old| old.usage.as_ref());
            if pool.usage.as_ref() != old {
                news.extend(pool.usage.iter().map(|usage| format!("pool {name}: {usage}")));
            }
        }
        let no_cluster = ClusterView::default();
        for (name, cluster) in &self.clusters {
            let old = before.clusters.get(name).unwrap_or(&no_cluster);
            if cluster.endpoint != old.endpoint
                && let Some(endpoint) = &cluster.endpoint
            {
                news.push(format!("{name}: endpoint {endpoint}"));
            }
            for (machine_name, machine) in &cluster.machines {
                news.extend(
                    machine
                        .news(machine_name, old.machines.get(machine_name))
                        .map(|text| format!("{name}: {text}")),
                );
            }
            let gone = old
                .machines
                .keys()
                .filter(|machine| !cluster.machines.contains_key(*machine));
            news.extend(gone.map(|machine| format!("{name}: {machine} is gone")));
            if cluster.available != old.available {
                news.push(format!(
                    "{name}: {}available",
                    if cluster.available { "" } else { "not " }
                ));
            }
        }
        let gone = before
            .clusters
            .keys()
            .filter(|name| !self.clusters.contains_key(*name));
        news.extend(gone.map(|name| format!("{name}: gone")));
        news
    }
}

impl PoolView {
    fn new(pool: &InClusterIPPool) -> Self {
        let counted = pool
            .status
            .as_ref()
            .and_then(|status| status.ip_addresses.as_ref());
        Self {
            addresses: pool.spec.addresses.join(" "),
            usage: counted.map(|counted| match counted.total {
                // A total this large is not exact, so it is not shown.
                i64::MAX => format!("{} in use", counted.used),
                total => format!("{} of {total} in use", counted.used),
            }),
        }
    }
}

impl ClusterView {
    fn new(cluster: &Cluster) -> Self {
        let status = cluster.status.clone().unwrap_or_default();
        let available = conditions::find(&status.conditions, AVAILABLE);
        let endpoint = cluster
            .spec
            .control_plane_endpoint
            .as_ref()
            .filter(|endpoint| endpoint.port != 0);
        Self {
            phase: status.phase.clone(),
            endpoint: endpoint.map(|endpoint| format!("https://{endpoint}")),
            available: available.is_some_and(|condition| condition.status == conditions::TRUE),
            message: available
                .map(|condition| condition.message.clone())
                .unwrap_or_default(),
            machines: BTreeMap::new(),
        }
    }
}

impl MachineView {
    fn new(machine: &Machine, infrastructure: Option<&InMemoryMachine>) -> Self {
        let status = machine.status.clone().unwrap_or_default();
        let reported = infrastructure.and_then(|other| other.status.as_ref());
        let stage = |condition: &str| {
            infrastructure
                .and_then(|other| Stage::of(other, condition))
                .unwrap_or(Stage::Waiting)
        };
        let mut stages = vec![
            ("vm", stage(types::VM_PROVISIONED)),
            ("node", stage(types::NODE_PROVISIONED)),
        ];
        if labels::is_control_plane(&machine.metadata) {
            stages.push(("etcd", stage(types::ETCD_PROVISIONED)));
            stages.push(("apiserver", stage(types::API_SERVER_PROVISIONED)));
        }
        let addresses = reported
            .map(|status| status.addresses.as_slice())
            .unwrap_or_default();
        let addresses: Vec<&str> = addresses
            .iter()
            .filter(|a| a.kind == "InternalIP")
            .map(|a| a.address.as_str())
            .collect();
        let ready = conditions::find(&status.conditions, types::READY);
        Self {
            phase: status.phase,
            address: (!addresses.is_empty()).then(|| addresses.join(" ")),
            stages,
            message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
        }
    }

    fn is_up(&self) -> bool {
        self.phase == nephele_fake_capi::RUNNING && self.stages.iter().all(|(_, stage)| *stage == Stage::Up)
    }

    fn news(&self, name: &str, old: Option<&Self>) -> impl Iterator<Item = String> {
        let was = |stage: &str| {
            old.and_then(|old| old.stages.iter().find(|(other, _)| *other == stage))
                .map(|(_, s)| *s)
        };
        let mut news = Vec::new();
        if old.is_none() {
            news.push(format!("{name} is new"));
        }
        for (stage, now) in &self.stages {
            match now {
                Stage::Up if was(stage) != Some(Stage::Up) => news.push(format!("{name}: {stage} is up")),
                Stage::Failed if was(stage) != Some(Stage::Failed) => {
                    news.push(format!("{name}: {stage} failed"));
                }
                _ => {}
            }
        }
        if self.address.is_some() && old.and_then(|old| old.address.as_ref()) != self.address.as_ref() {
            news.extend(
                self.address
                    .as_ref()
                    .map(|address| format!("{name}: address {address}")),
            );
        }
        if !self.phase.is_empty() && old.is_none_or(|old| old.phase != self.phase) {
            news.push(format!("{name} is {}", self.phase));
        }
        news.into_iter()
    }
}

fn or<'a>(text: &'a str, fallback: &'a str) -> &'a str {
    if text.is_empty() { fallback } else { text }
}
