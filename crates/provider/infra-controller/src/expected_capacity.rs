//! The capacity and node info of machines before one exists: the cluster autoscaler reads them to scale from zero.
//! Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use nephele_api::infrastructure::v1beta2::NodeInfo;
use nephele_cloud::Hardware;
use nephele_model::CloudError;

/// What is known of machines before one exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedCapacity {
    /// Not known yet. The status keeps its values.
    Open,
    /// The cloud does not have the instance type or image, so there will be no machines.
    Nothing,
    /// Machines will have this hardware.
    Machines(Hardware),
}

/// The capacity and node info in a status.
pub(crate) type CapacityAndNodeInfo = (BTreeMap<String, Quantity>, Option<NodeInfo>);

impl ExpectedCapacity {
    /// `described` is the answer of the cloud to [`crate::context::Context::describe`].
    pub(crate) fn new(described: Option<Result<Hardware, CloudError>>) -> Self {
        match described {
            None => Self::Open,
            Some(Err(_)) => Self::Nothing,
            Some(Ok(hardware)) => Self::Machines(hardware),
        }
    }

    /// The values to write to the status; none when the status keeps its values.
    pub(crate) fn told(&self) -> Option<CapacityAndNodeInfo> {
        match self {
            Self::Open => None,
            Self::Nothing => Some((BTreeMap::new(), None)),
            Self::Machines(Hardware {
                architecture,
                operating_system,
                capacity,
            }) => {
                let quantity = |(name, text): (&String, &String)| (name.clone(), Quantity(text.clone()));
                let info = NodeInfo {
                    architecture: architecture.clone(),
                    operating_system: operating_system.clone(),
                };
                Some((capacity.iter().map(quantity).collect(), Some(info)))
            }
        }
    }
}
