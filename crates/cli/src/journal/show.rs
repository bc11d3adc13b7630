//! `nephele journal show`: the lines of the journal, from the manager or from a file.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use nephele_cloud::{JournalFilter, JournalLine};
use nephele_engine::Line;
use tokio_util::sync::CancellationToken;

use super::{account, story};
use crate::access::AccessArgs;
use crate::diagnostics::{Answer, Diagnostics, MANAGER_PODS, Target, targets};
use crate::exit::{Exit, Problem};
use crate::output::print;

pub(super) const AFTER_HELP: &str = "\
The manager remembers the last 4,096 records since its start. Calls that only read, or that change
nothing, are not recorded unless a fault matches them.";

/// The most replicas of the manager that are asked.
const PODS_MAX: usize = 16;
/// The longest line. The manager's are far shorter: an error lists at most twelve names.
const LINE_MAX: usize = 64 * 1024;
/// The longest answer that says why the journal cannot be read.
const REASON_MAX: usize = 4 * 1024;

/// Each record is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A journal file, as `nephele up` and `nephele manager --journal FILE` write it [default: ask the manager]
    file: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Records of all namespaces, as is usual for a file.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only records about this cluster, its load balancer and its machines.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only records about this InMemoryMachine.
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Only this operation, such as CreateInstance.
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Only operations that this Fault hit, and its events.
    #[arg(long, value_name = "NAME")]
    fault: Option<String>,
    /// Go on with what happens from now on.
    #[arg(long, short, conflicts_with = "file")]
    follow: bool,
    /// A token that may read /journal [default: that of an account which the command creates and removes]
    #[arg(long, conflicts_with = "file")]
    token: Option<String>,
    /// How to print the records, one line each.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// Shows the journal of a file, or of the manager.
pub(super) async fn run(args: ShowArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    match &args.file {
        Some(file) => {
            let filter = args.filter(args.access.namespace.clone());
            show_file(file, &filter, args.output)?;
        }
        None => show_manager(&args, &shutdown).await?,
    }
    Ok(ExitCode::SUCCESS)
}

impl ShowArgs {
    fn filter(&self, namespace: Option<String>) -> JournalFilter {
        JournalFilter {
            namespace,
            cluster: self.cluster.clone(),
            machine: self.machine.clone(),
            operation: self.operation.clone(),
            fault: self.fault.clone(),
        }
    }
}

/// Shows the records of a file. A file that a manager still writes may end within a line.
fn show_file(path: &Path, filter: &JournalFilter, format: Format) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| format!("failed to open {}", path.display()))?;
    let mut lines = BufReader::new(file).lines().zip(1u64..).peekable();
    while let Some((text, number)) = lines.next() {
        let text = text.with_context(|| format!("failed to read line {number} of {}", path.display()))?;
        let entry = match serde_json::from_str::<Line>(&text) {
            Ok(Line::Record(entry)) => entry,
            Ok(Line::State(_) | Line::Digest { .. }) => continue,
            Err(error) if error.is_eof() && lines.peek().is_none() => break,
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("failed to understand line {number} of {}", path.display()));
            }
        };
        let line = JournalLine::of(&entry);
        if filter.wants(&line) {
            show(&line, format)?;
        }
    }
    Ok(())
}

fn show(line: &JournalLine, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&story::text(line)),
        Format::Json => print(&(serde_json::to_string(line)? + "\n")),
    }
}

async fn show_manager(args: &ShowArgs, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let access = args.access.open().await?;
    let namespace = (!args.all_namespaces).then(|| access.namespace.clone());
    let path = path(&args.filter(namespace), args.follow)?;
    let managers = managers(&access.client).await?;
    let (token, account) = match &args.token {
        Some(token) => (token.clone(), None),
        None => {
            let account = account::create(&access.client).await?;
            (account.token.clone(), Some(account))
        }
    };
    let reading = async {
        let diagnostics = Diagnostics::new(access.client.clone(), token)?;
        let answer = ask(&diagnostics, &managers, &path).await?;
        show_lines(answer.body, args.output).await
    };
    let shown = shutdown.run_until_cancelled(reading).await.unwrap_or(Ok(()));
    let removed = match account {
        Some(account) => account.remove().await,
        None => Ok(()),
    };
    shown.and(removed)?;
    anyhow::ensure!(
        !args.follow || shutdown.is_cancelled(),
        "the manager stopped; run the command again to follow its successor"
    );
    Ok(())
}

