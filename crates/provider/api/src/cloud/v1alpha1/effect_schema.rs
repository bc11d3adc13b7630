//! The schema of the field `effect` of Faults. What reads the field is [`nephele_model::FaultEffect`].

use nephele_model::{
    BootstrapPhase, EtcdAlarm, FailureReason, Stage,
    effect::{ConditionStatus, ERROR_CODES, REQUEST_VERBS},
    name_patterns::{NAME_PATTERN, PLACE_PATTERN},
};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::{
    schema,
    start_up::{DURATION_PATTERN, JITTER_PATTERN},
};

/// The end of the name of a Node.
const NAME_SUFFIX_PATTERN: &str = "^[-a-z0-9]*[a-z0-9]$";

/// One field for each effect, of which exactly one is set.
pub(super) fn effect(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "What happens.",
        "type": "object",
        "x-kubernetes-validations": [
            schema::rule(
                "[has(self.fail), has(self.delay), has(self.outage), has(self.notReady), \
                 has(self.nodeCondition), has(self.freeze), has(self.vanish), has(self.hold), \
                 has(self.apiServer), has(self.etcd), has(self.certificate), has(self.loadBalancer), \
                 has(self.wrongProviderID), has(self.flap), has(self.leak), has(self.spotReclaim), \
                 has(self.bootstrap), has(self.clockSkew), has(self.lag), has(self.duplicate), \
                 has(self.addresses), has(self.nodeRebootsAs)].filter(set, set).size() == 1",
                "exactly one effect has to be set",
            ),
        ],
        "properties": {
            "addresses": addresses(),
            "apiServer": api_server(),
            "bootstrap": bootstrap(),
            "certificate": certificate(),
            "clockSkew": clock_skew(),
            "delay": delay("An operation takes longer."),
            "duplicate": duplicate(),
            "etcd": etcd(),
            "fail": fail(),
            "flap": flap(),
            "freeze": no_settings(
                "The machine runs, but nothing on it answers: the kubelet, the API server and etcd.",
            ),
            "hold": hold(),
            "lag": delay(
                "Reads do not show for a while what an operation has changed. The operations are those that change \
                 something.",
            ),
            "leak": no_settings(
                "The cloud says that an instance is deleted, and it still exists: it takes up room and costs money, \
                 and has no\n\
                 owner. It stays when the fault is deleted, except in the built-in cloud. See leakedInstances of a\n\
                 SimulatedCloud. With the operation DeleteLoadBalancer, load balancers leak. Such a one keeps its room \
                 and its port.",
            ),
            "loadBalancer": load_balancer(),
            "nodeCondition": node_condition(),
            "nodeRebootsAs": node_reboots_as(),
            "notReady": no_settings(
                "The kubelet stops: the Node of the machine is unreachable. Everything else on the machine works.",
            ),
            "outage": outage(),
            "spotReclaim": spot_reclaim(),
            "vanish": no_settings(
                "The instance is gone for good, also after the fault is deleted.",
            ),
            "wrongProviderID": no_settings(
                "The Node of the machine has the provider ID of no machine. A machine that has a Node already is not \
                 hit.",
            ),
        },
    })
}

/// An effect that has no settings.
fn no_settings(description: &str) -> Value {
    json!({ "description": description, "type": "object" })
}

fn duration(description: &str) -> Value {
    json!({
        "description": description,
        "maxLength": 32,
        "minLength": 1,
        "pattern": DURATION_PATTERN,
        "type": "string",
    })
}

/// When something is tried again.
fn retry_after(description: &str) -> Value {
    json!({ "description": description, "maxLength": 32, "pattern": DURATION_PATTERN, "type": "string" })
}

fn fraction(description: &str) -> Value {
    json!({
        "description": description,
        "maxLength": 32,
        "minLength": 1,
        "pattern": JITTER_PATTERN,
        "type": "string",
    })
}

fn delay(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "required": ["duration"],
        "properties": {
            "duration": duration("The minimum."),
            "jitter": fraction("The largest random addition, as a fraction of the duration; by default 0."),
        },
    })
}

