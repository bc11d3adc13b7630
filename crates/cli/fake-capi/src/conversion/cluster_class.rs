//! `ClusterClass`.

use super::{
    former::Former,
    parts::{CONDITIONS, HEALTH_CHECK, STRATEGY, TIMEOUTS},
    rule::Rule::{self, All, Each, In, Moved, Template},
};

pub(super) const CLUSTER_CLASS: &[Rule] = &[
    In("spec", SPEC),
    In("status", STATUS),
    Rule::Former("status", FORMER),
];

const SPEC: &[Rule] = &[
    In("infrastructure", REFERENCE),
    Moved(
        "infrastructureNamingStrategy.template",
        "infrastructure.naming.template",
    ),
    In("controlPlane", CONTROL_PLANE),
    Each("workers.machineDeployments", MACHINE_DEPLOYMENT),
    Each("workers.machinePools", MACHINES),
    Each("variables", VARIABLE),
    Each("patches", PATCH),
];

/// A template that a class refers to.
const REFERENCE: &[Rule] = &[Moved("ref", "templateRef"), Template("templateRef")];

const NAMING: Rule = Moved("namingStrategy.template", "naming.template");

const CONTROL_PLANE: &[Rule] = &[
    All(REFERENCE),
    In("machineInfrastructure", REFERENCE),
    All(HEALTH_CHECK),
    All(TIMEOUTS),
    NAMING,
];

/// What MachineDeployments and MachinePools have in common.
const MACHINES: &[Rule] = &[
    Moved("template.metadata", "metadata"),
    Moved("template.bootstrap.ref", "bootstrap.templateRef"),
    Template("bootstrap.templateRef"),
    Moved("template.infrastructure.ref", "infrastructure.templateRef"),
    Template("infrastructure.templateRef"),
    All(TIMEOUTS),
    NAMING,
];

const MACHINE_DEPLOYMENT: &[Rule] = &[
    All(MACHINES),
    All(HEALTH_CHECK),
    All(STRATEGY),
    Moved(
        "strategy.remediation.maxInFlight",
        "healthCheck.remediation.maxInFlight",
    ),
];

const VARIABLE: &[Rule] = &[Moved("metadata", "deprecatedV1Beta1Metadata")];

const PATCH: &[Rule] = &[
    Moved("external.generateExtension", "external.generatePatchesExtension"),
    Moved("external.validateExtension", "external.validateTopologyExtension"),
];

const STATUS: &[Rule] = &[
    All(CONDITIONS),
    Each("variables", &[Each("definitions", VARIABLE)]),
];

const FORMER: &Former = &Former {
    conditions: &[
        ("VariablesReconciled", "VariablesReconciled"),
        ("RefVersionsUpToDate", "RefVersionsUpToDate"),
    ],
    ..Former::NONE
};
