//! Parts that several kinds have.

use super::rule::Rule::{self, All, Each, Moved, Reference, Seconds, Template};

/// How long the deletion of a machine waits for its Node.
pub(super) const TIMEOUTS: &[Rule] = &[
    Seconds("nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds"),
    Seconds(
        "nodeVolumeDetachTimeout",
        "deletion.nodeVolumeDetachTimeoutSeconds",
    ),
    Seconds("nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds"),
];

/// The spec of a machine.
pub(super) const MACHINE_SPEC: &[Rule] = &[
    All(TIMEOUTS),
    Reference("infrastructureRef"),
    Reference("bootstrap.configRef"),
];

/// How a MachineDeployment replaces machines, without what remediation may do at a time.
pub(super) const STRATEGY: &[Rule] = &[
    Moved("strategy.type", "rollout.strategy.type"),
    Moved(
        "strategy.rollingUpdate.maxUnavailable",
        "rollout.strategy.rollingUpdate.maxUnavailable",
    ),
    Moved(
        "strategy.rollingUpdate.maxSurge",
        "rollout.strategy.rollingUpdate.maxSurge",
    ),
    Moved("strategy.rollingUpdate.deletePolicy", "deletion.order"),
];

/// A condition that makes a machine unhealthy.
pub(super) const UNHEALTHY: &[Rule] = &[Seconds("timeout", "timeoutSeconds")];

/// The health check of a part of a class or topology.
pub(super) const HEALTH_CHECK: &[Rule] = &[
    Moved("machineHealthCheck.enable", "healthCheck.enabled"),
    Moved(
        "machineHealthCheck.unhealthyConditions",
        "healthCheck.checks.unhealthyNodeConditions",
    ),
    Each("healthCheck.checks.unhealthyNodeConditions", UNHEALTHY),
    Moved(
        "machineHealthCheck.unhealthyMachineConditions",
        "healthCheck.checks.unhealthyMachineConditions",
    ),
    Each("healthCheck.checks.unhealthyMachineConditions", UNHEALTHY),
    Seconds(
        "machineHealthCheck.nodeStartupTimeout",
        "healthCheck.checks.nodeStartupTimeoutSeconds",
    ),
    Moved(
        "machineHealthCheck.maxUnhealthy",
        "healthCheck.remediation.triggerIf.unhealthyLessThanOrEqualTo",
    ),
    Moved(
        "machineHealthCheck.unhealthyRange",
        "healthCheck.remediation.triggerIf.unhealthyInRange",
    ),
    Moved(
        "machineHealthCheck.remediationTemplate",
        "healthCheck.remediation.templateRef",
    ),
    Template("healthCheck.remediation.templateRef"),
];

/// Conditions of both versions.
pub(super) const CONDITIONS: &[Rule] = &[
    Moved("conditions", "deprecated.v1beta1.conditions"),
    Moved("v1beta2.conditions", "conditions"),
];

/// Failures, which only `v1beta1` has.
pub(super) const FAILURE: &[Rule] = &[
    Moved("failureReason", "deprecated.v1beta1.failureReason"),
    Moved("failureMessage", "deprecated.v1beta1.failureMessage"),
];

/// Numbers of ready and available machines, which the versions count differently.
pub(super) const COUNTS: &[Rule] = &[
    Moved("readyReplicas", "deprecated.v1beta1.readyReplicas"),
    Moved("v1beta2.readyReplicas", "readyReplicas"),
    Moved("availableReplicas", "deprecated.v1beta1.availableReplicas"),
    Moved("v1beta2.availableReplicas", "availableReplicas"),
    Moved("unavailableReplicas", "deprecated.v1beta1.unavailableReplicas"),
    Moved("updatedReplicas", "deprecated.v1beta1.updatedReplicas"),
    Moved("v1beta2.upToDateReplicas", "upToDateReplicas"),
    Moved("fullyLabeledReplicas", "deprecated.v1beta1.fullyLabeledReplicas"),
];
