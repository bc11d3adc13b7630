//! The kinds of the kubeadm providers.

use super::{
    former::Former,
    parts::{CONDITIONS, COUNTS, FAILURE},
    rule::Rule::{self, All, Each, In, Moved, Named, Reference, Seconds},
};

pub(super) const CONTROL_PLANE: &[Rule] = &[
    In("spec", CONTROL_PLANE_SPEC),
    In("status", CONTROL_PLANE_STATUS),
    Rule::Former("status", CONTROL_PLANE_FORMER),
];

pub(super) const CONTROL_PLANE_TEMPLATE: &[Rule] = &[In("spec.template.spec", CONTROL_PLANE_SPEC)];

pub(super) const CONFIG: &[Rule] = &[
    In("spec", CONFIG_SPEC),
    In(
        "status",
        &[
            All(CONDITIONS),
            All(FAILURE),
            Moved("ready", "initialization.dataSecretCreated"),
        ],
    ),
    Rule::Former("status", CONFIG_FORMER),
];

pub(super) const CONFIG_TEMPLATE: &[Rule] = &[In("spec.template.spec", CONFIG_SPEC)];

const CONTROL_PLANE_SPEC: &[Rule] = &[
    In("kubeadmConfigSpec", CONFIG_SPEC),
    In("machineTemplate", MACHINE_TEMPLATE),
    Moved(
        "rolloutBefore.certificatesExpiryDays",
        "rollout.before.certificatesExpiryDays",
    ),
    Moved("rolloutAfter", "rollout.after"),
    Moved("rolloutStrategy.type", "rollout.strategy.type"),
    Moved(
        "rolloutStrategy.rollingUpdate.maxSurge",
        "rollout.strategy.rollingUpdate.maxSurge",
    ),
    Moved("remediationStrategy.maxRetry", "remediation.maxRetry"),
    Seconds(
        "remediationStrategy.retryPeriod",
        "remediation.retryPeriodSeconds",
    ),
    Seconds(
        "remediationStrategy.minHealthyPeriod",
        "remediation.minHealthyPeriodSeconds",
    ),
    Moved("machineNamingStrategy.template", "machineNaming.template"),
];

/// Everything but the metadata is in a part of its own in `v1beta2`.
const MACHINE_TEMPLATE: &[Rule] = &[
    Seconds("nodeDrainTimeout", "spec.deletion.nodeDrainTimeoutSeconds"),
    Seconds(
        "nodeVolumeDetachTimeout",
        "spec.deletion.nodeVolumeDetachTimeoutSeconds",
    ),
    Seconds("nodeDeletionTimeout", "spec.deletion.nodeDeletionTimeoutSeconds"),
    Moved("infrastructureRef", "spec.infrastructureRef"),
    Reference("spec.infrastructureRef"),
    Moved("readinessGates", "spec.readinessGates"),
    Moved("taints", "spec.taints"),
];

const CONTROL_PLANE_STATUS: &[Rule] = &[
    All(CONDITIONS),
    All(FAILURE),
    All(COUNTS),
    Moved("initialized", "initialization.controlPlaneInitialized"),
    Moved("lastRemediation.timestamp", "lastRemediation.time"),
];

const CONFIG_SPEC: &[Rule] = &[
    // The first time limit of `v1beta1` belongs to both configurations of `v1beta2`; it is kept in one of them.
    Seconds(
        "clusterConfiguration.apiServer.timeoutForControlPlane",
        "initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds",
    ),
    Seconds(
        "joinConfiguration.discovery.timeout",
        "joinConfiguration.timeouts.tlsBootstrapSeconds",
    ),
    Named("clusterConfiguration.apiServer.extraArgs", Some("value")),
    Named("clusterConfiguration.controllerManager.extraArgs", Some("value")),
    Named("clusterConfiguration.scheduler.extraArgs", Some("value")),
    Named("clusterConfiguration.etcd.local.extraArgs", Some("value")),
    Named(
        "initConfiguration.nodeRegistration.kubeletExtraArgs",
        Some("value"),
    ),
    Named(
        "joinConfiguration.nodeRegistration.kubeletExtraArgs",
        Some("value"),
    ),
    Each(
        "initConfiguration.bootstrapTokens",
        &[Seconds("ttl", "ttlSeconds")],
    ),
];

const CONTROL_PLANE_FORMER: &Former = &Former {
    conditions: &[
        ("Ready", "Available"),
        ("Available", "Initialized"),
        ("CertificatesAvailable", "CertificatesAvailable"),
        ("ControlPlaneComponentsHealthy", "ControlPlaneComponentsHealthy"),
        ("EtcdClusterHealthy", "EtcdClusterHealthy"),
        ("MachinesReady", "MachinesReady"),
        ("MachinesSpecUpToDate", "MachinesUpToDate"),
    ],
    counts: &[
        ("readyReplicas", "readyReplicas"),
        ("updatedReplicas", "upToDateReplicas"),
    ],
    unavailable: true,
    ready: true,
};

const CONFIG_FORMER: &Former = &Former {
    conditions: &[
        ("Ready", "Ready"),
        ("CertificatesAvailable", "CertificatesAvailable"),
        ("DataSecretAvailable", "DataSecretAvailable"),
    ],
    ..Former::NONE
};
