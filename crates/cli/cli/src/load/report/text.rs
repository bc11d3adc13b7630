//! The report for a terminal. Pure.

use super::content::{METHOD, Report};
use crate::columns::columns;

/// The figures as tables.
pub(in crate::load) fn text(report: &Report) -> String {
    let Report {
        settings,
        outcome,
        steps,
        controllers,
        notes,
        ..
    } = report;
    let mut text = format!(
        "{} of {} clusters available after {:.1} s\n",
        outcome.available, settings.clusters, outcome.seconds
    );
    if !steps.is_empty() {
        text.push('\n');
        text.push_str(&columns(&table(report)));
    }
    if !controllers.is_empty() {
        text.push('\n');
        text.push_str(&columns(&controller_table(report)));
    }
    text.push_str(&format!("\n{METHOD}\n"));
    for note in notes {
        text.push_str(&format!("{note}\n"));
    }
    text
}

/// The table of steps, with a header.
pub(super) fn table(report: &Report) -> Vec<Vec<String>> {
    let header = ["SECONDS UNTIL", "COUNT", "P50", "P90", "P99", "MAX"]
        .map(str::to_owned)
        .to_vec();
    let rows = report.steps.iter().map(|step| {
        let percentiles = &step.percentiles;
        let times = [percentiles.p50, percentiles.p90, percentiles.p99, percentiles.max];
        let mut row = vec![
            format!("{} {}", step.of, step.name),
            percentiles.count.to_string(),
        ];
        row.extend(times.map(|time| format!("{time:.1}")));
        row
    });
    std::iter::once(header).chain(rows).collect()
}

/// The table of controllers, with a header.
pub(super) fn controller_table(report: &Report) -> Vec<Vec<String>> {
    let header = ["CONTROLLER", "CPU SECONDS", "CORES", "MIB BEFORE", "MIB MAX"]
        .map(str::to_owned)
        .to_vec();
    let rows = report.controllers.iter().map(|controller| {
        vec![
            controller.name.clone(),
            format!("{:.1}", controller.cpu_seconds),
            format!("{:.2}", controller.cores_mean),
            format!("{:.1}", controller.resident_mib_before),
            format!("{:.1}", controller.resident_mib_max),
        ]
    });
    std::iter::once(header).chain(rows).collect()
}
