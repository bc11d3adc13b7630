//! The chapters of the workshop. Pure.
//!
//! ```text
//!  N-NAME/about.yaml    the title, what a person learns, how long it takes, what of Cluster API it needs
//!  N-NAME/chapter.md    what a person reads: the story, commands with what they print, the task
//!  N-NAME/cluster.yaml  the cluster that the chapter needs, with its pool and its SimulatedCloud
//!  N-NAME/start.yaml    the Scenario that brings the cluster where the task begins
//!  N-NAME/check.yaml    the Scenario that passes when the task is done, and fails before; where a person writes a Scenario, after it
//!                       one that breaks the cloud again, and one that mends it
//!  N-NAME/hints.md      hints, one for each heading; each says more than the one before
//!  N-NAME/solution.sh   commands that do the task
//! ```

use std::time::Duration;

use nephele_api::cloud::{NEEDS_CLUSTER_API_ANNOTATION, WORKSHOP_LABEL};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::{LibraryError, Needs, documents, duration};

/// The name of the Cluster of each chapter. In the first one, a person creates it, without the label.
pub const CLUSTER: &str = "demo";

/// The heading of the part of a text that answers what the task asks.
const ANSWERS: &str = "## Look again\n";

/// The files of a chapter.
struct Files {
    name: &'static str,
    about: &'static str,
    text: &'static str,
    cluster: &'static str,
    start: &'static str,
    check: &'static str,
    hints: &'static str,
    solution: &'static str,
}

macro_rules! file {
    ($name:literal, $file:literal) => {
        include_str!(concat!("../../../../config/workshop/", $name, "/", $file))
    };
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(Files {
            name: $name,
            about: file!($name, "about.yaml"),
            text: file!($name, "chapter.md"),
            cluster: file!($name, "cluster.yaml"),
            start: file!($name, "start.yaml"),
            check: file!($name, "check.yaml"),
            hints: file!($name, "hints.md"),
            solution: file!($name, "solution.sh"),
        }),*]
    };
}

/// In the order in which a person reads them: the first has the number 1.
const FILES: &[Files] = files![
    "1-one-command",
    "2-desired-and-actual",
    "3-slow-clouds",
    "4-a-silent-machine",
    "5-the-cloud-says-no",
    "6-zones-and-quorum",
    "7-upgrade-under-fire",
    "8-the-incident",
];

/// A chapter of the workshop.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// Its number, as people type it: from 1.
    pub number: usize,
    /// The name of its folder, which begins with the number.
    pub name: &'static str,
    /// The title, what a person learns, and what it needs.
    pub about: About,
    /// What a person reads, in Markdown, without the title.
    pub text: &'static str,
    /// The objects that it needs, in the order of their creation, with [`WORKSHOP_LABEL`].
    pub cluster: Vec<Value>,
    /// The Scenario that brings the cluster where the task begins, with [`WORKSHOP_LABEL`] and without a namespace.
    pub start: Value,
    /// The Scenario that passes when the task is done, with [`WORKSHOP_LABEL`] and without a namespace.
    pub check: Value,
    /// How the Scenario is tried that a person has to write.
    pub trial: Option<Trial>,
    /// Each says more than the one before.
    pub hints: Vec<Hint>,
    /// Commands for a shell that do the task.
    pub solution: &'static str,
}

impl Chapter {
    /// The text as far as the task.
    #[must_use]
    pub fn task(&self) -> &'static str {
        self.text.split(ANSWERS).next().unwrap_or_default()
    }

    /// The rest of the text, from its heading on: what a person sees and reads when the task is done.
    #[must_use]
    pub fn answers(&self) -> &'static str {
        let task = self.task().len();
        self.text.get(task..).unwrap_or_default()
    }
}

/// How the Scenario of a person is tried: a copy of it has to fail while the cloud is broken again.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The name of the Scenario that a person writes, without the label.
    pub scenario: String,
    /// The Scenario that breaks the cloud, as [`Chapter::check`].
    pub breaks: Value,
    /// The Scenario that mends it, as [`Chapter::check`].
    pub mends: Value,
}

