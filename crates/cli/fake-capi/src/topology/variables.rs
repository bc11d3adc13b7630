//! The variables of the ClusterClass `in-memory`.

use nephele_api::{
    infrastructure::v1beta2::{FailureDomain, PoolReference},
    ipam,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::TopologyError;
use crate::plan::ClusterPlan;

/// A pool as the class has it: group and kind have defaults.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pool {
    #[serde(default = "pool_group")]
    api_group: String,
    #[serde(default = "pool_kind")]
    kind: String,
    name: String,
}

fn pool_group() -> String {
    ipam::GROUP.to_owned()
}

fn pool_kind() -> String {
    "InClusterIPPool".to_owned()
}

/// A zone as the class has it: control plane machines may be placed there by default.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Zone {
    name: String,
    #[serde(default = "yes")]
    control_plane: bool,
}

fn yes() -> bool {
    true
}

/// The plan with the value of a variable. A variable that the class does not have changes nothing.
pub(super) fn set(plan: ClusterPlan, name: String, value: Value) -> Result<ClusterPlan, TopologyError> {
    let plan = match name.as_str() {
        "controlPlaneBehaviour" => ClusterPlan {
            behaviour: read(name, value)?,
            ..plan
        },
        "workerBehaviour" => ClusterPlan {
            worker_behaviour: Some(read(name, value)?),
            ..plan
        },
        "controlPlaneInstanceType" => ClusterPlan {
            control_plane_instance_type: read(name, value)?,
            ..plan
        },
        "workerInstanceType" => ClusterPlan {
            worker_instance_type: read(name, value)?,
            ..plan
        },
        "zones" => {
            let zones: Vec<Zone> = read(name, value)?;
            ClusterPlan {
                failure_domains: zones.into_iter().map(FailureDomain::from).collect(),
                ..plan
            }
        }
        "addressesFromPools" => {
            let pools: Vec<Pool> = read(name, value)?;
            ClusterPlan {
                address_pools: pools.into_iter().map(PoolReference::from).collect(),
                ..plan
            }
        }
        _ => plan,
    };
    Ok(plan)
}

fn read<T: DeserializeOwned>(name: String, value: Value) -> Result<T, TopologyError> {
    serde_path_to_error::deserialize(value).map_err(|source| TopologyError::Variable { name, source })
}

impl From<Zone> for FailureDomain {
    fn from(Zone { name, control_plane }: Zone) -> Self {
        Self {
            name,
            control_plane: Some(control_plane),
            ..Self::default()
        }
    }
}

impl From<Pool> for PoolReference {
    fn from(
        Pool {
            api_group,
            kind,
            name,
        }: Pool,
    ) -> Self {
        Self {
            api_group,
            kind,
            name,
        }
    }
}
