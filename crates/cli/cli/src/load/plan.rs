//! The objects to create, from the program's own templates. Pure.

use anyhow::Context as _;
use nephele_components::with_variables;
use serde::Deserialize as _;
use serde_json::{Value, json};
use serde_yaml_ng::Deserializer;

use crate::template::Flavor;

/// The label of everything that a run creates; its value is the run's. `kubectl delete -l` finds what a run left.
pub(super) const LABEL: &str = "nephele.dev/load";

/// What to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) run: String,
    pub(super) namespace: String,
    pub(super) name_prefix: String,
    pub(super) clusters: usize,
    pub(super) control_plane: usize,
    pub(super) workers: usize,
    pub(super) kubernetes_version: String,
    pub(super) flavor: Flavor,
}

impl Shape {
    /// The names of the Clusters, in the order of their creation.
    pub(super) fn names(&self) -> Vec<String> {
        let digits = self.clusters.to_string().len().max(3);
        (1..=self.clusters)
            .map(|number| format!("{}-{number:0digits$}", self.name_prefix))
            .collect()
    }

    /// The number of all machines.
    pub(super) fn machines(&self) -> usize {
        self.clusters * (self.control_plane + self.workers)
    }

    /// The objects that all clusters share: a class of their own, so that the class of a user stays as it is.
    pub(super) fn shared(&self) -> anyhow::Result<Vec<Value>> {
        let Some(class) = self.flavor.class() else {
            return Ok(Vec::new());
        };
        let mut objects = documents(class)?;
        for object in &mut objects {
            rename(&mut object["metadata"]["name"], &self.name_prefix);
            rename_references(object, "templateRef", &self.name_prefix);
            self.mark(object);
        }
        Ok(objects)
    }

    /// The objects of one cluster. `variable` gives the values of the template's other variables, which have defaults.
    pub(super) fn objects(
        &self,
        name: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Vec<Value>> {
        let text = with_variables(self.flavor.cluster(), &|wanted| match wanted {
            "CLUSTER_NAME" => Some(name.to_owned()),
            "NAMESPACE" => Some(self.namespace.clone()),
            "KUBERNETES_VERSION" => Some(self.kubernetes_version.clone()),
            "CONTROL_PLANE_MACHINE_COUNT" => Some(self.control_plane.to_string()),
            "WORKER_MACHINE_COUNT" => Some(self.workers.to_string()),
            other => variable(other),
        })?;
        let mut objects = documents(&text)?;
        for object in &mut objects {
            rename_references(object, "classRef", &self.name_prefix);
            self.mark(object);
        }
        Ok(objects)
    }

    fn mark(&self, object: &mut Value) {
        object["metadata"]["namespace"] = json!(self.namespace);
        object["metadata"]["labels"][LABEL] = json!(self.run);
    }
}

fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents = Deserializer::from_str(text).map(Value::deserialize);
    let documents = documents
        .collect::<Result<Vec<_>, _>>()
        .context("failed to read a template")?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// Puts the prefix before the names in all references of a field, however deep they are.
fn rename_references(value: &mut Value, field: &str, prefix: &str) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == field {
                    rename(&mut value["name"], prefix);
                } else {
                    rename_references(value, field, prefix);
                }
            }
        }
        Value::Array(values) => {
            values
                .iter_mut()
                .for_each(|value| rename_references(value, field, prefix));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn rename(name: &mut Value, prefix: &str) {
    if let Some(old) = name.as_str() {
        *name = json!(format!("{prefix}-{old}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(flavor: Flavor) -> Shape {
        Shape {
            run: "run-1".to_owned(),
            namespace: "team".to_owned(),
            name_prefix: "load".to_owned(),
            clusters: 2,
            control_plane: 3,
            workers: 4,
            kubernetes_version: "v1.36.3".to_owned(),
            flavor,
        }
    }

    #[test]
    fn names_have_at_least_three_digits_and_sort_by_number() {
        assert_eq!(shape(Flavor::Plain).names(), ["load-001", "load-002"]);
        let many = Shape {
            clusters: 1_000,
            ..shape(Flavor::Plain)
        }
        .names();
        assert_eq!((many[0].as_str(), many[999].as_str()), ("load-0001", "load-1000"));
        assert!(many.is_sorted());
    }

    #[test]
    fn cluster_of_a_topology_is_of_the_class_of_its_run() {
        let shape = shape(Flavor::Topology);
        let expected = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "load-001", "namespace": "team", "labels": {"nephele.dev/load": "run-1"}},
            "spec": {
                "clusterNetwork": {
                    "pods": {"cidrBlocks": ["10.0.0.0/8"]},
                    "services": {"cidrBlocks": ["10.128.0.0/12"]},
                    "serviceDomain": "cluster.local",
                },
                "topology": {
                    "classRef": {"name": "load-in-memory"},
                    "version": "v1.36.3",
                    "controlPlane": {"replicas": 3},
                    "workers": {
                        "machineDeployments": [{"class": "default-worker", "name": "workers", "replicas": 4}],
                    },
                },
            },
        });
        let variable = |name: &str| (name == "POD_CIDR").then(|| "10.0.0.0/8".to_owned());
        assert_eq!(shape.objects("load-001", &variable).expect("valid"), [expected]);
    }

    #[test]
    fn class_of_a_run_refers_to_the_templates_of_the_run() {
        let objects = shape(Flavor::Scale).shared().expect("valid");
        let mut names: Vec<_> = objects
            .iter()
            .map(|object| (&object["kind"], &object["metadata"]["name"]))
            .collect();
        assert_eq!(
            names.remove(0),
            (&json!("ClusterClass"), &json!("load-in-memory"))
        );
        let mut references = Vec::new();
        find_references(&objects[0], &mut references);
        assert!(references.len() >= 7);
        for (kind, name) in references {
            assert!(names.contains(&(kind, name)), "{kind} {name}");
        }
    }

    fn find_references<'a>(value: &'a Value, found: &mut Vec<(&'a Value, &'a Value)>) {
        let parts: Box<dyn Iterator<Item = &'a Value>> = match value {
            Value::Object(fields) => Box::new(fields.values()),
            Value::Array(values) => Box::new(values.iter()),
            _ => return,
        };
        if let Some(reference) = value.get("templateRef") {
            found.push((&reference["kind"], &reference["name"]));
        }
        parts.for_each(|part| find_references(part, found));
    }

    #[test]
    fn every_object_of_every_flavor_has_the_label_and_the_namespace() {
        use clap::ValueEnum as _;
        for flavor in Flavor::value_variants() {
            let shape = shape(*flavor);
            let mut objects = shape.shared().expect("valid");
            objects.extend(shape.objects("load-001", &|_| None).expect("valid"));
            for object in objects {
                let metadata = &object["metadata"];
                assert_eq!(metadata["labels"][LABEL], "run-1", "{flavor:?}");
                assert_eq!(metadata["namespace"], "team", "{flavor:?}");
                assert!(
                    metadata["name"]
                        .as_str()
                        .is_some_and(|name| name.starts_with("load-")),
                    "{object}"
                );
            }
        }
    }
}