/// A hint for the task of a chapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// What it says something of.
    pub title: &'static str,
    /// What it says, in Markdown.
    pub text: &'static str,
}

/// The head of a chapter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// What stands above its text.
    pub title: String,
    /// What a person learns, in one sentence.
    pub teaches: String,
    /// About how long a person takes.
    #[serde(deserialize_with = "duration")]
    pub takes: Duration,
    /// What has to play Cluster API's part.
    #[serde(default, rename = "needsClusterApi", deserialize_with = "needs")]
    pub needs: Needs,
    /// The name of the Scenario that a person has to write.
    #[serde(default)]
    pub scenario: Option<String>,
}

/// All chapters, in order.
///
/// # Errors
/// When a file is not as it should be.
pub fn all() -> Result<Vec<Chapter>, LibraryError> {
    FILES.iter().zip(1..).map(read).collect()
}

/// The chapter of this number, if there is one.
///
/// # Errors
/// When a file of it is not as it should be.
pub fn find(number: usize) -> Result<Option<Chapter>, LibraryError> {
    FILES
        .iter()
        .zip(1..)
        .find(|(_, of)| *of == number)
        .map(read)
        .transpose()
}

/// How many chapters there are.
#[must_use]
pub fn len() -> usize {
    FILES.len()
}

fn read((files, number): (&Files, usize)) -> Result<Chapter, LibraryError> {
    let Files {
        name,
        about,
        text,
        cluster,
        start,
        check,
        hints,
        solution,
    } = *files;
    let failed = |file| move |source| LibraryError { name, file, source };
    let about: About = serde_yaml_ng::from_str(about).map_err(failed("about.yaml"))?;
    let mut cluster = documents(cluster).map_err(failed("cluster.yaml"))?;
    let mut start: Value = serde_yaml_ng::from_str(start).map_err(failed("start.yaml"))?;
    let (mut check, mut trial) = checks(check, about.scenario.as_deref()).map_err(failed("check.yaml"))?;
    let tried = trial
        .iter_mut()
        .flat_map(|trial| [&mut trial.breaks, &mut trial.mends]);
    let mut scenarios: Vec<_> = [&mut start, &mut check].into_iter().chain(tried).collect();
    if let Needs::ClusterApi(needed) = &about.needs {
        // So the program refuses to begin where it is missing, and the manager to run them.
        for scenario in &mut scenarios {
            scenario["metadata"]["annotations"][NEEDS_CLUSTER_API_ANNOTATION] = needed.clone().into();
        }
    }
    for object in scenarios.into_iter().chain(&mut cluster) {
        object["metadata"]["labels"][WORKSHOP_LABEL] = number.to_string().into();
    }
    Ok(Chapter {
        number,
        name,
        about,
        text,
        cluster,
        start,
        check,
        trial,
        hints: hints.split("## ").skip(1).filter_map(hint).collect(),
        solution,
    })
}

/// The Scenarios of a check: itself, and for a person's Scenario of this name what tries it.
fn checks(text: &str, scenario: Option<&str>) -> Result<(Value, Option<Trial>), serde_yaml_ng::Error> {
    let all = documents(text)?;
    match (all.as_slice(), scenario) {
        ([check], None) => Ok((check.clone(), None)),
        ([check, breaks, mends], Some(scenario)) => {
            let trial = Trial {
                scenario: scenario.to_owned(),
                breaks: breaks.clone(),
                mends: mends.clone(),
            };
            Ok((check.clone(), Some(trial)))
        }
        _ => Err(serde_yaml_ng::Error::custom(
            "there has to be one Scenario, and two more with `scenario` in about.yaml",
        )),
    }
}

/// What of Cluster API a chapter needs that the stand-in does not have.
fn needs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Needs, D::Error> {
    String::deserialize(deserializer).map(Needs::ClusterApi)
}

/// A heading, and what is below it.
fn hint(section: &'static str) -> Option<Hint> {
    let (title, text) = section.split_once('\n')?;
    Some(Hint {
        title,
        text: text.trim(),
    })
}

#[cfg(test)]
mod tests;
