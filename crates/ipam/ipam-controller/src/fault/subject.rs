//! A claim, as Faults see it. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, types},
    core::Cluster,
    ipam::{annotations, conditions as reasons, v1beta2::IPAddressClaim},
};
use nephele_ipam::Owner;

use crate::owner::owner;

/// A claim, as Faults see it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) owner: Owner,
    pub(crate) uid: Box<str>,
    pub(crate) created: Timestamp,
    /// The address that it asks for is given.
    pub(crate) has_requested: bool,
    /// The name of its Cluster, empty if it has none, and the Cluster's labels.
    pub(crate) cluster: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// Whether its status shows that its pool was asked, so that Faults of that time have decided.
    pub(crate) was_told: bool,
}

impl Subject {
    /// A claim with the name of its Cluster, if it has one, and the Cluster if it exists.
    pub(crate) fn new(claim: &IPAddressClaim, cluster: Option<(String, Option<Arc<Cluster>>)>) -> Self {
        let labels = cluster.as_ref().and_then(|(_, cluster)| cluster.as_ref());
        let conditions = claim
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let told = [
            reasons::POOL_EXHAUSTED,
            reasons::ALLOCATION_FAILED,
            reasons::ALLOCATION_DELAYED,
        ];
        let created = claim.metadata.creation_timestamp.as_ref();
        Self {
            owner: owner(&claim.metadata),
            uid: claim.metadata.uid.as_deref().unwrap_or_default().into(),
            created: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            has_requested: claim.annotations().contains_key(annotations::WANTED_ADDRESS),
            labels: labels.map(|cluster| cluster.labels().clone()).unwrap_or_default(),
            cluster: cluster.map(|(name, _)| name).unwrap_or_default(),
            was_told: conditions::find(conditions, types::READY)
                .is_some_and(|ready| told.contains(&ready.reason.as_str())),
        }
    }
}
