//! Reads what a decision about a pool needs. What is not there is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{Api, ListParams};
use kube::{Resource, ResourceExt as _};
use nephele_api::core::{Cluster, Machine, MachinePool};
use nephele_api::infrastructure::v1beta2::pool_machine::{POOL_NAME_LABEL, label_value};
use nephele_api::infrastructure::v1beta2::{InMemoryMachine, InMemoryMachinePool};
use nephele_api::labels;
use nephele_cloud::ClusterId;
use nephele_kit::owner_of_kind;

use super::Error;
use super::members::owner_pool;
use crate::context::{Context, infrastructure_of_machine, labelled_cluster};

/// Machines of a page: what the API server takes for one answer without ado.
const PAGE: u32 = 500;

/// Where to look for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// They may lag behind.
    Caches,
    /// For what must not be decided upon old news.
    Api,
}

/// What was found.
#[derive(Default)]
pub(super) struct Fetched {
    /// Whether a MachinePool owns the object.
    pub(super) owned: bool,
    pub(super) pool: Option<Arc<MachinePool>>,
    /// The Cluster that the MachinePool names, else the label.
    pub(super) id: Option<ClusterId>,
    pub(super) cluster: Option<Arc<Cluster>>,
    /// The machines that the object owns, by name.
    pub(super) members: BTreeMap<String, Arc<InMemoryMachine>>,
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
    let id = pool
        .as_ref()
        .map(|pool| ClusterId { namespace: namespace.clone(), name: pool.spec.cluster_name.clone() })
        .filter(|id| !id.name.is_empty())
        .or_else(|| labelled_cluster(&object.metadata));
    let (Some(owner), Some(id)) = (owner, id) else {
        return Ok(Fetched { owned: owner.is_some(), pool, ..Fetched::default() });
    };
    let label = label_value(&owner.name);
    // Machines before InMemoryMachines: a Machine whose InMemoryMachine is not found then has lost it.
    let (machines, members) = match source {
        Source::Caches => {
            let machines = context.machines.store().state();
            let machines = machines.into_iter().filter(|machine| {
                let metadata = &machine.metadata;
                metadata.namespace.as_deref() == Some(&namespace)
                    && labels::value(metadata, POOL_NAME_LABEL) == Some(&label)
                    && labels::value(metadata, labels::CLUSTER_NAME) == Some(&id.name)
            });
            let members = context.pool_machines.store().state();
            (machines.collect(), members)
        }
        Source::Api => {
            let selector = format!("{POOL_NAME_LABEL}={label},{}={}", labels::CLUSTER_NAME, id.name);
            let machines = list(context, &namespace, &selector).await?;
            (machines, list(context, &namespace, &selector).await?)
        }
    };
    let ours = |member: &InMemoryMachine| {
        let owner = owner_pool(&member.metadata);
        member.namespace().as_deref() == Some(&namespace)
            && owner.is_some_and(|(_, uid)| object.metadata.uid.as_deref() == Some(uid))
    };
    let by_infrastructure =
        |machine: Arc<Machine>| Some((infrastructure_of_machine(&machine)?.name, machine));
    Ok(Fetched {
        owned: true,
        pool,
        cluster: context.cluster(&id),
        id: Some(id),
        members: members.into_iter().filter(|m| ours(m)).map(|m| (m.name_any(), m)).collect(),
        machines: machines.into_iter().filter_map(by_infrastructure).collect(),
    })
}

async fn list<K>(context: &Context, namespace: &str, selector: &str) -> Result<Vec<Arc<K>>, Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), namespace);
    let failed = |source| Error::List { kind: kind::<K>(), source };
    let mut found = Vec::new();
    let mut next = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let page = api.list(&next).await.map_err(failed)?;
        found.extend(page.items.into_iter().map(Arc::new));
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
