//! Cluster API's flavors for its tests, for a simulated cloud. Pure.

use anyhow::Context;
use serde::Deserialize as _;
use serde_yaml_ng::{Mapping, Value};

/// The variables of their flavors that have no value by default.
pub(super) const VARIABLES: [(&str, &str); 3] = [
    ("DOCKER_SERVICE_DOMAIN", "cluster.local"),
    ("DOCKER_SERVICE_CIDRS", "10.128.0.0/12"),
    ("DOCKER_POD_CIDRS", "192.168.0.0/16"),
];

/// What their flavors bring into a workload cluster as its network plug-in, which a simulated one does not need.
const NETWORK: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: network, namespace: kube-system}}";

/// It stands before a variable that was in quotation marks, so that its value stays a text.
const TEXT: &str = "__text__";

/// Which provider a flavor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provider {
    Ours,
    /// Cluster API's in-memory provider. It has no machine pools.
    Peer,
}

/// Translates the objects of a flavor.
pub(super) fn translated(flavor: &str, provider: Provider) -> anyhow::Result<String> {
    let mut documents = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(&marked(flavor)) {
        let mut object = Value::deserialize(document).context("failed to read an object")?;
        if object.is_null() || (provider == Provider::Peer && is_of_a_pool(&object)) {
            continue;
        }
        translate(&mut object, provider);
        let text = serde_yaml_ng::to_string(&object).context("failed to write an object")?;
        documents.push(unmarked(&text));
    }
    Ok(documents.join("---\n"))
}

/// Marks the variables in quotation marks.
fn marked(text: &str) -> String {
    ['"', '\''].iter().fold(text.to_owned(), |text, quote| {
        text.replace(&format!("{quote}${{"), &format!("{quote}{TEXT}${{"))
    })
}

/// Gives marked variables their quotation marks, and takes those from others.
fn unmarked(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches([' ', '-']).len();
        let (before, rest) = line.split_at(indent);
        let (key, value) = match rest.split_once(": ") {
            Some((key, value)) => (format!("{key}: "), value),
            None => (String::new(), rest),
        };
        let bare = value
            .strip_prefix('\'')
            .and_then(|value| value.strip_suffix('\''))
            .unwrap_or(value);
        let value = if bare.starts_with("${") && bare.ends_with('}') {
            bare.to_owned()
        } else if let Some(variable) = bare.strip_prefix(TEXT) {
            format!("\"{variable}\"")
        } else {
            value.replace(TEXT, "")
        };
        lines.push(format!("{before}{key}{value}\n"));
    }
    lines.concat()
}

/// Whether an object is a machine pool, or its template.
fn is_of_a_pool(object: &Value) -> bool {
    let kind = object["kind"].as_str();
    kind.is_some_and(|kind| kind.contains("MachinePool"))
}

fn translate(object: &mut Value, provider: Provider) {
    if provider == Provider::Peer {
        without_pools(object);
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "ClusterClass" => {
            without_patches_of_theirs(object);
            with_variables_of_their_extension(object);
        }
        // A patch needs a place.
        "KubeadmControlPlaneTemplate" if object["spec"].is_null() => {
            object["spec"] = yaml("template: {spec: {kubeadmConfigSpec: {format: cloud-config}}}");
        }
        "KubeadmConfigTemplate" if object["spec"].is_null() => {
            object["spec"] = yaml("template: {spec: {format: cloud-config}}");
        }
        "ConfigMap" if object["data"].is_string() => {
            object["data"] = Mapping::from_iter([("network".into(), NETWORK.into())]).into();
        }
        kind if kind.starts_with("Dev") => {
            let path = match kind.ends_with("Template") {
                true => &["spec", "template", "spec"][..],
                false => &["spec"],
            };
            match provider {
                Provider::Ours => {
                    let spec = path
                        .iter()
                        .try_fold(&mut *object, |value, key| value.get_mut(*key));
                    if let Some(spec) = spec.and_then(Value::as_mapping_mut) {
                        with_our_fields(spec);
                    }
                }
                // What is missing on the way is made.
                Provider::Peer => in_memory(path.iter().fold(&mut *object, |value, key| &mut value[*key])),
            }
        }
        _ => {}
    }
    match provider {
        Provider::Ours => rename(object),
        // It writes into the annotations of a DevCluster, and panics where there are none.
        Provider::Peer if kind == "DevCluster" => {
            object["metadata"]["annotations"] = yaml("{nephele.dev/upstream: ''}");
        }
        Provider::Peer => {}
    }
}

/// Takes the machine pools from a class with its patches, and from the topology of a cluster.
fn without_pools(object: &mut Value) {
    without_definitions(object, |definition| {
        !definition["selector"]["matchResources"]["machinePoolClass"].is_null()
    });
    for path in [&["spec", "workers"][..], &["spec", "topology", "workers"]] {
        let place = path
            .iter()
            .try_fold(&mut *object, |value, key| value.get_mut(*key));
        if let Some(workers) = place.and_then(Value::as_mapping_mut) {
            workers.remove("machinePools");
        }
    }
}

