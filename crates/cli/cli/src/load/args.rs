//! The flags, and what they mean once they are checked.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::bail;
use clap::ValueEnum as _;
use jiff::Timestamp;

use super::{plan::Shape, record::MACHINES_MAX, report::Settings};
use crate::{access::TargetArgs, template::Flavor};

/// What the flags do not say.
pub(crate) const AFTER_HELP: &str = "\
The clusters are made from the program's own templates and have a class of their own. Other variables of a template, \
such as VM_STARTUP_DURATION of the flavor scale, are read from the environment. Ctrl-C ends the run and deletes the \
clusters; a second one ends the program at once.";

/// The most characters of the prefix: names of machines are longer than those of clusters, and have 63 at most.
const PREFIX_MAX: usize = 30;

/// The flags of `nephele load`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Number of clusters, 10,000 at most.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    clusters: u16,
    /// Number of workers of each cluster.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=1_000))]
    workers: u16,
    /// Number of control plane machines of each cluster.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=9))]
    control_plane: u16,
    /// The flavor of the template; `nephele template --help` tells them apart.
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Flavor::Topology)]
    flavor: Flavor,
    /// Namespace of the clusters; it must exist [default: that of the context]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// What the names of the clusters begin with.
    #[arg(long, value_name = "PREFIX", default_value = "load", value_parser = prefix)]
    name_prefix: String,
    /// The Kubernetes version of the clusters.
    #[arg(long, value_name = "VERSION", default_value = "v1.36.3", value_parser = version)]
    kubernetes_version: String,
    /// How many clusters are created at a time.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    parallel: u16,
    /// How long to wait until all clusters are available, and then until all are gone.
    #[arg(long, value_name = "DURATION", default_value = "60m", value_parser = nephele_go_duration::parse)]
    time_limit: Duration,
    /// Write a report to FILE.json or FILE.html; repeatable.
    #[arg(long = "report", value_name = "FILE")]
    reports: Vec<PathBuf>,
    /// Do not delete the clusters at the end.
    #[arg(long)]
    keep: bool,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Html,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) shape: Shape,
    pub(super) parallel: usize,
    pub(super) time_limit: Duration,
    pub(super) reports: Vec<(PathBuf, Format)>,
    pub(super) keep: bool,
}

impl Args {
    /// Checks what no single flag can know.
    pub(super) fn checked(self, context_namespace: &str, now: Timestamp) -> anyhow::Result<Checked> {
        let Self {
            target: _,
            clusters,
            workers,
            control_plane,
            flavor,
            namespace,
            name_prefix,
            kubernetes_version,
            parallel,
            time_limit,
            reports,
            keep,
        } = self;
        let shape = Shape {
            run: format!("{name_prefix}-{}", now.as_second()),
            namespace: namespace.unwrap_or_else(|| context_namespace.to_owned()),
            name_prefix,
            clusters: clusters.into(),
            control_plane: control_plane.into(),
            workers: workers.into(),
            kubernetes_version,
            flavor,
        };
        if shape.machines() > MACHINES_MAX {
            bail!(
                "{} machines are more than {MACHINES_MAX}, which is what Nephele accepts in a namespace; ask for fewer \
                 clusters or workers",
                shape.machines()
            );
        }
        let reports = reports.into_iter().map(|path| Ok((path.clone(), format(&path)?)));
        let reports = reports.collect::<anyhow::Result<_>>()?;
        Ok(Checked {
            shape,
            parallel: parallel.into(),
            time_limit,
            reports,
            keep,
        })
    }
}

impl Checked {
    /// What the report says about the run.
    pub(super) fn settings(&self, started: Timestamp, management: String) -> Settings {
        let Shape {
            namespace,
            clusters,
            control_plane,
            workers,
            kubernetes_version,
            flavor,
            ..
        } = self.shape.clone();
        let flavor = flavor
            .to_possible_value()
            .map(|value| value.get_name().to_owned());
        Settings {
            started,
            nephele: nephele_manager::version().to_owned(),
            management,
            namespace,
            flavor: flavor.unwrap_or_default(),
            clusters,
            control_plane,
            workers,
            kubernetes_version,
            parallel: self.parallel,
        }
    }
}

fn format(path: &Path) -> anyhow::Result<Format> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Ok(Format::Json),
        Some("html") => Ok(Format::Html),
        _ => bail!(
            "the report {} has neither the ending .json nor .html",
            path.display()
        ),
    }
}

/// The beginning of a DNS label.
fn prefix(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let begins = text.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && text.len() <= PREFIX_MAX && text.chars().all(is_allowed) && !text.ends_with('-') {
        return Ok(text.to_owned());
    }
    Err(format!(
        "expected a name of lower case letters, digits and hyphens, {PREFIX_MAX} characters at most"
    ))
}

/// A version, with the `v` that Cluster API wants.
fn version(text: &str) -> Result<String, String> {
    let numbers = text.strip_prefix('v').unwrap_or(text);
    let parts: Vec<_> = numbers.split('.').collect();
    let starts = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
    if parts.len() >= 3 && parts.iter().take(3).all(starts) && numbers.chars().all(is_allowed) {
        return Ok(format!("v{numbers}"));
    }
    Err("expected a version such as v1.36.3".to_owned())
}
