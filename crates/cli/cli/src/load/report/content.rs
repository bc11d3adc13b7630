//! What a report says, as plain values. Pure.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::Serialize;

use crate::load::{
    controllers::ControllerUse,
    percentiles::{Percentiles, seconds},
    record::{ClusterStep, ClusterTimes, MachineStep, Record},
};

/// How the times were measured.
pub(in crate::load) const METHOD: &str = "Times are those at which this program's watch showed a change. A Cluster begins when \
    the request for it is sent, a Machine when the watch first shows it.";

/// Everything about a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::load) struct Report {
    pub(in crate::load) settings: Settings,
    pub(in crate::load) outcome: Outcome,
    /// How the times were measured.
    pub(in crate::load) method: String,
    pub(in crate::load) steps: Vec<Step>,
    pub(in crate::load) controllers: Vec<ControllerUse>,
    /// What a reader of the figures has to know.
    pub(in crate::load) notes: Vec<String>,
    pub(in crate::load) clusters: Vec<ClusterRow>,
}

/// What was asked for, and of whom.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::load) struct Settings {
    pub(in crate::load) started: Timestamp,
    /// The version of this program.
    pub(in crate::load) nephele: String,
    /// The version of the management cluster's API server.
    pub(in crate::load) management: String,
    pub(in crate::load) namespace: String,
    pub(in crate::load) flavor: String,
    pub(in crate::load) clusters: usize,
    pub(in crate::load) control_plane: usize,
    pub(in crate::load) workers: usize,
    pub(in crate::load) kubernetes_version: String,
    pub(in crate::load) parallel: usize,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::load) struct Outcome {
    pub(in crate::load) available: usize,
    /// From the first request for a Cluster until the last one was available, or until the run ended without that.
    pub(in crate::load) seconds: f64,
    /// Why not all Clusters became available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::load) failure: Option<String>,
    /// How long the deletion took; none when nothing was deleted, or not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::load) deletion_seconds: Option<f64>,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::load) struct Step {
    pub(in crate::load) of: &'static str,
    pub(in crate::load) name: &'static str,
    #[serde(flatten)]
    pub(in crate::load) percentiles: Percentiles,
}

/// The times of a Cluster, in seconds from the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::load) struct ClusterRow {
    pub(in crate::load) name: String,
    pub(in crate::load) created: f64,
    pub(in crate::load) reached: BTreeMap<ClusterStep, f64>,
}

impl Report {
    pub(in crate::load) fn new(
        settings: Settings,
        record: &Record,
        elapsed: Duration,
        failure: Option<String>,
    ) -> Self {
        let available = record.clusters_at(ClusterStep::Available);
        let sent = record
            .clusters
            .values()
            .filter_map(|times| times.sent)
            .min()
            .unwrap_or_default();
        let reached = record
            .clusters
            .values()
            .filter_map(|times| times.reached.get(&ClusterStep::Available).copied());
        let end = reached.max().filter(|_| failure.is_none()).unwrap_or(elapsed);
        let elapsed = end.saturating_sub(sent);
        Self {
            outcome: Outcome {
                available,
                seconds: seconds(elapsed),
                failure,
                deletion_seconds: None,
            },
            method: METHOD.to_owned(),
            steps: steps(record),
            controllers: Vec::new(),
            notes: Vec::new(),
            clusters: rows(record),
            settings,
        }
    }
}

fn steps(record: &Record) -> Vec<Step> {
    let of_clusters = ClusterStep::ALL.into_iter().filter_map(|step| {
        let times = record.clusters.values();
        let times = times.filter_map(|times| Some(times.reached.get(&step)?.saturating_sub(times.sent?)));
        let percentiles = Percentiles::of(times.collect())?;
        let name = match step {
            ClusterStep::InfrastructureProvisioned => "infrastructure provisioned",
            ClusterStep::ControlPlaneInitialized => "control plane initialized",
            ClusterStep::ControlPlaneAvailable => "control plane available",
            ClusterStep::Available => "available",
        };
        Some(Step {
            of: "Cluster",
            name,
            percentiles,
        })
    });
    let of_machines = MachineStep::ALL.into_iter().filter_map(|step| {
        let times = record.machines.values();
        let times = times.filter_map(|times| Some(times.reached.get(&step)?.saturating_sub(times.seen)));
        let percentiles = Percentiles::of(times.collect())?;
        let name = match step {
            MachineStep::Running => "running",
            MachineStep::Ready => "ready",
        };
        Some(Step {
            of: "Machine",
            name,
            percentiles,
        })
    });
    of_clusters.chain(of_machines).collect()
}

fn rows(record: &Record) -> Vec<ClusterRow> {
    let row = |(name, times): (&String, &ClusterTimes)| {
        let reached = times.reached.iter().map(|(step, at)| (*step, seconds(*at)));
        Some(ClusterRow {
            name: name.clone(),
            created: seconds(times.sent?),
            reached: reached.collect(),
        })
    };
    record.clusters.iter().filter_map(row).collect()
}
