//! `Cluster`.

use super::{
    former::Former,
    parts::{CONDITIONS, FAILURE, HEALTH_CHECK, STRATEGY, TIMEOUTS},
    rule::Rule::{self, All, Each, Endpoint, In, Moved, Named, Reference},
};

pub(super) const CLUSTER: &[Rule] = &[
    In("spec", SPEC),
    In("status", STATUS),
    Rule::Former("status", FORMER),
];

const SPEC: &[Rule] = &[
    Endpoint("controlPlaneEndpoint"),
    Reference("controlPlaneRef"),
    Reference("infrastructureRef"),
    Moved("topology.class", "topology.classRef.name"),
    Moved("topology.classNamespace", "topology.classRef.namespace"),
    In("topology.controlPlane", &[All(TIMEOUTS), All(HEALTH_CHECK)]),
    Each("topology.workers.machineDeployments", MACHINE_DEPLOYMENT),
    Each("topology.workers.machinePools", TIMEOUTS),
];

const MACHINE_DEPLOYMENT: &[Rule] = &[
    All(TIMEOUTS),
    All(HEALTH_CHECK),
    All(STRATEGY),
    Moved(
        "strategy.remediation.maxInFlight",
        "healthCheck.remediation.maxInFlight",
    ),
];

const STATUS: &[Rule] = &[
    All(CONDITIONS),
    All(FAILURE),
    Moved("controlPlaneReady", "initialization.controlPlaneInitialized"),
    Moved("infrastructureReady", "initialization.infrastructureProvisioned"),
    Named("failureDomains", None),
    Moved("v1beta2.controlPlane", "controlPlane"),
    Moved("v1beta2.workers", "workers"),
];

const FORMER: &Former = &Former {
    conditions: &[
        ("Ready", "Available"),
        ("InfrastructureReady", "InfrastructureReady"),
        ("ControlPlaneInitialized", "ControlPlaneInitialized"),
        ("ControlPlaneReady", "ControlPlaneAvailable"),
        ("TopologyReconciled", "TopologyReconciled"),
    ],
    ..Former::NONE
};
