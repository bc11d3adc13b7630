//! The numbers of machines that users and autoscalers chose where a topology leaves them open.

use kube::ResourceExt as _;
use nephele_api::core::MachinePool;

use crate::{
    kinds::{KubeadmControlPlane, MachineDeployment},
    observe::Observed,
    plan::{ClusterPlan, REPLICAS_MAX},
};

/// The plan with the numbers that the objects have where users may scale them.
pub(super) fn scaled(plan: &ClusterPlan, observed: &Observed) -> ClusterPlan {
    let mut plan = plan.clone();
    let control_plane = observed
        .control_plane
        .as_ref()
        .filter(|_| plan.is_control_plane_scalable);
    if let Some(KubeadmControlPlane { spec, .. }) = control_plane {
        // As the webhook of the provider asks for.
        plan.control_plane = bounded(spec.replicas, plan.control_plane).max(1);
    }
    for part in plan.deployments.iter_mut().filter(|part| part.is_scalable) {
        let mut known = observed.deployments.iter();
        if let Some(MachineDeployment { spec, .. }) = known.find(|known| known.name_any() == part.name) {
            part.replicas = bounded(spec.replicas, part.replicas);
        }
    }
    let pool = observed.pool.as_ref().filter(|_| plan.is_pool_scalable);
    if let (Some(MachinePool { spec, .. }), Some(first)) = (pool, plan.pool) {
        plan.pool = Some(bounded(spec.replicas, first));
    }
    plan
}

/// What an object asks for, within the bounds of a topology.
fn bounded(asked: Option<i32>, first: u32) -> u32 {
    let Some(asked) = asked else { return first };
    u32::try_from(asked).unwrap_or(0).min(REPLICAS_MAX)
}