/// The path with the parameters of the filter.
fn path(filter: &JournalFilter, follow: bool) -> anyhow::Result<String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let serde_json::Value::Object(fields) = serde_json::to_value(filter)? {
        for (name, value) in &fields {
            query.append_pair(name, value.as_str().unwrap_or_default());
        }
    }
    query.append_pair("follow", if follow { "true" } else { "false" });
    Ok(format!("/journal?{}", query.finish()))
}

/// The running pods of the manager.
async fn managers(client: &Client) -> anyhow::Result<Vec<Target>> {
    let listed = Api::<Pod>::all(client.clone()).list(&ListParams::default().labels(MANAGER_PODS)).await;
    let listed = listed
        .map_err(|error| Problem::request("find the manager's pod", "list pods in all namespaces", error))?;
    let managers = targets(&listed.items, PODS_MAX);
    if managers.is_empty() {
        let message = format!(
            "found no running pod of Nephele's manager; is the infrastructure provider installed in this cluster? \
             Its pods have the labels {MANAGER_PODS}"
        );
        return Err(Problem::new(Exit::NotFound, message).into());
    }
    Ok(managers)
}

/// The answer of the manager that runs the cloud: one of the replicas.
async fn ask(diagnostics: &Diagnostics, managers: &[Target], path: &str) -> anyhow::Result<Answer> {
    let mut reason = String::new();
    for manager in managers {
        let answer = diagnostics.get(manager, path).await;
        let answer = answer.with_context(|| format!("failed to read the journal of {}", manager.pod))?;
        let status = answer.status;
        if status.is_success() {
            return Ok(answer);
        }
        let said = answer.text(REASON_MAX).await?;
        reason = format!("{}: {status} {}", manager.pod, said.trim());
        match status {
            StatusCode::SERVICE_UNAVAILABLE => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let message = format!(
                    "failed to read the journal of {reason}; the token needs the permission to get /journal"
                );
                return Err(Problem::new(Exit::Forbidden, message).into());
            }
            StatusCode::NOT_FOUND => bail!(
                "failed to read the journal of {reason}; the manager serves it only when its diagnostics ask for a token"
            ),
            _ => bail!("failed to read the journal of {reason}"),
        }
    }
    bail!("failed to read the journal of {reason}")
}

/// Shows the lines as they come.
async fn show_lines(mut body: Incoming, format: Format) -> anyhow::Result<()> {
    let mut rest = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.context("failed to read the journal")?;
        rest.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        let mut shown = 0;
        while let Some(length) = rest[shown..].iter().position(|byte| *byte == b'\n') {
            let line = &rest[shown..shown + length];
            let line = serde_json::from_slice(line).context("failed to understand a line of the journal")?;
            show(&line, format)?;
            shown += length + 1;
        }
        rest.drain(..shown);
        anyhow::ensure!(rest.len() <= LINE_MAX, "a line of the journal is longer than {LINE_MAX} bytes");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_becomes_the_parameters_of_the_request() {
        let some = |text: &str| Some(text.to_owned());
        let filter =
            JournalFilter { namespace: some("default"), machine: some("a&b=c"), ..JournalFilter::default() };
        let asked = path(&filter, true).expect("a path");
        assert_eq!(asked, "/journal?machine=a%26b%3Dc&namespace=default&follow=true");
        assert_eq!(path(&JournalFilter::default(), false).expect("a path"), "/journal?follow=false");
    }
}
