//! Values that cannot be derived from a schema: strings of a format, valid specs, and values that break a rule.

use serde_json::{Value, json};

use crate::input::schema::Kind;

/// How to test a string or number that the schema does not restrict.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entry {
    /// Any value is accepted.
    Anything,
    /// This value is refused, with the name of a field.
    Wrong {
        value: &'static str,
        named: &'static str,
    },
}

/// A valid spec.
pub(crate) fn right(kind: &Kind) -> Value {
    match (kind.name.as_str(), kind.version.as_str()) {
        // The fields that only the old version has are used if there are no addresses.
        ("InClusterIPPool" | "GlobalInClusterIPPool", "v1alpha1") => {
            json!({"subnet": "10.0.0.0/24", "start": "10.0.0.10", "end": "10.0.0.20", "gateway": "10.0.0.1"})
        }
        ("InClusterIPPool" | "GlobalInClusterIPPool", _) => {
            json!({"addresses": ["10.0.0.10-10.0.0.20"], "prefix": 24, "gateway": "10.0.0.1"})
        }
        ("InClusterPrefixPool" | "GlobalInClusterPrefixPool", _) => {
            json!({"prefixes": ["fd00::/60"], "allocationPrefixLength": 64})
        }
        ("CloudExtensionConfig", _) => {
            json!({"clientConfig": {"service": {"namespace": "a", "name": "a"}}})
        }
        // It is created, and must not hit other tests.
        ("ClusterFault", _) => json!({
            "namespaceSelector": {"matchLabels": {"unused": "here"}}, "effect": {"fail": {"reason": "Throttled"}},
        }),
        ("Fault", _) => json!({"effect": {"fail": {"reason": "Throttled"}}}),
        ("Scenario", _) => json!({"steps": [{"say": "hello"}]}),
        (template, _) if template.ends_with("Template") => json!({"template": {"spec": {}}}),
        _ => json!({}),
    }
}

/// A string that matches a pattern.
pub(crate) fn matching(pattern: &str) -> Option<&'static str> {
    let samples = [
        ("(ns|us|", "1s"),
        (r"^(0?\.[0-9]+", "0.2"),
        ("[KMGTPE]i", "1"),
        ("(Ki|Mi|Gi", "1Gi"),
        ("^[a-z0-9]([-a-z0-9]*", "a"),
        ("^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "a"),
        ("^[a-z0-9.-]+/v", "cluster.x-k8s.io/v1beta2"),
        ("^[-a-z0-9]*[a-z0-9]$", "-2"),
        ("^[A-Za-z0-9_-]+(", "status"),
        ("^[A-Za-z0-9]([-A-Za-z0-9_./]*", "Ready"),
        ("^v(0|", "v1.36.0"),
        ("^[a-z0-9]([-a-z0-9.]*", "example.com/device"),
        ("^([a-z0-9]([-a-z0-9]*", "Ready"),
        ("^[a-zA-Z]", "A"),
        ("^[A-Za-z]", "A"),
        (r"^1\.(0|", "1.36"),
        (r"^(0\.0[1-9]", "0.5"),
        (r"^(0|[1-9][0-9]{0,5})(\.", "0.5"),
        (r"^[0-9]+(\.[0-9]+)?$", "0.5"),
        ("^https://", "https://extension.example"),
        ("^/", "/"),
        ("^[A-Za-z0-9]([-A-Za-z0-9_.]*", "a"),
        ("^[A-Za-z0-9][A-Za-z0-9 ", "a"),
        ("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?", "a"),
    ];
    samples
        .into_iter()
        .find(|(part, _)| pattern.contains(part))
        .map(|(_, sample)| sample)
}

