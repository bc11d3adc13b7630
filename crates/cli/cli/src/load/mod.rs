//! `nephele load`: creates many clusters on a management cluster, measures how long they take, and deletes them.
//!
//! ```text
//!  Shape ──plan (pure)──▶ objects ──create──▶ management API ◀── Cluster API, Nephele
//!                                                  │
//!        controllers' metrics                      └─follow─▶ observations ──record (pure)──▶ times
//!               └──samples (pure)──▶ use ─────────────────────────────────▶ report (pure) ◀────┘
//! ```

mod args;
mod controllers;
mod create;
mod follow;
mod management;
mod measure;
mod names;
mod percentiles;
mod plan;
mod preflight;
mod progress;
mod record;
mod remove;
mod report;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
pub(crate) use args::{AFTER_HELP, Args};
use args::{Checked, Format};
use controllers::Sampler;
#[cfg(test)]
pub(crate) use controllers::sample;
use jiff::Timestamp;
use management::Management;
use measure::{Ended, Measured};
use report::Report;
use tokio_util::sync::CancellationToken;

use crate::{
    exit::{Exit, Problem},
    output::{print, print_error},
    process::INTERRUPTED,
};

/// Creates, measures, reports and deletes. Whatever happens after the first creation, the clusters are deleted.
pub(crate) async fn run(args: Args, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let started = Timestamp::now();
    let access = args.target.open().await?;
    let checked = args.checked(&access.namespace, started)?;
    let socket = access.manager;
    let management = Management::new(access.client);
    let version = preflight::check(&management, &checked.shape).await?;
    let (sampler, notes) = Sampler::start(
        &management.client,
        socket.as_deref(),
        &checked.shape.run,
        checked.time_limit,
    )
    .await;
    let measured = measure::run(&management, &checked, sampler.clock(), &shutdown).await;
    let (controllers, more) = sampler.finish().await;
    let Measured {
        record,
        elapsed,
        ended,
        watch_failures,
    } = measured;
    let names = checked.shape.names();
    let failure = failure(&ended, &checked, &record.missing(&names));
    let mut report = Report::new(
        checked.settings(started, version),
        &record,
        elapsed,
        failure.clone(),
    );
    report.controllers = controllers;
    report.notes.extend(notes.into_iter().chain(more));
    if watch_failures > 0 {
        report.notes.push(format!(
            "The watches failed {watch_failures} times and were started again, so some times may be too long."
        ));
    }
    // Before the deletion, which can take long and be interrupted.
    let mut written = print(&report::text(&report)).and_then(|()| write_all(&checked.reports, &report));
    let removed = if checked.keep {
        print(&format!(
            "The clusters are kept; {}\n",
            remove::advice(&checked.shape)
        ))
    } else {
        let removed = remove::all(&management, &checked.shape, checked.time_limit, &shutdown).await;
        removed.and_then(|took| {
            report.outcome.deletion_seconds = Some(percentiles::seconds(took));
            written = std::mem::replace(&mut written, Ok(())).and(write_all(&checked.reports, &report));
            print(&format!(
                "Everything that was created is gone after {:.1} s\n",
                took.as_secs_f64()
            ))
        })
    };
    // The first failure is that of the program; the others are printed here.
    let mut outcomes = vec![written, removed];
    match ended {
        Ended::Interrupted => {}
        Ended::Refused(error) => outcomes.insert(0, Err(error)),
        Ended::AllAvailable | Ended::SomeGone | Ended::OutOfTime => {
            if let Some(failure) = failure {
                outcomes.insert(0, Err(Problem::new(Exit::Failed, failure).into()));
            }
        }
    }
    let mut errors = outcomes
        .into_iter()
        .filter_map(Result::err)
        .collect::<Vec<_>>()
        .into_iter();
    let first = errors.next();
    errors.for_each(|error| print_error(&error));
    match first {
        Some(error) => Err(error),
        None if shutdown.is_cancelled() => Ok(ExitCode::from(INTERRUPTED)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Why not all Clusters became available; `None` if they did.
fn failure(ended: &Ended, checked: &Checked, missing: &[(String, String)]) -> Option<String> {
    let count = missing.len();
    let all = checked.shape.clusters;
    let because = match ended {
        Ended::AllAvailable => return None,
        Ended::SomeGone => {
            format!(
                "{count} of {all} clusters were not available: {}",
                report::reasons(missing)
            )
        }
        Ended::OutOfTime => format!(
            "{count} of {all} clusters are not available within {} (--time-limit): {}",
            nephele_go_duration::format(checked.time_limit),
            report::reasons(missing)
        ),
        Ended::Interrupted => {
            format!("the run was interrupted; {count} of {all} clusters were not available")
        }
        Ended::Refused(error) => nephele_controller::chain(error.as_ref()),
    };
    Some(because)
}

fn write_all(reports: &[(PathBuf, Format)], report: &Report) -> anyhow::Result<()> {
    reports
        .iter()
        .try_for_each(|(path, format)| write(path, *format, report))
}

fn write(path: &Path, format: Format, report: &Report) -> anyhow::Result<()> {
    let text = match format {
        Format::Json => serde_json::to_string_pretty(report).context("failed to write JSON")? + "\n",
        Format::Html => report::page(report),
    };
    std::fs::write(path, text).with_context(|| format!("failed to write the report {}", path.display()))
}

#[cfg(test)]
mod tests;
