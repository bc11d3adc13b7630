//! The library of scenarios, and the chapters of the workshop: the files of `config/scenarios` and `config/workshop`, as the
//! program, the tests and the book read them. Pure.
//!
//! ```text
//!  NAME/about.yaml     what it shows, how long it takes, which machines it leaves
//!  NAME/cluster.yaml   the cluster that it needs, with its pool and its SimulatedCloud
//!  NAME/scenario.yaml  the Scenario; its first comment tells the story
//! ```
//!
//! An entry that only Cluster API itself can play has an annotation in its Scenario, which the manager reads, too.
//! [`workshop`] has the files of a chapter.

pub mod workshop;

use std::time::Duration;

use nephele_api::cloud::NEEDS_CLUSTER_API_ANNOTATION;
use serde::{Deserialize, de::Error as _};
use serde_json::Value;
use thiserror::Error;

/// The files of an entry.
struct Files {
    name: &'static str,
    about: &'static str,
    cluster: &'static str,
    scenario: &'static str,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(Files {
            name: $name,
            about: include_str!(concat!("../../../../config/scenarios/", $name, "/about.yaml")),
            cluster: include_str!(concat!("../../../../config/scenarios/", $name, "/cluster.yaml")),
            scenario: include_str!(concat!("../../../../config/scenarios/", $name, "/scenario.yaml")),
        }),*]
    };
}

/// By name.
const FILES: &[Files] = files![
    "address-exhaustion",
    "api-server-errors",
    "api-server-flapping",
    "blocked-upgrade",
    "bootstrap-failure",
    "etcd-alarm",
    "expired-certificates",
    "health-check-storm",
    "leak",
    "load-balancer-outage",
    "quota",
    "silent-machine",
    "slow-cloud",
    "spot-reclaim",
    "stock-out",
    "throttled-upgrade",
    "zone-loss",
    "zones-in-turn",
];

/// Why an entry cannot be read.
#[derive(Debug, Error)]
#[error("failed to read {file} of {name}")]
pub struct LibraryError {
    name: &'static str,
    file: &'static str,
    source: serde_yaml_ng::Error,
}

/// A scenario of the library.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of the entry and of its Scenario.
    pub name: &'static str,
    /// What it shows, how long it takes and what it leaves.
    pub about: About,
    /// What happens in it, in some sentences.
    pub story: String,
    /// What has to play Cluster API's part.
    pub needs: Needs,
    /// The objects that it needs, in the order of their creation.
    pub cluster: Vec<Value>,
    /// The Scenario as an object, without a namespace.
    pub scenario: Value,
    /// The objects that it needs and the Scenario, as YAML.
    pub yaml: String,
}

/// The head of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// What it shows, in one sentence.
    pub shows: String,
    /// About how long it takes on a cluster that is available.
    #[serde(deserialize_with = "duration")]
    pub takes: Duration,
    /// The machines that the cluster has afterwards.
    pub after: Machines,
}

/// Numbers of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machines {
    /// The number of control plane machines.
    pub control_plane: u32,
    /// The number of machines in MachineDeployments.
    pub workers: u32,
}

/// What has to play Cluster API's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Needs {
    /// The stand-in of `nephele up`, or Cluster API.
    #[default]
    Up,
    /// Cluster API itself, because the stand-in does not have this.
    ClusterApi(String),
}

impl Needs {
    /// The word for it in lists.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::ClusterApi(_) => "cluster-api",
        }
    }

    /// What a Scenario needs, by its annotations.
    #[must_use]
    pub fn of(scenario: &Value) -> Self {
        let needed = scenario["metadata"]["annotations"][NEEDS_CLUSTER_API_ANNOTATION].as_str();
        needed.map_or(Self::Up, |needed| Self::ClusterApi(needed.to_owned()))
    }
}

/// The names of all entries, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|files| files.name)
}

/// All entries, by name.
///
/// # Errors
/// When a file is not as it should be.
pub fn all() -> Result<Vec<Entry>, LibraryError> {
    FILES.iter().map(read).collect()
}

/// The entry of this name, if there is one.
///
/// # Errors
/// When a file of it is not as it should be.
pub fn find(name: &str) -> Result<Option<Entry>, LibraryError> {
    FILES
        .iter()
        .find(|files| files.name == name)
        .map(read)
        .transpose()
}

fn read(files: &Files) -> Result<Entry, LibraryError> {
    let Files {
        name,
        about,
        cluster,
        scenario,
    } = *files;
    let failed = |file| move |source| LibraryError { name, file, source };
    let about = serde_yaml_ng::from_str(about).map_err(failed("about.yaml"))?;
    let object: Value = serde_yaml_ng::from_str(scenario).map_err(failed("scenario.yaml"))?;
    Ok(Entry {
        name,
        about,
        story: first_comment(scenario),
        needs: Needs::of(&object),
        cluster: documents(cluster).map_err(failed("cluster.yaml"))?,
        scenario: object,
        yaml: format!("{cluster}---\n{scenario}"),
    })
}

/// The objects of a file. One of comments alone has none.
fn documents(text: &str) -> Result<Vec<Value>, serde_yaml_ng::Error> {
    let all = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
    let all: Vec<_> = all.collect::<Result<_, _>>()?;
    Ok(all.into_iter().filter(|object| !object.is_null()).collect())
}

/// The comment at the beginning of a file, as one paragraph.
fn first_comment(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    nephele_go_duration::parse(&text).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests;