/// A value for the place of a rule that breaks the rule. Rules are identified by their messages.
pub(crate) fn breaking(message: &str) -> Option<Value> {
    Some(match message {
        "controlPlaneEndpoint belongs to a single object and cannot be in a template" => {
            json!({"controlPlaneEndpoint": {"host": "cluster.example", "port": 6443}})
        }
        "instance belongs to a single object and cannot be in a template" => {
            json!({"instance": {"machine": "machine"}})
        }
        "origin belongs to a single object and cannot be in a template" => {
            json!({"origin": {"cluster": "cluster", "created": "2026-01-01T00:00:00Z"}})
        }
        "providerID belongs to a single object and cannot be in a template" => {
            json!({"providerID": "in-memory://machine"})
        }
        "providerIDList belongs to a single object and cannot be in a template" => {
            json!({"providerIDList": ["in-memory://machine"]})
        }
        "exactly one effect has to be set"
        | "exactly one distribution has to be set"
        | "exactly one of url and service has to be set"
        | "exactly one of down, error, latency, cutWatches and staleReads has to be set"
        | "exactly one of ahead and behind has to be set"
        | "exactly one of alarm, noLeader, slow and hiddenMember has to be set"
        | "exactly one of expiresIn and expired has to be set"
        | "exactly one of noBackends, wrongBackends and reset has to be set"
        | "exactly one of slow, exhausted, conflict and lateRelease has to be set" => json!({}),
        "schedule.for must be at least 1s, and 1s shorter than schedule.every" => {
            json!({"every": "10s", "for": "9500ms"})
        }
        "flap.up and flap.down must be at least 1s" => json!({"up": "999ms", "down": "1s"}),
        "exactly one action has to be set"
        | "exactly one action, parallel or steps has to be set"
        | "exactly one of count, atLeast and atMost has to be set" => {
            json!({})
        }
        "there can be at most 100 steps, with those of each branch and each round" => {
            json!({"steps": [{"repeat": 51, "steps": [{"say": "a"}, {"say": "b"}]}]})
        }
        "steps has to be set with repeat or forEach, and only then" => json!({"say": "a", "repeat": 2}),
        "only one of repeat and forEach can be set" => {
            json!({"repeat": 2, "forEach": ["a"], "steps": [{"say": "a"}]})
        }
        "one of rate, paused, step and jump has to be set" => json!({"cloud": "a"}),
        "exactly one of cluster, machines and object has to be set" => {
            json!({"within": "1s", "during": "1s"})
        }
        "condition has to be set with cluster, and only then" => {
            json!({"cluster": "a", "within": "1s", "during": "1s"})
        }
        "status can only be set with cluster" => {
            json!({"machines": {"count": 1}, "status": "True", "within": "1s", "during": "1s"})
        }
        "machineDeployment and machinePool can only be set with the kind Cluster" => {
            json!({"kind": "MachineDeployment", "name": "a", "replicas": 1, "machinePool": "a"})
        }
        "only one of machineDeployment and machinePool can be set" => {
            json!({"kind": "Cluster", "name": "a", "replicas": 1, "machineDeployment": "a", "machinePool": "a"})
        }
        "burst can only be set with rate" => json!({"burst": 1}),
        "verbs and resources cannot be set with down" => json!({"down": {}, "verbs": ["get"]}),
        "verbs cannot be set with cutWatches" => json!({"cutWatches": {"after": "1s"}, "verbs": ["get"]}),
        "verbs can only be get, list and watch with staleReads" => {
            json!({"staleReads": {}, "verbs": ["create"]})
        }
        "match.operations can only be set with the effects fail, delay, lag and leak" => {
            json!({"effect": {"freeze": {}}, "match": {"operations": ["CreateInstance"]}})
        }
        "match.operations can only have DeleteInstance and DeleteLoadBalancer with the effect leak" => {
            json!({"effect": {"leak": {}}, "match": {"operations": ["CreateInstance"]}})
        }
        "match.operations cannot have a read with the effect lag" => {
            json!({"effect": {"lag": {"duration": "1s"}}, "match": {"operations": ["DescribeInstance"]}})
        }
        "match.callers can only be set with the effects fail, delay, lag, leak and duplicate" => {
            json!({"effect": {"freeze": {}}, "match": {"callers": ["machine"]}})
        }
        "match.pools can only be set with the effect addresses" => {
            json!({"effect": {"freeze": {}}, "match": {"pools": ["a"]}})
        }
        "match.names, match.zones, match.regions, match.instanceTypes, match.markets and match.machineSelector cannot be \
          set with the effect addresses" => {
            json!({"effect": {"addresses": {"exhausted": {}}}, "match": {"names": ["a"]}})
        }
        "budget.count can be at most 100, except with the effects fail, delay and lag" => {
            json!({"effect": {"freeze": {}}, "budget": {"count": 101}})
        }
        "budget.skip can be at most 100, except with the effects fail, delay and lag" => {
            json!({"effect": {"freeze": {}}, "budget": {"skip": 101}})
        }
        "uniform.min must be at most uniform.max" => json!({"min": "1m", "max": "59s"}),
        "lognormal.median must be at most lognormal.p99" => json!({"median": "1h", "p99": "59m"}),
        "triangular.mode must be between triangular.min and triangular.max" => {
            json!({"min": "1s", "mode": "10s", "max": "9s"})
        }
        "each combination of instanceType and zone is listed once" => json!([{"count": 1}, {"count": 2}]),
        "a failure domain has a name of 1 to 256 characters" => json!({"": {"controlPlane": true}}),
        "the name of a zone is used in one region only" => json!([
            {"name": "one", "zones": [{"name": "a"}]}, {"name": "two", "zones": [{"name": "a"}]},
        ]),
        message if message.starts_with("startupDuration must be") => json!("-1s"),
        message if message.starts_with("startupJitter must be") => json!("1.1"),
        _ => return None,
    })
}

