//! A cluster from which our providers are taken, for tests that install them in another way.
//!
//! ```text
//!  cluster with the providers ─clusterctl delete─▶ bare Cluster API ─a group of tests─▶ ─clusterctl init─▶ as before
//! ```

use std::{path::Path, process::Command, time::Duration};

use crate::{
    cluster::{LOOK_EVERY, Layout, Repository},
    command::{capture, path_with, show},
    paths,
    place::Found,
    wait::{self, Look},
};

/// What clusterctl has installed.
const PROVIDERS: [[&str; 2]; 2] = [["--ipam", "in-cluster"], ["--infrastructure", "in-memory"]];
/// By parts of the names of their definitions and namespaces.
const OURS: [&str; 5] =
    ["/inmemory", "incluster", ".cloud.nephele.dev", "/nephele-system", "/capi-ipam-in-cluster-system"];
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
    /// The image of the manager that was there, which is on the node.
    pub(crate) image: String,
}

impl<'a> Emptied<'a> {
    /// Takes our providers away, works, and puts them back. After a failure things stay as they are, to be looked at.
    pub(crate) fn work(
        found: &'a Found,
        work: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let image = capture(command(found, "kubectl")?.args(MANAGER))?;
        let emptied = Self { found, image };
        emptied.empty()?;
        work(&emptied)?;
        show(command(found, "clusterctl")?.arg("init").args(PROVIDERS.concat()))
    }

    /// Removes what clusterctl has installed.
    fn empty(&self) -> anyhow::Result<()> {
        // One after the other: clusterctl would look for objects of the kinds that it has just removed.
        for provider in PROVIDERS {
            let delete = ["delete", "--include-crd", "--include-namespace"];
            show(command(self.found, "clusterctl")?.args(delete).args(provider))?;
        }
        wait::until("what clusterctl installed to be gone", GONE_LIMIT, LOOK_EVERY, || {
            let mut get = command(self.found, "kubectl")?;
            let names = capture(get.args(["get", "crd,namespaces", "--output=name"]))?;
            let left: Vec<_> =
                names.lines().filter(|name| OURS.iter().any(|ours| name.contains(ours))).collect();
            Ok(if left.is_empty() { Look::Done(()) } else { Look::NotYet(left.join(", ")) })
        })
    }

    /// Whether the cluster is one of our own, with programs and a repository that belong to it.
    pub(crate) fn is_our_own(&self) -> bool {
        self.found.programs.is_some()
    }

    /// The tests of this group, which is also the feature that they are built with. They find these programs first.
    pub(crate) fn tests(&self, group: &str, programs: Option<&Path>) -> anyhow::Result<Command> {
        let folders = self.found.programs.as_deref().into_iter().chain(programs);
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--locked", "--package", "nephele-e2e", "--features", group, "--test", group]);
        cargo.env("KUBECONFIG", &self.found.kubeconfig).env("PATH", path_with(folders)?);
        cargo.env("NEPHELE_E2E_IMAGE", &self.image).env("RUST_BACKTRACE", "0");
        cargo.current_dir(paths::repository());
        Ok(cargo)
    }
}

/// A program that speaks to the cluster.
fn command(found: &Found, program: &str) -> anyhow::Result<Command> {
    let path = found.programs.as_ref().map_or_else(|| program.into(), |folder| folder.join(program));
    let mut command = Command::new(path);
    command.env("KUBECONFIG", &found.kubeconfig);
    if program == "clusterctl" {
        command.env("CLUSTER_TOPOLOGY", "true").env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        if found.programs.is_some() {
            command.arg("--config").arg(Repository::config_file(&Layout::new()?));
        }
    }
    Ok(command)
}
