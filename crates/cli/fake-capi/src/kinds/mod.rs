//! The kinds of Cluster API that only the stand-in writes: those that own Machines, and health checks. The fields that it
//! sets or reads; their definitions accept any other field.

mod control_plane;
mod machine_deployment;
mod machine_health_check;
mod machine_set;
mod machines;

pub(crate) use control_plane::{
    ControlPlaneInitialization, ControlPlaneTemplate, KubeadmControlPlane, KubeadmControlPlaneSpec,
    KubeadmControlPlaneStatus,
};
pub(crate) use machine_deployment::{MachineDeployment, MachineDeploymentSpec};
pub(crate) use machine_health_check::{
    MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus, Trigger, UnhealthyCondition,
};
pub(crate) use machine_set::{MachineSet, MachineSetSpec};
pub(crate) use machines::{Counts, MachineTemplate, ReplicaStatus, TemplateMetadata, rollout};