/// An invalid range, block or address.
const NONSENSE: &str = "nonsense";

/// Values that the schema does not restrict: the end of the kind's name, its version if only one version has the value,
/// and the path, or the end of the path after `…`.
const ENTRIES: &[(&str, &str, &str, Entry)] = &[
    ("", "", "….attributes.key", Entry::Anything),
    (
        "Template",
        "",
        "spec.template.metadata.annotations.key",
        Entry::Anything,
    ),
    (
        "InClusterIPPool",
        "",
        "spec.addresses[0]",
        Entry::Wrong {
            value: NONSENSE,
            named: "spec.addresses",
        },
    ),
    (
        "InClusterIPPool",
        "",
        "spec.excludedAddresses[0]",
        Entry::Wrong {
            value: NONSENSE,
            named: "spec.excludedAddresses",
        },
    ),
    (
        "InClusterIPPool",
        "",
        "spec.gateway",
        Entry::Wrong {
            value: NONSENSE,
            named: "spec.gateway",
        },
    ),
    // Only in the old version. The conversion refuses a wrong subnet, and makes an address range of the other two.
    (
        "InClusterIPPool",
        "v1alpha1",
        "spec.start",
        Entry::Wrong {
            value: NONSENSE,
            named: "spec.addresses",
        },
    ),
    (
        "InClusterIPPool",
        "v1alpha1",
        "spec.end",
        Entry::Wrong {
            value: NONSENSE,
            named: "spec.addresses",
        },
    ),
    (
        "InClusterIPPool",
        "v1alpha1",
        "spec.subnet",
        Entry::Wrong {
            value: NONSENSE,
            named: "spec.subnet",
        },
    ),
    (
        "InClusterPrefixPool",
        "",
        "spec.prefixes[0]",
        Entry::Wrong {
            value: NONSENSE,
            named: "spec.prefixes",
        },
    ),
    (
        "InClusterPrefixPool",
        "",
        "spec.excludedPrefixes[0]",
        Entry::Wrong {
            value: NONSENSE,
            named: "spec.excludedPrefixes",
        },
    ),
    (
        "InClusterPrefixPool",
        "",
        "spec.gateway",
        Entry::Wrong {
            value: NONSENSE,
            named: "spec.gateway",
        },
    ),
    ("CloudExtensionConfig", "", "spec.settings.key", Entry::Anything),
    (
        "CloudExtensionConfig",
        "",
        "….matchExpressions[0].values[0]",
        Entry::Anything,
    ),
    ("CloudExtensionConfig", "", "….matchLabels.key", Entry::Anything),
    ("Fault", "", "….matchExpressions[0].values[0]", Entry::Anything),
    ("Fault", "", "….matchLabels.key", Entry::Anything),
    ("Scenario", "", "….matchExpressions[0].values[0]", Entry::Anything),
    ("Scenario", "", "….matchLabels.key", Entry::Anything),
    // These are written by controllers, so any value is accepted.
    ("Pool", "", "status.allocator.revision", Entry::Anything),
    ("Scenario", "", "status.observedGeneration", Entry::Anything),
    ("ClusterFault", "", "status.observedGeneration", Entry::Anything),
    ("Pool", "", "status.ipAddresses.free", Entry::Anything),
    ("Pool", "", "status.ipAddresses.outOfRange", Entry::Anything),
    ("Pool", "", "status.ipAddresses.total", Entry::Anything),
    ("Pool", "", "status.ipAddresses.used", Entry::Anything),
];

pub(crate) fn entry(kind: &Kind, path: &str) -> Option<Entry> {
    let found = ENTRIES.iter().find(|(name, version, place, _)| {
        let is_there = match place.strip_prefix('…') {
            Some(end) => path.ends_with(end),
            None => *place == path,
        };
        is_there && kind.name.ends_with(name) && (version.is_empty() || *version == kind.version)
    });
    found.map(|(.., entry)| *entry)
}
