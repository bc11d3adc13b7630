//! Version `v1alpha1`.

mod built_in;
mod cloud_extension_config;
mod fault;
mod simulated_cloud;

pub use cloud_extension_config::{
    CloudExtensionConfig, CloudExtensionConfigSpec, CloudExtensionConfigStatus, ExtensionClientConfig,
    ExtensionHandler, ExtensionHook, ExtensionService,
};
pub use fault::{
    AFFECTED_MAX, Affected, ApiServerFault, CutWatches, Delay, ERROR_CODES, ETCD_ALARMS, EtcdFault,
    FAIL_REASONS, Fail, Fault, FaultBudget, FaultEffect, FaultHit, FaultMatch, FaultSpec, FaultStatus,
    FaultyCondition, HELD_STAGES, Hold, NoSettings, OPERATIONS, Outage, REQUEST_VERBS, RequestError,
};
pub use simulated_cloud::{
    Capacity, Gpu, Image, InstanceType, LimitUsage, Quotas, Region, SimulatedCloud, SimulatedCloudSpec,
    SimulatedCloudStatus, Zone,
};

/// This version's name.
pub const VERSION: &str = "v1alpha1";

#[cfg(test)]
mod tests;