fn addresses() -> Value {
    json!({
        "description": "Pools hand out addresses late, or not at all. Such a fault affects the \
         IPAddressClaims of its namespace, and the\n\
         IPAM provider carries it out. Of the fields of match, it can have pools and clusterSelector.",
        "type": "object",
        "x-kubernetes-validations": [
            schema::rule(
                "[has(self.slow), has(self.exhausted), has(self.conflict), has(self.lateRelease)].filter(set, \
                 set).size() == 1",
                "exactly one of slow, exhausted, conflict and lateRelease has to be set",
            ),
        ],
        "properties": {
            "conflict": no_settings(
                "The address that a claim would get is in use outside of the pool. The claim says so, and gets \
                 another one 5s later.\n\
                 No claim gets the address until the fault is gone.",
            ),
            "exhausted": no_settings(
                "A claim that has no address gets none, as if its pool had no address left.",
            ),
            "lateRelease": {
                "description": "An address is held back after its claim was deleted.",
                "type": "object",
                "required": ["duration"],
                "properties": {
                    "duration": duration(
                        "The time from the deletion of the claim until its address is free.",
                    ),
                },
            },
            "slow": delay(
                "A claim gets its address this time after it was created, and not before. A claim that is \
                 older is not hit and does\n\
                 not count.",
            ),
        },
    })
}

fn api_server() -> Value {
    json!({
        "description": "The API servers of a workload cluster misbehave. Such a fault affects Clusters, so \
         fields of match that are\n\
         about machines only fit nothing.",
        "type": "object",
        "x-kubernetes-validations": [
            schema::rule(
                "[has(self.down), has(self.error), has(self.latency), has(self.cutWatches), \
                 has(self.staleReads)].filter(set, set).size() == 1",
                "exactly one of down, error, latency, cutWatches and staleReads has to be set",
            ),
            schema::rule(
                "!has(self.down) || !(has(self.verbs) || has(self.resources))",
                "verbs and resources cannot be set with down",
            ),
            schema::rule(
                "!has(self.cutWatches) || !has(self.verbs)",
                "verbs cannot be set with cutWatches",
            ),
            schema::rule(
                "!has(self.staleReads) || !has(self.verbs) || self.verbs.all(verb, verb in ['get', 'list', \
                 'watch'])",
                "verbs can only be get, list and watch with staleReads",
            ),
        ],
        "properties": {
            "cutWatches": {
                "description": "The connections of watches break.",
                "type": "object",
                "required": ["after"],
                "properties": {
                    "after": duration(
                        "The time from the beginning of a watch until its connection breaks.",
                    ),
                },
            },
            "down": no_settings(
                "No API server is in service: connections end, and new ones get no answer.",
            ),
            "error": {
                "description": "Requests are answered with an error.",
                "type": "object",
                "required": ["code"],
                "properties": {
                    "code": {
                        "description": "The status code.",
                        "enum": ERROR_CODES,
                        "format": "int32",
                        "type": "integer",
                    },
                    "probability": fraction(
                        "The probability that a request fails, from 0 to 1; by default 1.",
                    ),
                },
            },
            "latency": delay("Requests are answered late."),
            "resources": {
                "description": "The resources of the requests, such as nodes; by default all requests, also \
                 those without a resource.",
                "items": { "maxLength": 63, "minLength": 1, "pattern": PLACE_PATTERN, "type": "string" },
                "maxItems": 100,
                "minItems": 1,
                "type": "array",
                "x-kubernetes-list-type": "set",
            },
            "staleReads": no_settings(
                "Reads see the objects as they were when the fault hit the cluster, and watches see no change. \
                 Writes are carried\n\
                 out. Open connections end when it begins and when it ends.",
            ),
            "verbs": {
                "description": "The verbs of the requests; by default all.",
                "items": { "enum": REQUEST_VERBS, "type": "string" },
                "maxItems": REQUEST_VERBS.len(),
                "minItems": 1,
                "type": "array",
                "x-kubernetes-list-type": "set",
            },
        },
    })
}

