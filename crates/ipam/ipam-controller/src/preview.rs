//! Which claims a Fault of addresses would hit, told from objects by the functions that decide it for claims. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt as _;
use nephele_api::{cloud::v1alpha1::FaultSpec, core::Cluster, ipam::v1beta2::IPAddressClaim};
use nephele_fault::Mistake;

use crate::{
    claim::{asks, gives_back},
    context::cluster_name,
    fault::{Moment, Selection, Subject},
    pool::PoolKey,
};

/// The objects of a namespace that decide which claims a Fault there hits.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub claims: Vec<Arc<IPAddressClaim>>,
    /// The Clusters of `claims`, whose labels Faults select by.
    pub clusters: Vec<Arc<Cluster>>,
}

/// Which claims a Fault selects. Its budget decides later which of them it hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The names of the claims that exist by now, in order.
    pub claims: Vec<String>,
    pub moment: Moment,
}

/// Which claims a Fault would select if it began now, and their pools served claims. It may hit claims that do not exist yet,
/// too.
///
/// # Errors
/// With the first field that cannot be used. A Fault of machines or clusters selects no claim.
pub fn preview(spec: &FaultSpec, objects: &Objects, now: Timestamp) -> Result<Preview, Mistake> {
    let selection = Selection::new(spec, now)?;
    let moment = selection.moment();
    let clusters = objects.clusters.iter();
    let clusters: BTreeMap<_, _> = clusters.map(|cluster| (cluster.name_any(), cluster)).collect();
    let selects = |claim: &IPAddressClaim| {
        let Some(pool) = PoolKey::of_claim(claim) else {
            return false;
        };
        let cluster = cluster_name(claim).map(|name| (name.to_owned(), clusters.get(name).copied().cloned()));
        let is_due = match moment {
            Moment::Request => asks(claim, pool.clone(), cluster.clone()),
            Moment::Release => gives_back(claim, pool.clone(), cluster.clone(), now),
        };
        let deleted = claim.metadata.deletion_timestamp.as_ref();
        let released_at = deleted.map_or(now, |time| time.0);
        is_due && selection.selects(&Subject::new(claim, cluster), &pool, released_at)
    };
    let selected = objects.claims.iter().filter(|claim| selects(claim));
    let mut claims: Vec<_> = selected.map(|claim| claim.name_any()).collect();
    claims.sort();
    Ok(Preview { claims, moment })
}
