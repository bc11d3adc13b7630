//! The report of a run, as plain values. Pure.

mod html;
mod svg;
mod text;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

pub(super) use html::page;
pub(super) use text::text;

use super::controllers::ControllerUse;
use super::percentiles::{Percentiles, seconds};
use super::record::{ClusterStep, MachineStep, Record};

/// The most reasons that are listed for Clusters that are not available.
pub(super) const REASONS_MAX: usize = 5;

/// How the times were measured.
pub(super) const METHOD: &str = "Times are those at which this program's watch showed a change. A Cluster begins when \
    the request for it is sent, a Machine when the watch first shows it.";

/// Everything about a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) settings: Settings,
    pub(super) outcome: Outcome,
    /// How the times were measured.
    pub(super) method: String,
    pub(super) steps: Vec<Step>,
    pub(super) controllers: Vec<ControllerUse>,
    /// What a reader of the figures has to know.
    pub(super) notes: Vec<String>,
    pub(super) clusters: Vec<ClusterRow>,
}

/// What was asked for, and of whom.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settings {
    pub(super) started: Timestamp,
    /// The version of this program.
    pub(super) nephele: String,
    /// The version of the management cluster's API server.
    pub(super) management: String,
    pub(super) namespace: String,
    pub(super) flavor: String,
    pub(super) clusters: usize,
    pub(super) control_plane: usize,
    pub(super) workers: usize,
    pub(super) kubernetes_version: String,
    pub(super) parallel: usize,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    pub(super) available: usize,
    /// From the first request for a Cluster until the last one was available, or until the run ended without that.
    pub(super) seconds: f64,
    /// Why not all Clusters became available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
    /// How long the deletion took; none when nothing was deleted, or not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deletion_seconds: Option<f64>,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Step {
    pub(super) of: &'static str,
    pub(super) name: &'static str,
    #[serde(flatten)]
    pub(super) percentiles: Percentiles,
}

/// The times of a Cluster, in seconds from the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterRow {
    pub(super) name: String,
    pub(super) created: f64,
    pub(super) reached: BTreeMap<ClusterStep, f64>,
}

impl Report {
    pub(super) fn new(
        settings: Settings,
        record: &Record,
        elapsed: Duration,
        failure: Option<String>,
    ) -> Self {
        let available = record.clusters_at(ClusterStep::Available);
        let sent = record.clusters.values().filter_map(|times| times.sent).min().unwrap_or_default();
        let reached =
            record.clusters.values().filter_map(|times| times.reached.get(&ClusterStep::Available).copied());
        let end = reached.max().filter(|_| failure.is_none()).unwrap_or(elapsed);
        let elapsed = end.saturating_sub(sent);
        Self {
            outcome: Outcome { available, seconds: seconds(elapsed), failure, deletion_seconds: None },
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
        Some(Step { of: "Cluster", name, percentiles })
    });
    let of_machines = MachineStep::ALL.into_iter().filter_map(|step| {
        let times = record.machines.values();
        let times = times.filter_map(|times| Some(times.reached.get(&step)?.saturating_sub(times.seen)));
        let percentiles = Percentiles::of(times.collect())?;
        let name = match step {
            MachineStep::Running => "running",
            MachineStep::Ready => "ready",
        };
        Some(Step { of: "Machine", name, percentiles })
    });
    of_clusters.chain(of_machines).collect()
}

fn rows(record: &Record) -> Vec<ClusterRow> {
    let row = |(name, times): (&String, &super::record::ClusterTimes)| {
        let reached = times.reached.iter().map(|(step, at)| (*step, seconds(*at)));
        Some(ClusterRow { name: name.clone(), created: seconds(times.sent?), reached: reached.collect() })
    };
    record.clusters.iter().filter_map(row).collect()
}

/// Why not all Clusters are available, in one line. The list is short however many they are.
pub(super) fn reasons(missing: &[(String, String)]) -> String {
    let mut lines: Vec<_> = missing
        .iter()
        .take(REASONS_MAX)
        .map(|(name, reason)| format!("{name}: {}", reason.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect();
    if missing.len() > REASONS_MAX {
        lines.push(format!("and {} more", missing.len() - REASONS_MAX));
    }
    lines.join("; ")
}

#[cfg(test)]
pub(super) mod tests;
