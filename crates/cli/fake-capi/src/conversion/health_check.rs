//! `MachineHealthCheck`.

use super::{
    former::Former,
    parts::{CONDITIONS, UNHEALTHY},
    rule::Rule::{self, Each, In, Moved, Seconds, Template},
};

pub(super) const MACHINE_HEALTH_CHECK: &[Rule] = &[
    In("spec", SPEC),
    In("status", CONDITIONS),
    Rule::Former("status", FORMER),
];

const SPEC: &[Rule] = &[
    Moved("unhealthyConditions", "checks.unhealthyNodeConditions"),
    Each("checks.unhealthyNodeConditions", UNHEALTHY),
    Moved("unhealthyMachineConditions", "checks.unhealthyMachineConditions"),
    Each("checks.unhealthyMachineConditions", UNHEALTHY),
    Seconds("nodeStartupTimeout", "checks.nodeStartupTimeoutSeconds"),
    Moved("maxUnhealthy", "remediation.triggerIf.unhealthyLessThanOrEqualTo"),
    Moved("unhealthyRange", "remediation.triggerIf.unhealthyInRange"),
    Moved("remediationTemplate", "remediation.templateRef"),
    Template("remediation.templateRef"),
];

const FORMER: &Former = &Former {
    conditions: &[("RemediationAllowed", "RemediationAllowed")],
    ..Former::NONE
};
