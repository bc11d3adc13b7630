//! Schemas that a derive cannot express, modelled on those of `metav1` and of Cluster API's own CRDs.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::start_up::{DURATION_PATTERN, JITTER_PATTERN};

/// A rule in CEL, with the error message of the API server.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

/// Whether a field has its default value and need not be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const CONDITION_TYPE_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A spec that is kept in a status. The schema of the spec has checked it.
pub(crate) fn kept_spec(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// `metav1.Condition` as controller-gen writes it: everything but `observedGeneration` is required, and there is one
/// condition of each type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "What is known of the state of the object.",
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": { "description": "A message for people.", "type": "string", "maxLength": 32768 },
                "observedGeneration": {
                    "description": "The metadata.generation that the condition was set for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": {
                    "description": "The reason, as one word in CamelCase.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE_PATTERN,
                },
            },
        },
    })
}

/// Conditions of Cluster API's contract v1beta1, with the limits of the new conditions for common fields, so that a
/// condition in one form can be converted to the other and back.
pub(crate) fn old_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "What is known of the state of the object, in the form of Cluster API's contract v1beta1: without \
                        Paused and Deleting, which are among those of status.v1beta2.",
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": { "description": "A message for people.", "type": "string", "maxLength": 32768 },
                "reason": {
                    "description": "The reason, as one word in CamelCase.",
                    "type": "string",
                    "maxLength": 1024,
                    "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?)?$",
                },
                "severity": {
                    "description": "The severity when the status is False.",
                    "type": "string",
                    "enum": ["", "Info", "Warning", "Error"],
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": { "type": "string", "maxLength": 316, "pattern": CONDITION_TYPE_PATTERN },
            },
        },
    })
}

fn failure_domain_map(description: &str, properties_min: u32) -> Schema {
    json_schema!({
        "description": description,
        "type": "object",
        "minProperties": properties_min,
        "maxProperties": 100,
        "additionalProperties": {
            "type": "object",
            "properties": {
                "controlPlane": {
                    "description": "Whether control plane machines may be placed there.",
                    "type": "boolean",
                },
                "attributes": {
                    "description": "Further attributes.",
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                },
            },
        },
        "x-kubernetes-validations": [rule(
            "self.all(name, size(name) >= 1 && size(name) <= 256)",
            "a failure domain has a name of 1 to 256 characters",
        )],
    })
}

/// Failure domains in the spec, by name.
pub(crate) fn wanted_failure_domains_by_name(_: &mut SchemaGenerator) -> Schema {
    failure_domain_map(
        "The failure domains that the simulated cluster has, by name. None by default.",
        0,
    )
}

/// Failure domains as Cluster API's contract v1beta1 reads them.
pub(crate) fn reported_failure_domains_by_name(_: &mut SchemaGenerator) -> Schema {
    failure_domain_map("The failure domains that machines can be placed in, by name.", 1)
}

/// The longest name of a failure domain, which Cluster API takes (`api/core/v1beta2/cluster_types.go`). It may have any
/// characters.
pub(crate) const FAILURE_DOMAIN_NAME_MAX: usize = 256;

fn failure_domain_list(description: &str, items_min: u32) -> Schema {
    json_schema!({
        "description": description,
        "type": "array",
        "minItems": items_min,
        "maxItems": 100,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {
                    "description": "Its name.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": FAILURE_DOMAIN_NAME_MAX,
                },
                "controlPlane": {
                    "description": "Whether control plane machines may be placed there.",
                    "type": "boolean",
                },
                "attributes": {
                    "description": "Further attributes.",
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                },
            },
        },
    })
}

/// Failure domains in the spec.
pub(crate) fn wanted_failure_domains(_: &mut SchemaGenerator) -> Schema {
    failure_domain_list(
        "The failure domains that the simulated cluster has. None by default.",
        0,
    )
}

/// Failure domains as Cluster API reads them.
pub(crate) fn reported_failure_domains(_: &mut SchemaGenerator) -> Schema {
    failure_domain_list("The failure domains that machines can be placed in.", 1)
}