fn bootstrap() -> Value {
    json!({
        "description": "kubeadm fails on the machine. When the fault is deleted, it is run again and succeeds.",
        "type": "object",
        "required": ["failedPhase"],
        "properties": {
            "failedPhase": {
                "description": "The phase in which kubeadm fails. With preflight and kubelet-start, the \
                 machine has no Node. With etcd-join it has\n\
                 one, and no etcd member. With wait-control-plane it has both, and its API server never gets \
                 ready. Machines\n\
                 without such a phase are not hit, and neither are those that are past it.",
                "enum": BootstrapPhase::ALL.map(BootstrapPhase::as_str),
                "type": "string",
            },
        },
    })
}

fn certificate() -> Value {
    json!({
        "description": "The API server on a control plane machine presents a certificate that expires early.",
        "type": "object",
        "x-kubernetes-validations": [
            schema::rule(
                "has(self.expiresIn) != has(self.expired)",
                "exactly one of expiresIn and expired has to be set",
            ),
        ],
        "properties": {
            "expired": no_settings("The certificate has expired."),
            "expiresIn": duration(
                "The certificate expires after this time, from when the fault began, or from the start of the \
                 API server if that\n\
                 is later.",
            ),
        },
    })
}

fn clock_skew() -> Value {
    json!({
        "description": "The clock of the machine is wrong.",
        "type": "object",
        "x-kubernetes-validations": [
            schema::rule(
                "has(self.ahead) != has(self.behind)",
                "exactly one of ahead and behind has to be set",
            ),
        ],
        "properties": {
            "ahead": duration("How much the clock is ahead."),
            "behind": duration("How much the clock is behind."),
        },
    })
}

fn duplicate() -> Value {
    json!({
        "description": "A machine is created and no answer comes, and when the creation is repeated, a second \
         instance is created. The first\n\
         one leaks: it takes up room and costs money, and has no owner. See leakedInstances of a \
         SimulatedCloud.",
        "type": "object",
        "properties": {
            "retryAfter": retry_after(
                "When the manager repeats the creation, unless something happens to the machine before; by \
                 default after 5s, and\n\
                 after 100ms at the earliest.",
            ),
        },
    })
}

fn etcd() -> Value {
    json!({
        "description": "The etcd of a workload cluster misbehaves.",
        "type": "object",
        "x-kubernetes-validations": [
            schema::rule(
                "[has(self.alarm), has(self.noLeader), has(self.slow), has(self.hiddenMember)].filter(set, \
                 set).size() == 1",
                "exactly one of alarm, noLeader, slow and hiddenMember has to be set",
            ),
        ],
        "properties": {
            "alarm": {
                "description": "The etcd members of control plane machines raise this alarm.",
                "enum": EtcdAlarm::ALL,
                "type": "string",
            },
            "hiddenMember": no_settings(
                "The member list omits the members of control plane machines. They work all the same.",
            ),
            "noLeader": no_settings(
                "The members cannot elect a leader, as when the quorum is lost. Such a fault affects \
                 Clusters, so fields of match\n\
                 that are about machines fit nothing.",
            ),
            "slow": delay(
                "All calls are answered late. Such a fault affects Clusters, so fields of match that are \
                 about machines fit\n\
                 nothing.",
            ),
        },
    })
}

fn fail() -> Value {
    json!({
        "description": "The cloud refuses an operation.",
        "type": "object",
        "required": ["reason"],
        "properties": {
            "message": {
                "description": "More words for the message of the condition.",
                "maxLength": 256,
                "minLength": 1,
                "type": "string",
            },
            "reason": {
                "description": "The reason, which the conditions of InMemoryClusters and InMemoryMachines \
                 show. LostAnswer carries the operation\n\
                 out, and then looks like Timeout.",
                "enum": FailureReason::ALL,
                "type": "string",
            },
            "retryAfter": retry_after(
                "When the manager tries again; by default after 5s, and after 100ms at the earliest.",
            ),
        },
    })
}

fn flap() -> Value {
    json!({
        "description": "The kubelet is silent and reports in turn.",
        "type": "object",
        "required": ["down", "up"],
        "x-kubernetes-validations": [
            schema::rule(
                "duration(self.up) >= duration('1s') && duration(self.down) >= duration('1s')",
                "flap.up and flap.down must be at least 1s",
            ),
        ],
        "properties": {
            "down": duration("How long it is silent; at least 1s."),
            "up": duration("How long the kubelet reports; at least 1s."),
        },
    })
}

