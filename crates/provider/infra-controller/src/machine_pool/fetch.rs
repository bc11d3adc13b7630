//! Reads everything that a decision about a pool needs. Missing objects are `None`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource, ResourceExt as _,
    api::{Api, ListParams},
};
use nephele_api::{
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::{
        InMemoryMachine, InMemoryMachinePool,
        pool_machine::{POOL_NAME_LABEL, label_value},
    },
    labels,
};
use nephele_controller::{Kind, Readable, owner_of_kind};
use nephele_model::ClusterId;

use super::{Error, members::Belonging};
use crate::context::{Context, cluster_of_pool, infrastructure_of_machine, labelled_cluster};

/// Machines in a page: a size that the API server returns easily in one response.
const PAGE: u32 = 500;

/// Where to read machines from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The caches, which may lag behind.
    Caches,
    /// The API, for decisions that must not be based on old data.
    Api,
}

/// The objects that were read.
pub(super) struct Fetched {
    /// Whether a MachinePool owns the object.
    pub(super) owned: bool,
    pub(super) pool: Option<Arc<MachinePool>>,
    /// The Cluster that the MachinePool names, or else the label.
    pub(super) id: Option<ClusterId>,
    pub(super) cluster: Option<Arc<Cluster>>,
    /// The machines of the object, by name.
    pub(super) members: BTreeMap<String, Arc<InMemoryMachine>>,
    /// Those of them that have to be owned again.
    pub(super) disowned: Vec<Arc<InMemoryMachine>>,
    /// The Machines of the MachinePool, by the name of the InMemoryMachine that each refers to.
    pub(super) machines: BTreeMap<String, Arc<Machine>>,
}

pub(super) async fn fetch(
    object: &InMemoryMachinePool,
    context: &Context,
    source: Source,
) -> Result<Fetched, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let owner = owner_of_kind(&object.metadata, nephele_api::core::GROUP, "MachinePool");
    let pool = owner.and_then(|owner| context.machine_pools.get(&namespace, &owner.name));
    let id = cluster_of_pool(&object.metadata, pool.as_deref());
    let label = owner.map(|owner| label_value(&owner.name));
    // Machines before InMemoryMachines: a Machine whose InMemoryMachine is not found afterwards has really lost it.
    let (machines, members) = match source {
        Source::Caches => (
            context.machines.by_namespace().of(&namespace),
            context.pool_machines.by_namespace().of(&namespace),
        ),
        Source::Api => {
            // A pool that lost its owner still has to delete its machines.
            let selector = match (&label, &id) {
                (Some(label), Some(id)) => {
                    format!("{POOL_NAME_LABEL}={label},{}={}", labels::CLUSTER_NAME, id.name)
                }
                _ => POOL_NAME_LABEL.to_owned(),
            };
            let machines = list(context, &namespace, &selector).await?;
            (machines, list(context, &namespace, &selector).await?)
        }
    };
    let belonging =
        |member: &InMemoryMachine| Belonging::of(&member.metadata, &object.metadata, label.as_deref());
    let (members, others): (Vec<_>, Vec<_>) = members
        .into_iter()
        .partition(|member| belonging(member) != Belonging::Foreign);
    let disowned = members.iter().filter(|member| {
        let is_disowned = matches!(belonging(member), Belonging::Lost | Belonging::Outdated);
        is_disowned && member.metadata.deletion_timestamp.is_none()
    });
    let disowned = disowned.cloned().collect();
    let members: BTreeMap<_, _> = members
        .into_iter()
        .map(|member| (member.name_any(), member))
        .collect();
    let others: BTreeSet<_> = others.into_iter().map(|other| other.name_any()).collect();
    let is_of_pool = |metadata: &ObjectMeta| {
        let of_pool = labels::value(metadata, POOL_NAME_LABEL);
        of_pool.is_some() && of_pool == label.as_deref() && labelled_cluster(metadata) == id
    };
    let of_member = |machine: Arc<Machine>| {
        let reference = infrastructure_of_machine(&machine)?;
        let named = members.contains_key(&reference.name);
        let left = || is_of_pool(&machine.metadata) && !others.contains(&reference.name);
        (named || left()).then_some((reference.name, machine))
    };
    let machines = machines.into_iter().filter_map(of_member).collect();
    let cluster = id.as_ref().and_then(|id| context.cluster(id));
    Ok(Fetched {
        owned: owner.is_some(),
        pool,
        id,
        cluster,
        members,
        disowned,
        machines,
    })
}

async fn list<K>(context: &Context, namespace: &str, selector: &str) -> Result<Vec<Arc<K>>, Error>
where
    K: Kind + Resource<Scope = kube::core::NamespaceResourceScope>,
{
    let api: Api<Readable<K>> = Api::namespaced(context.client.clone(), namespace);
    let failed = |source| Error::List {
        kind: kind::<K>(),
        source,
    };
    let mut found = Vec::new();
    let mut next = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let page = api.list(&next).await.map_err(failed)?;
        found.extend(
            page.items
                .into_iter()
                .map(|object| Arc::new(object.into_object())),
        );
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => next = next.continue_token(&token),
            None => return Ok(found),
        }
    }
}

fn kind<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()).as_ref() {
        "Machine" => "Machine",
        _ => "InMemoryMachine",
    }
}