/// Addresses of a machine as Cluster API reads them.
pub(crate) fn machine_addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The addresses of the machine.",
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["type", "address"],
            "properties": {
                "type": {
                    "description": "The type of the address.",
                    "type": "string",
                    "enum": ["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"],
                },
                "address": { "description": "The address.", "type": "string", "minLength": 1, "maxLength": 256 },
            },
        },
    })
}

/// A reference to a pool, restricted as Cluster API restricts the reference in a claim
/// (`api/ipam/v1beta2/ipaddressclaim_types.go`).
fn pool_reference(description: &str) -> Value {
    const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    json!({
        "description": description,
        "type": "object",
        "required": ["apiGroup", "kind", "name"],
        "properties": {
            "apiGroup": {
                "description": "API group of the pool, such as ipam.cluster.x-k8s.io.",
                "type": "string",
                "minLength": 1,
                "maxLength": 253,
                "pattern": SUBDOMAIN,
            },
            "kind": {
                "description": "Kind of the pool, such as InClusterIPPool.",
                "type": "string",
                "minLength": 1,
                "maxLength": 63,
                "pattern": "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
            },
            "name": {
                "description": "Name of the pool.",
                "type": "string",
                "minLength": 1,
                "maxLength": 253,
                "pattern": SUBDOMAIN,
            },
        },
    })
}

/// Pools for the addresses of a machine. The maximum number is that of other infrastructure providers.
pub(crate) fn pool_references(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Pools that each give the machine an address, in this order: two of them, one per family, make \
                        it dual-stack. The machine boots once it has all of its addresses; one without pools gets an \
                        address from the simulated cloud.",
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "atomic",
        "items": pool_reference("A pool of any IPAM provider."),
    })
}

/// The pool for the address of a load balancer.
pub(crate) fn load_balancer_pool_reference(_: &mut SchemaGenerator) -> Schema {
    let description = "The pool that gives the control plane's load balancer its address. The address is claimed and \
                       shown; clients keep connecting to the endpoint, as nothing routes a simulated address.";
    pool_reference(description)
        .try_into()
        .expect("an object is a schema")
}

fn address_from_pool(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "required": ["address"],
        "properties": {
            "address": { "description": "The address.", "type": "string", "minLength": 1, "maxLength": 39 },
            "prefix": {
                "description": "The length of its subnet's prefix.",
                "type": "integer",
                "format": "int32",
                "minimum": 0,
                "maximum": 128,
            },
            "gateway": {
                "description": "The gateway of its subnet.",
                "type": "string",
                "minLength": 1,
                "maxLength": 39,
            },
        },
    })
}

/// An address from a pool.
pub(crate) fn claimed_address(_: &mut SchemaGenerator) -> Schema {
    address_from_pool("The address of the load balancer.")
        .try_into()
        .expect("an object is a schema")
}

/// Addresses from pools.
pub(crate) fn claimed_addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The addresses from the pools, in the order of spec.network.addressesFromPools.",
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "atomic",
        "items": address_from_pool("An address from a pool."),
    })
}

/// The parts of the pod networks that a Node has: one of each family.
pub(crate) fn pod_cidrs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 2,
        "x-kubernetes-list-type": "atomic",
        "items": { "type": "string", "minLength": 1, "maxLength": 43 },
    })
}

/// Labels of a Node, with as many as a machine is given.
pub(crate) fn node_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    })
}

/// Taints of a Node, with as many as a machine is given.
pub(crate) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["effect", "key"],
            "properties": {
                "effect": { "description": "Its effect.", "type": "string", "minLength": 1, "maxLength": 64 },
                "key": { "description": "Its key.", "type": "string", "minLength": 1, "maxLength": 317 },
                "value": { "description": "Its value; absent for none.", "type": "string", "minLength": 1, "maxLength": 63 },
            },
        },
    })
}

/// The URLs of members of etcd.
pub(crate) fn etcd_endpoints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "atomic",
        "items": { "type": "string", "minLength": 1, "maxLength": 512 },
    })
}

/// Times by the name of a part of a machine.
pub(crate) fn reached(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "type": "string", "format": "date-time" },
    })
}

/// Hashes or references for the contents of files, by path.
pub(crate) fn file_contents(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 128,
        "additionalProperties": { "type": "string", "minLength": 1, "maxLength": 1024 },
    })
}

