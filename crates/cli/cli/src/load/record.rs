//! Folds what was seen of Clusters and Machines into times. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nephele_api::{
    conditions::{self, types},
    core::{Cluster, Machine},
};
use nephele_fake_capi::{AVAILABLE, RUNNING};
use serde::Serialize;

/// The most Machines that are remembered: what Nephele accepts in a namespace by default. A Machine takes less than
/// 300 bytes and a Cluster less than 1 KiB, so a run of 10,000 Clusters takes less than 40 MB.
pub(super) const MACHINES_MAX: usize = 100_000;

/// The condition of a Cluster whose control plane has as many machines up as it needs.
const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";

/// What a Cluster reaches on its way, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ClusterStep {
    InfrastructureProvisioned,
    ControlPlaneInitialized,
    ControlPlaneAvailable,
    Available,
}

impl ClusterStep {
    pub(super) const ALL: [Self; 4] = [
        Self::InfrastructureProvisioned,
        Self::ControlPlaneInitialized,
        Self::ControlPlaneAvailable,
        Self::Available,
    ];
}

/// What a Machine reaches on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum MachineStep {
    Running,
    Ready,
}

impl MachineStep {
    pub(super) const ALL: [Self; 2] = [Self::Running, Self::Ready];
}

/// Something that happened, and when, counted from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) at: Duration,
    pub(super) what: Seen,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// We sent the request that creates the Cluster.
    Sent { cluster: String },
    /// The watch showed the Cluster.
    Cluster {
        name: String,
        steps: BTreeSet<ClusterStep>,
        obstacle: String,
    },
    /// The watch showed that the Cluster is gone.
    Gone { cluster: String },
    /// The watch showed a Machine.
    Machine {
        name: String,
        steps: BTreeSet<MachineStep>,
    },
}

impl Seen {
    pub(super) fn cluster(name: String, cluster: &Cluster) -> Self {
        let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
        let conditions = conditions.unwrap_or_default();
        let reached = |step: &ClusterStep| match step {
            ClusterStep::InfrastructureProvisioned => cluster.is_infrastructure_provisioned(),
            ClusterStep::ControlPlaneInitialized => cluster.is_control_plane_initialized(),
            ClusterStep::ControlPlaneAvailable => conditions::is_true(conditions, CONTROL_PLANE_AVAILABLE),
            ClusterStep::Available => conditions::is_true(conditions, AVAILABLE),
        };
        let available = conditions::find(conditions, AVAILABLE);
        let obstacle = available.filter(|condition| condition.status != conditions::TRUE);
        Self::Cluster {
            name,
            steps: ClusterStep::ALL.into_iter().filter(reached).collect(),
            obstacle: obstacle
                .map(|condition| condition.message.clone())
                .unwrap_or_default(),
        }
    }

    pub(super) fn machine(name: String, machine: &Machine) -> Self {
        let status = machine.status.as_ref();
        let reached = |step: &MachineStep| {
            status.is_some_and(|status| match step {
                MachineStep::Running => status.phase == RUNNING,
                MachineStep::Ready => conditions::is_true(&status.conditions, types::READY),
            })
        };
        Self::Machine {
            name,
            steps: MachineStep::ALL.into_iter().filter(reached).collect(),
        }
    }
}

/// What is known about a Cluster: when it was first seen to have reached each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterTimes {
    /// When the request was sent that created it.
    pub(super) sent: Option<Duration>,
    pub(super) reached: BTreeMap<ClusterStep, Duration>,
    /// Why it was not available when it was last seen.
    pub(super) obstacle: (Duration, String),
    pub(super) is_gone: bool,
}

/// What is known about a Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MachineTimes {
    /// When it was first seen.
    pub(super) seen: Duration,
    pub(super) reached: BTreeMap<MachineStep, Duration>,
}

/// Everything that was seen. The order of the observations does not matter: the earliest time of each step counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) clusters: BTreeMap<String, ClusterTimes>,
    pub(super) machines: BTreeMap<String, MachineTimes>,
}

impl Record {
    pub(super) fn apply(&mut self, Observation { at, what }: Observation) {
        match what {
            Seen::Sent { cluster } => {
                let times = self.clusters.entry(cluster).or_default();
                times.sent = Some(times.sent.map_or(at, |sent| sent.min(at)));
            }
            Seen::Cluster {
                name,
                steps,
                obstacle,
            } => {
                let times = self.clusters.entry(name).or_default();
                steps
                    .into_iter()
                    .for_each(|step| keep_earliest(&mut times.reached, step, at));
                times.obstacle = std::mem::take(&mut times.obstacle).max((at, obstacle));
            }
            Seen::Gone { cluster } => self.clusters.entry(cluster).or_default().is_gone = true,
            Seen::Machine { name, steps } => {
                if self.machines.len() >= MACHINES_MAX && !self.machines.contains_key(&name) {
                    return;
                }
                let new = MachineTimes {
                    seen: at,
                    ..MachineTimes::default()
                };
                let times = self.machines.entry(name).or_insert(new);
                times.seen = times.seen.min(at);
                steps
                    .into_iter()
                    .for_each(|step| keep_earliest(&mut times.reached, step, at));
            }
        }
    }

    /// How many Clusters have reached a step.
    pub(super) fn clusters_at(&self, step: ClusterStep) -> usize {
        self.clusters
            .values()
            .filter(|times| times.reached.contains_key(&step))
            .count()
    }

    /// How many Machines have reached a step.
    pub(super) fn machines_at(&self, step: MachineStep) -> usize {
        self.machines
            .values()
            .filter(|times| times.reached.contains_key(&step))
            .count()
    }

    /// Whether nothing more is to be expected of these Clusters: each was available, or was deleted.
    pub(super) fn is_over(&self, names: &[String]) -> bool {
        names.iter().all(|name| {
            self.clusters
                .get(name)
                .is_some_and(|times| times.is_gone || times.reached.contains_key(&ClusterStep::Available))
        })
    }

    /// The Clusters that were never available, with the reasons.
    pub(super) fn missing(&self, names: &[String]) -> Vec<(String, String)> {
        let reason = |name: &String| match self.clusters.get(name) {
            Some(times) if times.reached.contains_key(&ClusterStep::Available) => None,
            Some(ClusterTimes { is_gone: true, .. }) => Some("it was deleted".to_owned()),
            Some(ClusterTimes {
                obstacle: (_, message),
                ..
            }) if !message.is_empty() => Some(message.clone()),
            Some(_) => Some("Cluster API has not reported on it; does its controller run?".to_owned()),
            None => Some("it was not created".to_owned()),
        };
        names
            .iter()
            .filter_map(|name| Some((name.clone(), reason(name)?)))
            .collect()
    }
}

fn keep_earliest<K: Ord>(reached: &mut BTreeMap<K, Duration>, step: K, at: Duration) {
    let earliest = reached.entry(step).or_insert(at);
    *earliest = (*earliest).min(at);
}

#[cfg(test)]
mod tests;
