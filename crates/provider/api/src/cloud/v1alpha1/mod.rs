//! Version `v1alpha1`.

mod api_limits;
mod built_in;
mod clock;
mod cloud_extension_config;
mod cluster_fault;
mod effect_schema;
mod fault;
mod latency;
mod leaked;
mod scenario;
mod simulated_cloud;

pub use api_limits::CloudApi;
pub use clock::{CloudClock, CloudClockStatus};
pub use cloud_extension_config::{
    CloudExtensionConfig, CloudExtensionConfigSpec, CloudExtensionConfigStatus, ExtensionClientConfig,
    ExtensionHandler, ExtensionHook, ExtensionService,
};
pub use cluster_fault::{
    ClusterFault, ClusterFaultSpec, ClusterFaultStatus, REFUSAL_MESSAGE_MAX, REFUSED_MAX, RefusedNamespace,
};
pub use fault::{
    AFFECTED_MAX, Affected, AffectedClaim, Fault, FaultBudget, FaultHit, FaultMatch, FaultSchedule,
    FaultSpec, FaultStatus,
};
pub use latency::CloudLatency;
pub use leaked::{LeakedInstance, LeakedLoadBalancer};
pub use scenario::{
    Apply, BRANCHES_MAX, Branch, CLOCK_STEPS_MAX, ClockChange, Delete, Expectation, FaultStep, Heal,
    INNER_STEPS_MAX, InnerStep, MACHINE_PHASES, MANIFESTS_MAX, MachineCount, Never, ObjectField, ROUNDS_MAX,
    SCALED_KINDS, SCENARIO_PHASES, STEP_MESSAGE_MAX, STEP_NAME_MAX, STEP_PHASES, STEPS_MAX, Scale, Scenario,
    ScenarioSpec, ScenarioStatus, ScenarioStep, StepAction, StepStatus, Upgrade,
};
pub use simulated_cloud::{
    CLUSTER_COSTS_MAX, CloudCost, ClusterCost, LEAKED_INSTANCES, LimitUsage, MistakesByCaller, Region,
    SimulatedCloud, SimulatedCloudSpec, SimulatedCloudStatus, Zone,
};

/// This version's name.
pub const VERSION: &str = "v1alpha1";

#[cfg(test)]
mod tests;
