//! `nephele journal show`: the lines of the journal, from the manager or from a file.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};
use jiff::Timestamp;
use nephele_cloud::{JournalFilter, JournalLine};
use nephele_engine::Line;
use nephele_model::Verb;
use tokio_util::sync::CancellationToken;

use super::{account, story};
use crate::{
    access::AccessArgs,
    diagnostics::{Ask, TokenArgs},
    exit::{Exit, Problem},
    output::print,
    provider::ProviderArgs,
    suggestion,
};

pub(super) const AFTER_HELP: &str = "\
The manager remembers the last 4,096 records since its start. Calls that only read, or that change
nothing, are not recorded unless a fault matches them.";

/// The longest line. The manager's are far shorter: an error lists at most twelve names.
const LINE_MAX: usize = 64 * 1024;

/// Each record is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A journal file, as `nephele up` and `nephele manager --journal FILE` write it [default: ask the manager]
    #[arg(conflicts_with_all = ["token_file", "manager_namespace", "insecure_manager"])]
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
    /// Only records of the last DURATION, such as 10m, by the clock of this machine.
    #[arg(long, value_name = "DURATION", value_parser = nephele_go_duration::parse)]
    since: Option<Duration>,
    /// Also print what happens from now on.
    #[arg(long, short, conflicts_with = "file")]
    follow: bool,
    #[command(flatten)]
    provider: ProviderArgs,
    #[command(flatten)]
    token: TokenArgs,
    /// How to print the records, one line each.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// Shows the journal of a file, or of the manager.
pub(super) async fn run(args: ShowArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    match &args.file {
        Some(file) => {
            let filter = args.filter(args.access.namespace.clone(), Timestamp::now());
            if show_file(file, &filter, args.output)? == 0 {
                tell_of_none(&filter);
            }
        }
        None => show_manager(&args, &shutdown).await?,
    }
    Ok(ExitCode::SUCCESS)
}

impl ShowArgs {
    fn filter(&self, namespace: Option<String>, now: Timestamp) -> JournalFilter {
        JournalFilter {
            namespace,
            cluster: self.cluster.clone(),
            machine: self.machine.clone(),
            operation: self.operation.clone(),
            fault: self.fault.clone(),
            // Whoever asks for more than there can be asks for all.
            since: self.since.and_then(|since| now.checked_sub(since).ok()),
        }
    }
}

/// Says, beside the output, that no record matches: a misspelt name looks the same as silence.
fn tell_of_none(filter: &JournalFilter) {
    let JournalFilter {
        namespace,
        cluster,
        machine,
        operation,
        fault,
        since,
    } = filter;
    let since = since.map(|since| since.to_string());
    let conditions = [
        ("namespace", namespace),
        ("cluster", cluster),
        ("machine", machine),
        ("operation", operation),
        ("fault", fault),
        ("since", &since),
    ];
    let conditions = conditions
        .iter()
        .filter_map(|(name, value)| Some(format!(" {name}={}", value.as_ref()?)));
    let conditions: String = conditions.collect();
    let mut text = match conditions.as_str() {
        "" => "The journal has no record".to_owned(),
        conditions => format!("No record matches:{conditions}"),
    };
    if let Some(operation) = operation {
        let near = suggestion::near(operation, Verb::ALL.map(Verb::as_str));
        if !near.is_empty() && !near.contains(&operation.as_str()) {
            text += &format!("; {}", suggestion::question(&near));
        }
    }
    eprintln!("{text}");
}