/// Gives the spec of a cluster or a machine of Docker, which is also the backend of one that names none, the backend in memory.
fn in_memory(spec: &mut Value) {
    if spec["backend"]["inMemory"].is_null() {
        spec["backend"] = yaml("inMemory: {}");
    }
}

/// Turns the backend of a cluster or a machine into fields of ours.
fn with_our_fields(spec: &mut Mapping) {
    let Some(backend) = spec.remove("backend") else {
        return;
    };
    let docker = &backend["docker"];
    if let Some(zones) = docker.get("failureDomains") {
        spec.insert("failureDomains".into(), zones.clone());
    }
    if let Some(behaviour) = backend["inMemory"]
        .as_mapping()
        .filter(|fields| !fields.is_empty())
    {
        spec.insert("behaviour".into(), behaviour.clone().into());
    }
}

/// Removes the patches that change a backend.
fn without_patches_of_theirs(class: &mut Value) {
    without_definitions(class, |definition| {
        let changes = definition["jsonPatches"].as_sequence();
        let mut paths = changes
            .into_iter()
            .flatten()
            .filter_map(|change| change["path"].as_str());
        paths.any(|path| path.contains("/backend"))
    });
}

/// Removes these definitions of the patches of a class, and the patches of which none is left.
fn without_definitions(class: &mut Value, is_removed: impl Fn(&Value) -> bool) {
    let patches = class.get_mut("spec").and_then(|spec| spec.get_mut("patches"));
    let Some(patches) = patches.and_then(Value::as_sequence_mut) else {
        return;
    };
    for patch in patches.iter_mut() {
        if let Some(definitions) = patch.get_mut("definitions").and_then(Value::as_sequence_mut) {
            definitions.retain(|definition| !is_removed(definition));
        }
    }
    patches.retain(|patch| {
        patch["definitions"]
            .as_sequence()
            .is_none_or(|definitions| !definitions.is_empty())
    });
}

/// Gives a class whose variables their extension discovers those that their clusters set. Ours discovers others.
fn with_variables_of_their_extension(class: &mut Value) {
    let Some(patches) = class["spec"].get_mut("patches").and_then(Value::as_sequence_mut) else {
        return;
    };
    let is_discovered = |patch: &Value| patch["external"].get("discoverVariablesExtension").is_some();
    if !patches.iter().any(is_discovered) {
        return;
    }
    patches.extend([yaml(MAX_SURGE), yaml(FILES)]);
    class["spec"]["variables"] = yaml(VARIABLES_OF_THEIRS);
}

/// The variables that their clusters set.
const VARIABLES_OF_THEIRS: &str = "
- {name: kubeadmControlPlaneMaxSurge, required: false, schema: {openAPIV3Schema: {type: string, default: ''}}}
- {name: imageRepository, required: false, schema: {openAPIV3Schema: {type: string, default: ''}}}
- name: files
  required: false
  schema:
    openAPIV3Schema:
      type: array
      default: []
      items:
        type: object
        properties: {path: {type: string}, content: {type: string}}
";

/// What the first of them does.
const MAX_SURGE: &str = "
name: maxSurge
enabledIf: '{{ ne .kubeadmControlPlaneMaxSurge \"\" }}'
definitions:
- selector:
    apiVersion: controlplane.cluster.x-k8s.io/v1beta2
    kind: KubeadmControlPlaneTemplate
    matchResources: {controlPlane: true}
  jsonPatches:
  - op: add
    path: /spec/template/spec/rollout
    valueFrom:
      template: '{strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: {{ .kubeadmControlPlaneMaxSurge }}}}}'
";

/// What the last of them does: each machine gets the files.
const FILES: &str = "
name: files
enabledIf: '{{ if .files }}true{{ end }}'
definitions:
- selector:
    apiVersion: controlplane.cluster.x-k8s.io/v1beta2
    kind: KubeadmControlPlaneTemplate
    matchResources: {controlPlane: true}
  jsonPatches:
  - {op: add, path: /spec/template/spec/kubeadmConfigSpec/files, valueFrom: {variable: files}}
- selector:
    apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
    kind: KubeadmConfigTemplate
    matchResources: {machineDeploymentClass: {names: ['*']}}
  jsonPatches:
  - {op: add, path: /spec/template/spec/files, valueFrom: {variable: files}}
";

fn yaml(text: &str) -> Value {
    serde_yaml_ng::from_str(text).expect("it is YAML")
}

