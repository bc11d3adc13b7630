//! The owner of a claim, by its owner references or, when those were removed, by its name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Api, Resource, ResourceExt as _, runtime::reflector::ObjectRef};
use nephele_api::{
    infrastructure::{
        GROUP,
        v1beta2::{InMemoryCluster, InMemoryMachine},
    },
    ipam::v1beta2::IPAddressClaim,
    labels,
};
use nephele_controller::{Precondition, names_another_version, owner_of_kind, patch};

use super::{Error, Wanted, given};
use crate::context::Context;

/// The suffix of the name of a load balancer's claim.
const LOAD_BALANCER: &str = "-load-balancer";
/// The part between the machine's name and the pool's index in the name of a claim: all claims belong to the machine's
/// first and only network device.
const DEVICE: &str = "-0-";

/// A kind of this provider that claims addresses.
pub(crate) trait Claimant: Resource<DynamicType = ()> {
    /// The claims that the object wants, in the order of its pools.
    fn wanted(&self) -> Vec<Wanted>;

    /// The names of the claims that the object may have created: as many as it wants now, or as many as it got when it
    /// wanted more.
    fn made(&self) -> Vec<String>;

    /// The name of the object in the name of a claim.
    fn named_by(claim: &str) -> Option<&str>;
}

impl Claimant for InMemoryMachine {
    fn wanted(&self) -> Vec<Wanted> {
        let pools = self.address_pools().iter().enumerate();
        pools
            .map(|(index, pool)| Wanted {
                name: machine_claim(self, index),
                pool: pool.clone(),
            })
            .collect()
    }

    fn made(&self) -> Vec<String> {
        let got = given(self).len();
        (0..got.max(self.address_pools().len()))
            .map(|index| machine_claim(self, index))
            .collect()
    }

    fn named_by(claim: &str) -> Option<&str> {
        let (name, index) = claim.rsplit_once(DEVICE)?;
        index.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
    }
}

impl Claimant for InMemoryCluster {
    fn wanted(&self) -> Vec<Wanted> {
        let pool = self.control_plane_address_pool();
        pool.map(|pool| Wanted {
            name: cluster_claim(self),
            pool: pool.clone(),
        })
        .into_iter()
        .collect()
    }

    fn made(&self) -> Vec<String> {
        let network = self.status.as_ref().and_then(|status| status.network.as_ref());
        let got = network.is_some_and(|network| network.control_plane_address.is_some());
        let may = got || self.control_plane_address_pool().is_some();
        may.then(|| cluster_claim(self)).into_iter().collect()
    }

    fn named_by(claim: &str) -> Option<&str> {
        claim.strip_suffix(LOAD_BALANCER)
    }
}

fn machine_claim(object: &InMemoryMachine, index: usize) -> String {
    format!("{}{DEVICE}{index}", object.name_any())
}

fn cluster_claim(object: &InMemoryCluster) -> String {
    format!("{}{LOAD_BALANCER}", object.name_any())
}

/// The owner reference from a claim to the object that created it.
pub(super) fn reference<Owner>(owner: &Owner) -> OwnerReference
where
    Owner: Resource<DynamicType = ()>,
{
    OwnerReference {
        api_version: Owner::api_version(&()).into_owned(),
        kind: Owner::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The object of kind `K` that a claim was created for. A claim without a controller is assigned by its name, and that
/// object's reconciler checks whether the claim is its own.
pub(crate) fn claimant<K: Claimant>(claim: &ObjectMeta) -> Option<ObjectRef<K>> {
    let owner = owner_of_kind(claim, GROUP, &K::kind(&())).map(|owner| owner.name.as_str());
    let name = owner.or_else(|| K::named_by(claim.name.as_deref()?).filter(|_| !is_controlled(claim)))?;
    Some(ObjectRef::new(name).within(claim.namespace.as_deref()?))
}

fn is_controlled(claim: &ObjectMeta) -> bool {
    claim
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true))
}

/// The owner references of a claim, if they have to be others: it is one of the wanted claims and lost its owner, or names it by
/// another version than the one that is written now. Pure.
pub(super) fn restored<Owner>(
    owner: &Owner,
    cluster: &str,
    wanted: &[Wanted],
    claim: &IPAddressClaim,
) -> Option<Vec<OwnerReference>>
where
    Owner: Resource<DynamicType = ()>,
{
    let owners = claim.owner_references();
    let is_ours = |known: &OwnerReference| Some(&known.uid) == owner.meta().uid.as_ref();
    match owners.iter().position(is_ours) {
        Some(place) if names_another_version::<Owner>(&owners[place]) => {
            let mut owners = owners.to_vec();
            owners[place].api_version = Owner::api_version(&()).into_owned();
            Some(owners)
        }
        Some(_) => None,
        None if is_disowned(cluster, wanted, claim) => {
            Some(owners.iter().cloned().chain([reference(owner)]).collect())
        }
        None => None,
    }
}

/// Whether a claim without the owner is one of its wanted claims and lost it: it belongs to the cluster, refers to the pool and
/// has no owner.
pub(super) fn is_disowned(cluster: &str, wanted: &[Wanted], claim: &IPAddressClaim) -> bool {
    let name = claim.name_any();
    let Some(wanted) = wanted.iter().find(|wanted| wanted.name == name) else {
        return false;
    };
    !is_controlled(&claim.metadata)
        && labels::value(&claim.metadata, labels::CLUSTER_NAME) == Some(cluster)
        && claim.spec.pool_ref == (&wanted.pool).into()
}

/// Restores the owner of claims from which it was removed. Reads only the cache: a change of a claim triggers a
/// reconcile of the object.
pub(crate) async fn own_again<Owner>(owner: &Owner, cluster: &str, context: &Context) -> Result<(), Error>
where
    Owner: Claimant,
{
    let wanted = owner.wanted();
    if wanted.is_empty() {
        return Ok(());
    }
    context.claims.follow();
    let namespace = owner.namespace().unwrap_or_default();
    let api: Api<IPAddressClaim> = Api::namespaced(context.client.clone(), &namespace);
    let claims = wanted
        .iter()
        .filter_map(|wanted| context.claims.cache().get(&namespace, &wanted.name));
    for claim in claims {
        let Some(owners) = restored(owner, cluster, &wanted, &claim) else {
            continue;
        };
        let mut owned = claim.as_ref().clone();
        owned.metadata.owner_references = Some(owners);
        match patch::object(&api, &*claim, &owned, Precondition::ResourceVersion).await {
            Ok(_) => {}
            // The claim changed or was deleted meanwhile, which triggers another reconcile.
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(error) => return Err(Error::Own(error)),
        }
    }
    Ok(())
}
