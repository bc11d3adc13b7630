//! Scenarios, the clock, checkpoints and the journal.

use std::{ffi::OsStr, path::Path};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::{command::CommandError, nephele::Nephele};

/// What the journal of the simulated cloud says about one call or one event. What does not apply is empty.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Record {
    /// Counts the records from 1.
    pub sequence: u64,
    pub time: Time,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub cluster: String,
    /// The kind of the object that it concerns: `Machine`, `LoadBalancer`, `SimulatedCloud` or `Fault`.
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    /// The name of a call, such as `CreateInstance`.
    #[serde(default)]
    pub operation: String,
    /// The controller that made the call.
    #[serde(default)]
    pub caller: String,
    /// The answer to a call: `Accepted`, `AlreadyDone`, `Delayed`, or the reason of an error, such as `QuotaExceeded`.
    #[serde(default)]
    pub outcome: String,
    /// The name of an event, such as `StageReached`.
    #[serde(default)]
    pub event: String,
    #[serde(default)]
    pub message: String,
    /// The names of the Faults that counted the call, or that caused the event.
    #[serde(default)]
    pub faults: Vec<String>,
    /// The last of these Faults hit the call.
    #[serde(default)]
    pub hit: bool,
}

impl Nephele {
    /// Runs a scenario of the library, or of a file: a path with `/` or `.yaml`. Returns when the scenario has passed.
    /// The flags are those of `nephele scenario run`, such as `--make-cluster`.
    ///
    /// # Errors
    ///
    /// When the scenario fails: the error says at which step, and what was seen. And when a flag is wrong.
    pub async fn scenario(&self, name_or_file: &str, flags: &[&str]) -> Result<(), CommandError> {
        self.run_with(&["scenario", "run", name_or_file], flags).await?;
        Ok(())
    }

    /// Changes the clock of a SimulatedCloud, and returns when the change is in force. The flags are those of
    /// `nephele clock`: `--pause`, `--resume`, `--rate`, `--step` and `--jump`, and the name of the cloud if there are
    /// several.
    ///
    /// # Errors
    ///
    /// When there is no SimulatedCloud, which alone has a clock, or when a flag is wrong.
    pub async fn clock(&self, flags: &[&str]) -> Result<(), CommandError> {
        self.run_with(&["clock"], flags).await?;
        Ok(())
    }

    /// Saves all clusters of the namespace `default`, with everything in them, to a file that only its owner can read.
    /// For other namespaces, [`run`](Self::run) takes all flags of `nephele checkpoint save`.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub async fn checkpoint(&self, file: impl AsRef<Path>) -> Result<(), CommandError> {
        let command = ["checkpoint", "save"].map(OsStr::new);
        self.run(command.into_iter().chain([file.as_ref().as_os_str()]))
            .await?;
        Ok(())
    }

    /// Replaces all clusters, clouds and Faults in the namespaces of a file of [`checkpoint`](Self::checkpoint) by
    /// those of the file. Names, endpoints and kubeconfigs are the same as before, so each [`Cluster`](crate::Cluster)
    /// stays valid; objects of the management API have new uids. Conditions may change for a moment, so wait for what
    /// your test needs.
    ///
    /// # Errors
    ///
    /// When the file is none of [`checkpoint`](Self::checkpoint).
    pub async fn restore(&self, file: impl AsRef<Path>) -> Result<(), CommandError> {
        let command = ["checkpoint", "restore", "--replace"].map(OsStr::new);
        self.run(command.into_iter().chain([file.as_ref().as_os_str()]))
            .await?;
        Ok(())
    }

    /// The calls of the cloud and its events, the oldest first: those that your controller caused, too. The flags are
    /// those of `nephele journal show`, such as `--cluster`, `--machine`, `--operation` and `--fault`; without
    /// `--namespace` or `--all-namespaces`, the records of the namespace `default`.
    ///
    /// Nephele remembers the last 4,096 records; the file [`journal`](Self::journal) has all.
    ///
    /// # Errors
    ///
    /// When a flag is wrong.
    pub async fn calls(&self, flags: &[&str]) -> Result<Vec<Record>, CommandError> {
        let said = self
            .run_with(&["journal", "show", "--output", "json"], flags)
            .await?;
        records(&said)
    }
}

fn records(lines: &str) -> Result<Vec<Record>, CommandError> {
    let read = |(index, line)| {
        let number = index + 1;
        serde_json::from_str(line).map_err(|source| CommandError::Record { number, source })
    };
    lines.lines().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_can_have_less_and_more_than_we_use() {
        let line = r#"{"sequence":3,"time":"2026-11-30T00:28:36.94Z","event":"Deleted","later":1}"#;
        let found = records(&format!("{line}\n")).unwrap();
        let [record] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(
            (record.sequence, record.event.as_str(), record.hit),
            (3, "Deleted", false)
        );
        assert_eq!(record.time.0.as_millisecond() % 1000, 940);
        let error = records(&format!("{line}\nnone")).unwrap_err();
        assert_eq!(error.to_string(), "failed to read record 2 of the journal");
    }
}