/// Shows the records of a file, and counts them. A file that a manager still writes may end within a line.
fn show_file(path: &Path, filter: &JournalFilter, format: Format) -> anyhow::Result<usize> {
    let mut shown = 0;
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
            shown += 1;
        }
    }
    Ok(shown)
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
    let filter = args.filter(namespace.clone(), Timestamp::now());
    let ask = Ask {
        about: "the journal",
        method: Method::GET,
        path: path(&filter, args.follow)?,
        body: Bytes::new(),
    };
    let namespace = namespace.as_deref();
    let manager = account::manager(&access, &args.provider, &args.token, namespace).await?;
    let reading = async {
        let answer = manager.ask(&ask).await?.succeeded(ask.about).await?;
        show_lines(answer.body, args.output).await
    };
    let shown = shutdown.run_until_cancelled(reading).await;
    let ended = shown.unwrap_or(Ok((Ended::ByManager, 0)));
    let left = manager.leave().await;
    let (ended, shown) = ended?;
    left?;
    if shown == 0 && !shutdown.is_cancelled() {
        tell_of_none(&filter);
    }
    if ended == Ended::NoAccess {
        let message = "the manager ended the journal: the token may not read it any more";
        return Err(Problem::new(Exit::Forbidden, message).into());
    }
    anyhow::ensure!(
        !args.follow || shutdown.is_cancelled(),
        "the manager ended the journal: it stopped; run the command again to follow its successor"
    );
    Ok(())
}

/// The path with the parameters of the filter.
pub(crate) fn path(filter: &JournalFilter, follow: bool) -> anyhow::Result<String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let serde_json::Value::Object(fields) = serde_json::to_value(filter)? {
        for (name, value) in &fields {
            query.append_pair(name, value.as_str().unwrap_or_default());
        }
    }
    query.append_pair("follow", if follow { "true" } else { "false" });
    Ok(format!("/journal?{}", query.finish()))
}

/// Why there are no more lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// All were read, or the manager stopped.
    ByManager,
    /// The token may not read them any more.
    NoAccess,
}

/// Shows the lines as they come, and counts them.
async fn show_lines(
    mut body: impl Body<Data = Bytes, Error = anyhow::Error> + Unpin,
    format: Format,
) -> anyhow::Result<(Ended, usize)> {
    let mut rest = Vec::new();
    let mut ended = Ended::ByManager;
    let mut count = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.context("failed to read the journal")?;
        rest.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        let mut shown = 0;
        while let Some(length) = rest[shown..].iter().position(|byte| *byte == b'\n') {
            let line = &rest[shown..shown + length];
            let line = serde_json::from_slice::<JournalLine>(line);
            let line = line.context("failed to understand a line of the journal")?;
            if line.event == JournalLine::ACCESS_ENDED {
                ended = Ended::NoAccess;
            }
            show(&line, format)?;
            count += 1;
            shown += length + 1;
        }
        rest.drain(..shown);
        anyhow::ensure!(
            rest.len() <= LINE_MAX,
            "a line of the journal is longer than {LINE_MAX} bytes"
        );
    }
    Ok((ended, count))
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn a_last_line_tells_that_the_token_may_not_read_on() {
        let ended = async |event: &str| {
            let line =
                format!("{{\"sequence\":7,\"time\":\"1970-01-01T00:00:00Z\",\"event\":\"{event}\"}}\n");
            let body = Full::new(Bytes::from(line)).map_err(|never| match never {});
            let (ended, _) = show_lines(body, Format::Json).await.expect("it is read");
            ended
        };
        assert_eq!(
            [ended("RecordsMissed").await, ended("AccessEnded").await],
            [Ended::ByManager, Ended::NoAccess]
        );
    }

    #[test]
    fn the_filter_becomes_the_parameters_of_the_request() {
        let some = |text: &str| Some(text.to_owned());
        let filter = JournalFilter {
            namespace: some("default"),
            machine: some("a&b=c"),
            since: Some(Timestamp::UNIX_EPOCH),
            ..JournalFilter::default()
        };
        let asked = path(&filter, true).expect("a path");
        assert_eq!(
            asked,
            "/journal?machine=a%26b%3Dc&namespace=default&since=1970-01-01T00%3A00%3A00Z&follow=true"
        );
        assert_eq!(
            path(&JournalFilter::default(), false).expect("a path"),
            "/journal?follow=false"
        );
    }
}
