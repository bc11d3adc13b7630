//! Objects from the released templates.

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

const PLAIN: &str = include_str!("../../config/templates/cluster-template.yaml");
const MACHINE_POOL: &str = include_str!("../../config/templates/cluster-template-machine-pool.yaml");
const POOLED: &str = include_str!("../../config/templates/cluster-template-ipam.yaml");
const TOPOLOGY: &str = include_str!("../../config/templates/cluster-template-topology.yaml");
const CLASS: &str = include_str!("../../config/templates/clusterclass-in-memory.yaml");

/// The default Kubernetes version of clusters.
pub const VERSION: &str = "v1.36.3";

/// The size and version of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of control plane machines.
    pub control_plane: u32,
    pub workers: u32,
    pub version: &'static str,
}

impl Shape {
    /// These numbers of machines, with the default version.
    #[must_use]
    pub fn new(control_plane: u32, workers: u32) -> Self {
        Self {
            control_plane,
            workers,
            version: VERSION,
        }
    }
}

/// The objects of a cluster without ClusterClass.
///
/// # Errors
///
/// When the template is not YAML.
pub fn plain(namespace: &str, name: &str, shape: Shape) -> anyhow::Result<Vec<Value>> {
    documents(&fill(PLAIN, namespace, name, shape))
}

/// The objects of a cluster whose workers are a machine pool.
///
/// # Errors
///
/// When the template is not YAML.
pub fn machine_pool(namespace: &str, name: &str, shape: Shape) -> anyhow::Result<Vec<Value>> {
    documents(&fill(MACHINE_POOL, namespace, name, shape))
}

/// The objects of a cluster whose machines and load balancer get addresses from a pool of its own.
///
/// # Errors
///
/// When the template is not YAML.
pub fn pooled(namespace: &str, name: &str, shape: Shape) -> anyhow::Result<Vec<Value>> {
    documents(&fill(POOLED, namespace, name, shape))
}

/// The Cluster of a cluster with ClusterClass.
///
/// # Errors
///
/// When the template is not YAML.
pub fn topology(namespace: &str, name: &str, shape: Shape) -> anyhow::Result<Vec<Value>> {
    documents(&fill(TOPOLOGY, namespace, name, shape))
}

/// The ClusterClass and its templates.
///
/// # Errors
///
/// When the template is not YAML.
pub fn class() -> anyhow::Result<Vec<Value>> {
    documents(CLASS)
}

fn fill(template: &str, namespace: &str, name: &str, shape: Shape) -> String {
    let value = |variable: &str| match variable {
        "NAMESPACE" => Some(namespace.to_owned()),
        "CLUSTER_NAME" => Some(name.to_owned()),
        "CONTROL_PLANE_MACHINE_COUNT" => Some(shape.control_plane.to_string()),
        "WORKER_MACHINE_COUNT" => Some(shape.workers.to_string()),
        "KUBERNETES_VERSION" => Some(shape.version.to_owned()),
        _ => None,
    };
    expand(template, value)
}

/// Replaces `${NAME}` and `${NAME:=default}`, as clusterctl does. A variable with neither value nor default is kept,
/// and any other `$`, such as that of a pattern.
#[must_use]
pub fn expand(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((variable, after)) = after.split_once('}') else {
            break;
        };
        let (variable, default) = variable
            .split_once(":=")
            .map_or((variable, None), |(name, text)| (name, Some(text)));
        text.push_str(before);
        match value(variable).or_else(|| default.map(str::to_owned)) {
            Some(value) => text.push_str(&value),
            None => text.push_str(&format!("${{{variable}}}")),
        }
        rest = after;
    }
    text + rest
}

fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    serde_yaml_ng::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).context("failed to read a template"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_before_defaults() {
        let value = |name: &str| (name == "A").then(|| "1".to_owned());
        assert_eq!(expand("${A} ${A:=2} ${B:=a:b} ${C} $D", value), "1 1 a:b ${C} $D");
    }

    #[test]
    fn no_template_needs_more_than_we_fill_in() {
        let shape = Shape::new(1, 2);
        let all = [
            plain("n", "c", shape),
            machine_pool("n", "c", shape),
            topology("n", "c", shape),
            class(),
        ];
        for documents in all {
            let text = format!("{:?}", documents.expect("YAML"));
            assert!(!text.contains("${"), "{text}");
        }
    }

    #[test]
    fn replicas_are_numbers() {
        let documents = plain("n", "c", Shape::new(3, 2)).expect("YAML");
        let replicas: Vec<_> = documents
            .iter()
            .filter_map(|document| document["spec"]["replicas"].as_u64())
            .collect();
        assert_eq!(replicas, [3, 2]);
    }
}