fn hold() -> Value {
    json!({
        "description": "The machine does not get past a stage of its start.",
        "type": "object",
        "required": ["stage"],
        "properties": {
            "stage": {
                "description": "The stage. With node, the machine boots but never joins its cluster.",
                "enum": Stage::ALL.map(Stage::as_str),
                "type": "string",
            },
        },
    })
}

fn load_balancer() -> Value {
    json!({
        "description": "The load balancer of a workload cluster misbehaves. Such a fault affects Clusters, so \
         fields of match that are\n\
         about machines only fit nothing.",
        "type": "object",
        "x-kubernetes-validations": [
            schema::rule(
                "[has(self.noBackends), has(self.wrongBackends), has(self.reset)].filter(set, set).size() == 1",
                "exactly one of noBackends, wrongBackends and reset has to be set",
            ),
        ],
        "properties": {
            "noBackends": no_settings(
                "Open connections end, and new ones are accepted and closed at once.",
            ),
            "reset": {
                "description": "Connections break off. New ones work.",
                "type": "object",
                "required": ["after"],
                "properties": {
                    "after": duration(
                        "The time until a connection breaks, from when it began, or from when the fault hit \
                         the cluster if that is later.",
                    ),
                    "probability": fraction(
                        "The probability that a connection breaks, from 0 to 1; by default 1.",
                    ),
                },
            },
            "wrongBackends": no_settings(
                "Open connections end, and new ones reach a server of another cluster.",
            ),
        },
    })
}

fn node_condition() -> Value {
    json!({
        "description": "The Node of the machine has a condition.",
        "type": "object",
        "required": ["status", "type"],
        "properties": {
            "message": {
                "description": "Its message. The name of the fault is added.",
                "maxLength": 256,
                "minLength": 1,
                "type": "string",
            },
            "reason": {
                "description": "Its reason; by default SimulatedFault.",
                "maxLength": 256,
                "minLength": 1,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                "type": "string",
            },
            "status": {
                "description": "Its status.",
                "enum": ConditionStatus::ALL,
                "type": "string",
            },
            "type": {
                "description": "Its type, such as DiskPressure or KernelDeadlock.",
                "maxLength": 63,
                "minLength": 1,
                "pattern": NAME_PATTERN,
                "type": "string",
            },
        },
    })
}

fn node_reboots_as() -> Value {
    json!({
        "description": "The instance reboots, and its kubelet registers a Node with another name, as after a \
         change of the host name. The\n\
         first Node stays and is unreachable. When the fault is deleted, the second Node goes, and the first \
         one is ready\n\
         again. A machine that has no Node yet is hit when it gets one.",
        "type": "object",
        "required": ["nameSuffix"],
        "properties": {
            "downFor": duration(
                "How long the instance is down, in the time of its cloud; by default 30s. Meanwhile nothing on \
                 it answers, and it has\n\
                 one Node.",
            ),
            "nameSuffix": {
                "description": "What the name of the second Node has in addition to that of the first one, \
                 such as -2.",
                "maxLength": 16,
                "minLength": 1,
                "pattern": NAME_SUFFIX_PATTERN,
                "type": "string",
            },
        },
    })
}

fn outage() -> Value {
    json!({
        "description": "A part of the cloud is down, such as a zone: the machines there freeze, and the cloud \
         creates no new ones.",
        "type": "object",
        "properties": {
            "retryAfter": retry_after(
                "When the manager tries again to create a machine; by default after 5s, and after 100ms at the \
                 earliest.",
            ),
        },
    })
}

fn spot_reclaim() -> Value {
    json!({
        "description": "The cloud takes instances of the market Spot back, after a notice. Other machines are \
         not hit and do not count.",
        "type": "object",
        "properties": {
            "notice": duration(
                "The time between the notice and the end of an instance, in the time of its cloud; by default \
                 2m.",
            ),
        },
    })
}
