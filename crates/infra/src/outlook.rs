//! What can be said of machines before there is one: what the cluster autoscaler reads to scale from nothing. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use nephele_api::infrastructure::v1beta2::NodeInfo;
use nephele_cloud::{CloudError, Hardware};

/// What can be said of machines before there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Nobody has said yet what there is. What was said before stands.
    Open,
    /// There will be none: the cloud does not have what they are to be made from.
    Nothing,
    /// They have this.
    Machines(Hardware),
}

/// What a status says of machines before there is one.
pub(crate) type Told = (BTreeMap<String, Quantity>, Option<NodeInfo>);

impl Outlook {
    /// `described` is what the cloud says.
    pub(crate) fn new(described: Option<Result<Hardware, CloudError>>) -> Self {
        match described {
            None => Self::Open,
            Some(Err(_)) => Self::Nothing,
            Some(Ok(hardware)) => Self::Machines(hardware),
        }
    }

    /// What a status has to say; none while what it says stands.
    pub(crate) fn told(&self) -> Option<Told> {
        match self {
            Self::Open => None,
            Self::Nothing => Some((BTreeMap::new(), None)),
            Self::Machines(Hardware { architecture, operating_system, capacity }) => {
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
