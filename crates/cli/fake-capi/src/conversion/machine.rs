//! `Machine`, and the kinds that have several of them.

use super::{
    former::Former,
    parts::{CONDITIONS, COUNTS, FAILURE, MACHINE_SPEC, STRATEGY},
    rule::Rule::{self, All, In, Moved, Node},
};

pub(super) const MACHINE: &[Rule] = &[
    In("spec", MACHINE_SPEC),
    In(
        "status",
        &[
            All(CONDITIONS),
            All(FAILURE),
            All(INITIALIZATION),
            Node("nodeRef"),
        ],
    ),
    Rule::Former("status", MACHINE_FORMER),
];

pub(super) const MACHINE_SET: &[Rule] = &[
    In("spec.template.spec", MACHINE_SPEC),
    In(
        "spec",
        &[Moved("deletePolicy", "deletion.order"), NAMING, MIN_READY],
    ),
    In("status", &[All(CONDITIONS), All(COUNTS), All(FAILURE)]),
    Rule::Former("status", MACHINE_SET_FORMER),
];

pub(super) const MACHINE_DEPLOYMENT: &[Rule] = &[
    In("spec.template.spec", MACHINE_SPEC),
    In(
        "spec",
        &[
            All(STRATEGY),
            Moved("strategy.remediation.maxInFlight", "remediation.maxInFlight"),
            Moved("rolloutAfter", "rollout.after"),
            NAMING,
            MIN_READY,
        ],
    ),
    In("status", &[All(CONDITIONS), All(COUNTS)]),
    Rule::Former("status", MACHINE_DEPLOYMENT_FORMER),
];

pub(super) const MACHINE_POOL: &[Rule] = &[
    In("spec.template.spec", MACHINE_SPEC),
    In("spec", &[MIN_READY]),
    In(
        "status",
        &[All(CONDITIONS), All(COUNTS), All(FAILURE), All(INITIALIZATION)],
    ),
    Rule::Former("status", MACHINE_POOL_FORMER),
];

const NAMING: Rule = Moved("machineNamingStrategy.template", "machineNaming.template");
const MIN_READY: Rule = Moved("minReadySeconds", "template.spec.minReadySeconds");

const INITIALIZATION: &[Rule] = &[
    Moved("bootstrapReady", "initialization.bootstrapDataSecretCreated"),
    Moved("infrastructureReady", "initialization.infrastructureProvisioned"),
];

const MACHINE_FORMER: &Former = &Former {
    conditions: &[
        ("Ready", "Ready"),
        ("BootstrapReady", "BootstrapConfigReady"),
        ("InfrastructureReady", "InfrastructureReady"),
        ("NodeHealthy", "NodeHealthy"),
        ("HealthCheckSucceeded", "HealthCheckSucceeded"),
        ("OwnerRemediated", "OwnerRemediated"),
    ],
    ..Former::NONE
};

const MACHINE_SET_FORMER: &Former = &Former {
    conditions: &[("Ready", "MachinesReady"), ("MachinesReady", "MachinesReady")],
    counts: &[
        ("readyReplicas", "readyReplicas"),
        ("availableReplicas", "availableReplicas"),
        ("fullyLabeledReplicas", "replicas"),
    ],
    ..Former::NONE
};

const MACHINE_DEPLOYMENT_FORMER: &Former = &Former {
    conditions: &[("Ready", "Available"), ("Available", "Available")],
    counts: &[
        ("readyReplicas", "readyReplicas"),
        ("availableReplicas", "availableReplicas"),
        ("updatedReplicas", "upToDateReplicas"),
    ],
    unavailable: true,
    ..Former::NONE
};

const MACHINE_POOL_FORMER: &Former = &Former {
    conditions: &[
        ("BootstrapReady", "BootstrapConfigReady"),
        ("InfrastructureReady", "InfrastructureReady"),
    ],
    counts: &[
        ("readyReplicas", "readyReplicas"),
        ("availableReplicas", "availableReplicas"),
    ],
    unavailable: true,
    ..Former::NONE
};
