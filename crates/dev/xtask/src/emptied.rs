//! A cluster without our providers, for tests that install them in another way.
//!
//! ```text
//!  cluster with the providers ─clusterctl delete─▶ bare Cluster API ─a group of tests─▶ bare Cluster API
//! ```
//!
//! On an existing cluster the providers are put back afterwards. On one of our own clusters, the tests that need them
//! install them.

use std::{ffi::OsStr, path::Path, process::Command, time::Duration};

use crate::{
    cluster::{Layout, Repository},
    command::{capture, path_with, show},
    e2e::{Queue, Tests},
    found::Found,
    wait::{self, LOOK_EVERY, Look},
};

/// The providers that clusterctl has installed.
const PROVIDERS: [[&str; 2]; 2] = [["--ipam", "in-cluster"], ["--infrastructure", "in-memory"]];
/// Parts of the names of their definitions and namespaces.
const OURS: [&str; 5] = [
    "/inmemory",
    "incluster",
    ".cloud.nephele.dev",
    "/nephele-system",
    "/capi-ipam-in-cluster-system",
];
const GONE_LIMIT: Duration = Duration::from_secs(60);
const MANAGER: [&str; 6] = [
    "get",
    "deployment",
    "nephele-controller-manager",
    "--namespace=nephele-system",
    "--output",
    "jsonpath={.spec.template.spec.containers[0].image}",
];

/// A cluster with Cluster API and nothing of ours.
pub(crate) struct Emptied<'a> {
    found: &'a Found,
    /// The image of the manager, which is on the node.
    pub(crate) image: String,
}

impl<'a> Emptied<'a> {
    /// One of our own clusters; removes our providers if they are installed.
    pub(crate) fn of_our_own(found: &'a Found, image: String, is_installed: bool) -> anyhow::Result<Self> {
        let emptied = Self { found, image };
        if is_installed {
            emptied.empty()?;
        }
        Ok(emptied)
    }

    /// Removes our providers, runs `work`, and puts them back. After a failure everything stays, for inspection.
    pub(crate) fn work_and_put_back(
        found: &'a Found,
        work: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let image = capture(command(found, "kubectl")?.args(MANAGER))?;
        let emptied = Self { found, image };
        emptied.empty()?;
        work(&emptied)?;
        show(command(found, "clusterctl")?.arg("init").args(PROVIDERS.concat()))
    }

    /// Removes the providers that clusterctl has installed.
    fn empty(&self) -> anyhow::Result<()> {
        // One provider after the other: otherwise clusterctl would look for objects of kinds that it has just removed.
        for provider in PROVIDERS {
            let delete = ["delete", "--include-crd", "--include-namespace"];
            show(command(self.found, "clusterctl")?.args(delete).args(provider))?;
        }
        wait::until(
            "what clusterctl installed to be gone",
            GONE_LIMIT,
            LOOK_EVERY,
            || {
                let mut get = command(self.found, "kubectl")?;
                let names = capture(get.args(["get", "crd,namespaces", "--output=name"]))?;
                let left: Vec<_> = names
                    .lines()
                    .filter(|name| OURS.iter().any(|ours| name.contains(ours)))
                    .collect();
                Ok(if left.is_empty() {
                    Look::Done(())
                } else {
                    Look::NotYet(left.join(", "))
                })
            },
        )
    }

    /// Whether the cluster is one of our own, with its own programs and repository.
    pub(crate) fn is_our_own(&self) -> bool {
        self.found.programs.is_some()
    }

    /// Our static program, on one of our own clusters.
    pub(crate) fn program(&self) -> Option<&Path> {
        self.found.program.as_deref()
    }

    /// Runs the tests of a module whose names contain the filter, with these variables, and with these programs first in
    /// their PATH.
    pub(crate) fn run_tests<V: AsRef<OsStr>>(
        &self,
        group: &str,
        filter: Option<&str>,
        programs: Option<&Path>,
        variables: &[(&str, V)],
    ) -> anyhow::Result<()> {
        let folders = self.found.programs.as_deref().into_iter().chain(programs);
        let path = path_with(folders)?;
        let tests = Tests::build()?
            .with(&[("KUBECONFIG", self.found.kubeconfig.as_os_str()), ("PATH", &path)])
            .with(&[("NEPHELE_E2E_IMAGE", &self.image)])
            .with(variables);
        tests.announce();
        tests.run(&Queue::new(tests.names(&[group], filter)), 1)
    }
}

/// A command of a program that uses the cluster.
fn command(found: &Found, program: &str) -> anyhow::Result<Command> {
    let path = found
        .programs
        .as_ref()
        .map_or_else(|| program.into(), |folder| folder.join(program));
    let mut command = Command::new(path);
    command.env("KUBECONFIG", &found.kubeconfig);
    if program == "clusterctl" {
        command
            .env("CLUSTER_TOPOLOGY", "true")
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        if found.programs.is_some() {
            command
                .arg("--config")
                .arg(Repository::config_file(&Layout::new()?));
        }
    }
    Ok(command)
}
