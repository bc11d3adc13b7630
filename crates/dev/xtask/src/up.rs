//! `nephele up --cluster-api`, as a process that ends with this one.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::Context;
use serde::Deserialize;

use crate::cluster::Programs;

/// What `nephele up --json` prints when it is ready.
#[derive(Debug, Deserialize)]
struct Report {
    management: Server,
    processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
struct Server {
    kubeconfig: PathBuf,
}

/// A process that serves.
#[derive(Debug, Deserialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) id: u32,
}

/// A program that serves. It is killed with its processes when this is dropped.
pub(crate) struct Up {
    child: Child,
    /// The kubeconfig of an administrator.
    pub(crate) kubeconfig: PathBuf,
    /// The program itself, under the name `nephele`, and those that it has started.
    pub(crate) processes: Vec<Process>,
}

impl Drop for Up {
    fn drop(&mut self) {
        // Errors mean that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Up {
    /// Starts the program with the variables and the API server of `control_plane`, and waits until it serves. What an earlier
    /// run left in the folder is removed.
    pub(crate) fn start(
        program: &Path,
        programs: &Programs,
        control_plane: &Path,
        folder: &Path,
        variables: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).context("failed to remove the folder of an earlier run")?;
        }
        let mut command = Command::new(program);
        command
            .args(["up", "--json", "--cluster-api", "--folder"])
            .arg(folder);
        for (name, components) in &programs.components {
            let run = format!("{name}={}", programs.folder.join(name).display());
            command.arg("--provider").arg(components).args(["--run", &run]);
        }
        command
            .env("KUBEBUILDER_ASSETS", control_plane)
            .envs(variables.iter().copied());
        // It ends with its input.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut up = Self {
            child: child.context("failed to start nephele up")?,
            kubeconfig: PathBuf::new(),
            processes: Vec::new(),
        };
        let said = up.child.stdout.take().context("nephele up has no output")?;
        let mut line = String::new();
        BufReader::new(said)
            .read_line(&mut line)
            .context("failed to read what nephele up prints")?;
        let report: Report = serde_json::from_str(&line).context("nephele up printed no report")?;
        up.kubeconfig = report.management.kubeconfig;
        up.processes = report.processes;
        up.processes.push(Process {
            name: "nephele".to_owned(),
            id: up.child.id(),
        });
        Ok(up)
    }
}