/// Names our kinds wherever an object names one of theirs.
fn rename(value: &mut Value) {
    match value {
        Value::Mapping(fields) => {
            for (key, field) in fields.iter_mut() {
                match field {
                    Value::String(kind) if key == "kind" && kind.starts_with("Dev") => {
                        *kind = kind.replacen("Dev", "InMemory", 1);
                    }
                    field => rename(field),
                }
            }
        }
        Value::Sequence(items) => items.iter_mut().for_each(rename),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flavor_is_told_in_our_kinds_and_variables_keep_their_types() {
        let theirs = "\
kind: DevCluster
metadata: {name: '${CLUSTER_NAME}'}
spec: {backend: {docker: {failureDomains: [{name: fd1, controlPlane: true}]}}}
---
kind: DevMachineTemplate
metadata: {name: \"${CLUSTER_NAME}-md-0\"}
spec: {template: {spec: {backend: {inMemory: {vm: {provisioning: {startupDuration: 10s}}}}}}}
---
kind: MachineDeployment
spec:
  replicas: ${WORKER_MACHINE_COUNT}
  version: \"${KUBERNETES_VERSION}\"
  template: {spec: {infrastructureRef: {kind: DevMachineTemplate}}}
";
        let ours = "\
kind: InMemoryCluster
metadata:
  name: \"${CLUSTER_NAME}\"
spec:
  failureDomains:
  - name: fd1
    controlPlane: true
---
kind: InMemoryMachineTemplate
metadata:
  name: \"${CLUSTER_NAME}-md-0\"
spec:
  template:
    spec:
      behaviour:
        vm:
          provisioning:
            startupDuration: 10s
---
kind: MachineDeployment
spec:
  replicas: ${WORKER_MACHINE_COUNT}
  version: \"${KUBERNETES_VERSION}\"
  template:
    spec:
      infrastructureRef:
        kind: InMemoryMachineTemplate
";
        assert_eq!(translated(theirs, Provider::Ours).expect("it is YAML"), ours);
    }

    #[test]
    fn patches_of_a_backend_are_left_out_and_others_stay() {
        let theirs = "\
kind: ClusterClass
spec:
  patches:
  - name: image
    definitions: [{jsonPatches: [{path: /spec/template/spec/backend/docker/customImage}]}]
  - name: etcd
    definitions: [{jsonPatches: [{path: /spec/template/spec/kubeadmConfigSpec}]}]
  - name: external
    external: {generatePatchesExtension: patches}
";
        let ours = translated(theirs, Provider::Ours).expect("it is YAML");
        let names: Vec<_> = ours
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- name: "))
            .collect();
        assert_eq!(names, ["etcd", "external"]);
    }

    #[test]
    fn what_their_extension_discovers_is_a_part_of_the_class() {
        let theirs = "\
kind: ClusterClass
spec: {patches: [{name: theirs, external: {discoverVariablesExtension: discover-variables.a}}]}
";
        let ours = yaml(&translated(theirs, Provider::Ours).expect("it is YAML"));
        assert_eq!(ours["spec"]["variables"], yaml(VARIABLES_OF_THEIRS));
        assert_eq!(ours["spec"]["patches"][1], yaml(MAX_SURGE));
        assert_eq!(ours["spec"]["patches"][2], yaml(FILES));
    }

    #[test]
    fn a_flavor_of_the_peer_has_its_backend_and_no_machine_pools() {
        let theirs = "\
kind: DevCluster
metadata: {name: a}
spec:
  backend: {docker: {failureDomains: []}}
---
kind: DevMachineTemplate
spec: {template: {spec: {backend: {inMemory: {vm: {}}}}}}
---
kind: DevMachinePool
spec: {backend: {docker: {}}}
---
kind: DevMachine
---
kind: ConfigMap
data: {}
---
kind: ClusterClass
spec:
  patches:
  - definitions:
    - {selector: {kind: A, matchResources: {machinePoolClass: {names: [b]}}}}
    - {selector: {kind: B}}
---
kind: Cluster
spec: {topology: {workers: {machineDeployments: [{class: a}], machinePools: [{class: b}]}}}
";
        let expected = "\
kind: DevCluster
metadata:
  name: a
  annotations:
    nephele.dev/upstream: ''
spec:
  backend:
    inMemory: {}
---
kind: DevMachineTemplate
spec:
  template:
    spec:
      backend:
        inMemory:
          vm: {}
---
kind: DevMachine
spec:
  backend:
    inMemory: {}
---
kind: ConfigMap
data: {}
---
kind: ClusterClass
spec:
  patches:
  - definitions:
    - selector:
        kind: B
---
kind: Cluster
spec:
  topology:
    workers:
      machineDeployments:
      - class: a
";
        assert_eq!(translated(theirs, Provider::Peer).expect("it is YAML"), expected);
    }

    #[test]
    fn the_network_of_a_cluster_is_one_object() {
        let ours =
            translated("kind: ConfigMap\ndata: ${CNI_RESOURCES}\n", Provider::Ours).expect("it is YAML");
        assert_eq!(ours, format!("kind: ConfigMap\ndata:\n  network: '{NETWORK}'\n"));
    }
}
