//! `kubectl` as the administrator.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Context;
use serde_json::Value;

use crate::{
    command::{capture, feed},
    wait::{self, LOOK_EVERY, Look},
};

/// How long a cluster that works may be too busy to show it.
const BUSY_LIMIT: Duration = Duration::from_secs(30);
const REQUEST_LIMIT: &str = "--request-timeout=5s";

#[derive(Debug, Clone)]
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub(crate) fn new(program: impl Into<PathBuf>, kubeconfig: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            kubeconfig: kubeconfig.into(),
        }
    }

    pub(crate) fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        capture(self.command().args(args))
    }

    /// Server-side apply, which accepts definitions of any size.
    pub(crate) fn apply(&self, manifest: &str) -> anyhow::Result<()> {
        let mut command = self.command();
        command.args(["apply", "--server-side", "--force-conflicts", "-f", "-"]);
        feed(&mut command, manifest).map(|_| ())
    }

    /// Deletes the objects of a manifest that exist, and waits until they are gone.
    pub(super) fn delete(&self, manifest: &str) -> anyhow::Result<()> {
        let mut command = self.command();
        command.args(["delete", "--ignore-not-found", "--timeout=120s", "-f", "-"]);
        feed(&mut command, manifest).map(|_| ())
    }

    /// The items of `kubectl get`.
    pub(crate) fn items(&self, args: &[&str]) -> anyhow::Result<Vec<Value>> {
        let text = capture(self.command().arg("get").args(args).args(["-o", "json"]))?;
        let mut list: Value = serde_json::from_str(&text).context("failed to read a list from kubectl")?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(vec![list]),
        }
    }

    /// Waits until every Deployment of a namespace, or of all, is available.
    pub(crate) fn wait_for_deployments(
        &self,
        namespace: Option<&str>,
        limit: Duration,
    ) -> anyhow::Result<()> {
        let place = namespace.map_or_else(|| vec!["-A"], |namespace| vec!["-n", namespace]);
        let args = [&["deployments.apps"], place.as_slice()].concat();
        wait::until("deployments to be available", limit, LOOK_EVERY, || {
            let deployments = self.items(&args)?;
            let waiting: Vec<_> = deployments
                .iter()
                .filter(|deployment| !is_available(deployment))
                .map(summary)
                .collect();
            Ok(if waiting.is_empty() && !deployments.is_empty() {
                Look::Done(())
            } else {
                Look::NotYet(format!(
                    "{} of {} wait: {}",
                    waiting.len(),
                    deployments.len(),
                    waiting.join("; ")
                ))
            })
        })
        .with_context(|| {
            self.run(&[&["get", "pods"], place.as_slice()].concat())
                .unwrap_or_default()
        })
    }

    /// Deletes every pod and waits until all are gone.
    pub(super) fn delete_pods(&self) -> anyhow::Result<()> {
        let limits = ["--timeout=30s", "--request-timeout=30s"];
        let args = ["delete", "pods", "--all", "--all-namespaces", "--grace-period=1"];
        self.run(&[&args[..], &limits].concat()).map(|_| ())
    }

    /// Whether the API server answers. Without a limit, kubectl would wait forever for one that hangs.
    pub(super) fn is_answered(&self) -> bool {
        soon("the API server to answer", || {
            self.run(&["get", "--raw=/readyz", REQUEST_LIMIT]).is_ok()
        })
    }

    /// Whether a node is ready.
    pub(super) fn has_ready_node(&self) -> bool {
        soon("a node to be ready", || {
            let nodes = self.items(&["nodes", REQUEST_LIMIT]).unwrap_or_default();
            nodes.iter().any(|node| is_true(node, "Ready"))
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }
}

fn soon(what: &str, holds: impl Fn() -> bool) -> bool {
    let look = || {
        Ok(if holds() {
            Look::Done(())
        } else {
            Look::NotYet(String::new())
        })
    };
    wait::until(what, BUSY_LIMIT, LOOK_EVERY, look).is_ok()
}

/// `kubectl kustomize`, which needs no cluster.
pub(super) fn kustomize(kubectl: &Path, folder: &Path) -> anyhow::Result<String> {
    capture(Command::new(kubectl).arg("kustomize").arg(folder))
}

/// Whether a condition of the object is True.
pub(super) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|item| item["type"] == condition && item["status"] == "True")
}

/// Whether the Deployment is available in its current generation, and no pod of an earlier generation is left.
fn is_available(deployment: &Value) -> bool {
    let status = &deployment["status"];
    let replicas = &deployment["spec"]["replicas"];
    is_true(deployment, "Available")
        && status["observedGeneration"] == deployment["metadata"]["generation"]
        && status["updatedReplicas"] == *replicas
        && status["replicas"] == *replicas
}

fn summary(object: &Value) -> String {
    let metadata = &object["metadata"];
    let conditions: Vec<_> = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| format!("{}={} {}", item["type"], item["status"], item["message"]))
        .collect();
    format!(
        "{}/{}: {}",
        metadata["namespace"],
        metadata["name"],
        conditions.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_whose_new_generation_is_not_rolled_out_is_not_available() {
        let deployment = |updated: u32| {
            json!({
                "metadata": {"generation": 2}, "spec": {"replicas": 1},
                "status": {"observedGeneration": 2, "replicas": 1, "updatedReplicas": updated,
                    "conditions": [{"type": "Available", "status": "True"}]},
            })
        };
        assert!(is_available(&deployment(1)));
        assert!(!is_available(&deployment(0)));
    }
}