/// A time.
pub(crate) fn instant(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "format": "date-time",
    })
}

/// A duration of zero or more.
pub(crate) fn startup_duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "How long it takes, as a duration such as 300ms, 20s or 1m30s; not negative.",
        "type": "string",
        "maxLength": 64,
        "pattern": DURATION_PATTERN,
        "x-kubernetes-validations": [{
            "rule": format!("self.matches({DURATION_PATTERN:?})"),
            "message": "startupDuration must be a duration of zero or more, such as 300ms, 20s or 1m30s",
        }],
    })
}

/// A fraction from 0 to 1.
pub(crate) fn startup_jitter(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "How much of startupDuration comes on top at most, as a decimal fraction from 0 to 1 such as \
                        \"0.2\". How much it is for a machine is drawn once.",
        "type": "string",
        "maxLength": 32,
        "pattern": JITTER_PATTERN,
        "x-kubernetes-validations": [{
            "rule": format!("self.matches({JITTER_PATTERN:?})"),
            "message": "startupJitter must be a decimal fraction from 0 to 1, such as 0.2",
        }],
    })
}

/// Quantities by resource name. Only strings are allowed: the cluster autoscaler drops the whole map because of one
/// number.
pub(crate) fn capacity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "What a machine of this template offers: quantities by resource name, such as cpu and memory. \
                        The cluster autoscaler reads it to scale from zero.",
        "type": "object",
        "additionalProperties": {
            "type": "string",
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        },
    })
}

/// Labels, with valid label values (`apimachinery/pkg/util/validation`, `IsValidLabelValue`).
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Labels.",
        "type": "object",
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        },
    })
}

/// The provider IDs of a pool, with the maximum number and length that Cluster API accepts
/// (`api/core/v1beta2/machinepool_types.go`).
pub(crate) fn provider_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The provider IDs of the machines that exist. Set by the provider.",
        "type": "array",
        "maxItems": 10000,
        "x-kubernetes-list-type": "atomic",
        "items": { "type": "string", "minLength": 1, "maxLength": 512 },
    })
}

/// `metav1.LabelSelector`.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    selector("The namespaces for whose machines the extension is called, by their labels; by default all.")
}

/// A selector of namespaces for Faults.
pub(crate) fn faulty_namespaces(_: &mut SchemaGenerator) -> Schema {
    selector(
        "The namespaces that get the Fault, by their labels, such as kubernetes.io/metadata.name; by default, and with \
         an empty selector, all. A namespace that gets the labels later gets the Fault, and one that loses them loses it.",
    )
}

/// A selector of Clusters.
pub(crate) fn cluster_selector(_: &mut SchemaGenerator) -> Schema {
    selector("The Clusters, by their labels; by default all.")
}

/// A selector of Machines.
pub(crate) fn machine_selector(_: &mut SchemaGenerator) -> Schema {
    selector(
        "The Machines, by their labels, such as cluster.x-k8s.io/deployment-name; by default all. With a selector, no \
         load balancer is hit.",
    )
}

/// A selector of Machines to count.
pub(crate) fn counted_machines(_: &mut SchemaGenerator) -> Schema {
    selector("The Machines, by their labels; by default all.")
}

/// `metav1.LabelSelector`.
fn selector(description: &str) -> Schema {
    json_schema!({
        "description": description,
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "Labels that have to be there with these values.",
                "type": "object",
                "additionalProperties": { "type": "string" },
            },
            "matchExpressions": {
                "description": "Further requirements.",
                "type": "array",
                "maxItems": 100,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "The label.", "type": "string", "minLength": 1, "maxLength": 317 },
                        "operator": { "type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"] },
                        "values": {
                            "description": "The values, for In and NotIn.",
                            "type": "array",
                            "maxItems": 100,
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string" },
                        },
                    },
                },
            },
        },
    })
}

/// Certificate authorities, with the maximum length of Cluster API.
pub(crate) fn ca_bundle(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The certificate authorities that the extension's certificate may come from, in PEM. Those of \
                        the system where there are none.",
        "type": "string",
        "format": "byte",
        "minLength": 1,
        "maxLength": 51200,
    })
}
