//! Reads what the plan asks for.

use std::collections::BTreeMap;

use kube::{
    Api, Client, ResourceExt as _,
    api::ListParams,
    core::{DynamicObject, GroupVersionKind},
};
use nephele_api::{
    cloud::v1alpha1::{Fault, Scenario, SimulatedCloud},
    conditions::{self, types},
    core::{Cluster, Machine},
};
use nephele_controller::Readable;
use serde::de::DeserializeOwned;

use crate::{
    act::CLOUDS,
    clock::{self, SeenClock},
    look::{at_cluster, at_field, at_machines},
    plan::{Look, Seen, SeenFault, Wants},
    refusal::{Refusal, refusal},
    resource,
    script::{Script, Sight},
};

/// Reads the Faults of the namespace that matter to the scenario, and looks for what the plan wants.
///
/// # Errors
/// When the Faults cannot be read.
pub(crate) async fn observe(
    client: &Client,
    object: &Scenario,
    script: &Script,
    wants: Wants<'_>,
) -> Result<Seen, kube::Error> {
    let namespace = object.namespace().unwrap_or_default();
    let names: Vec<_> = script.fault_names().collect();
    let mut faults = faults_of(client, object).await?;
    faults.retain(|name, fault| fault.is_ours || names.contains(&name.as_str()));
    let mut looks = BTreeMap::new();
    for (index, sight) in wants.sights {
        looks.insert(index, look(client, &namespace, sight).await);
    }
    let mut clocks = BTreeMap::new();
    for cloud in wants.clocks {
        clocks.insert(cloud.to_owned(), clock_of(client, &namespace, cloud).await);
    }
    Ok(Seen {
        faults,
        looks,
        clocks,
        looked: BTreeMap::new(),
    })
}

async fn clock_of(client: &Client, namespace: &str, cloud: &str) -> SeenClock {
    let api: Api<Readable<SimulatedCloud>> = Api::namespaced(client.clone(), namespace);
    let read = get(&api, cloud, &format!("SimulatedCloud {cloud}"), CLOUDS).await;
    match read.map(|found| found.map(Readable::into_object)) {
        Ok(Some(cloud)) => SeenClock::Read {
            version: cloud.resource_version().unwrap_or_default(),
            in_force: clock::in_force(&cloud).map(Box::new),
            set: cloud.spec.clock,
        },
        Ok(None) | Err(Refusal::NotFound) => SeenClock::Missing,
        Err(Refusal::Passing(message)) => SeenClock::Unclear(message),
        Err(Refusal::Lasting(message)) => SeenClock::Refused(message),
    }
}

/// The Faults of the scenario's namespace, by name.
pub(crate) async fn faults_of(
    client: &Client,
    object: &Scenario,
) -> Result<BTreeMap<String, SeenFault>, kube::Error> {
    let api: Api<Readable<Fault>> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let list = api.list(&ListParams::default()).await?;
    let seen = list.into_iter().map(Readable::into_object).map(|fault| {
        let is_ours = has_made(object, &fault);
        let name = fault.name_any();
        let is_going = fault.metadata.deletion_timestamp.is_some();
        let status = fault.status.unwrap_or_default();
        let ready = conditions::find(&status.conditions, types::READY);
        let message = ready
            .map(|condition| condition.message.clone())
            .unwrap_or_default();
        (
            name,
            SeenFault {
                is_ours,
                is_going,
                phase: status.phase,
                message,
            },
        )
    });
    Ok(seen.collect())
}

/// Whether a scenario has made a Fault.
pub(crate) fn has_made(object: &Scenario, fault: &Fault) -> bool {
    fault
        .owner_references()
        .iter()
        .any(|owner| Some(&owner.uid) == object.metadata.uid.as_ref())
}

async fn look(client: &Client, namespace: &str, sight: &Sight) -> Look {
    let seen = match sight {
        Sight::Cluster {
            name,
            condition,
            status,
        } => {
            let api: Api<Cluster> = Api::namespaced(client.clone(), namespace);
            let found = get(
                &api,
                name,
                &format!("Cluster {name}"),
                "clusters.cluster.x-k8s.io",
            )
            .await;
            found.map(|cluster| at_cluster(name, cluster.as_ref(), condition, status))
        }
        Sight::Machines {
            cluster,
            selector,
            phase,
            wanted,
        } => {
            let api: Api<Readable<Machine>> = Api::namespaced(client.clone(), namespace);
            let listed = api.list(&ListParams::default().labels_from(selector)).await;
            let listed =
                listed.map_err(|error| refusal("list Machines", "list machines.cluster.x-k8s.io", &error));
            listed.map(|listed| {
                let is_of = |machine: &Machine| {
                    cluster
                        .as_ref()
                        .is_none_or(|cluster| *cluster == machine.spec.cluster_name)
                };
                let machines: Vec<_> = listed
                    .into_iter()
                    .map(Readable::into_object)
                    .filter(is_of)
                    .collect();
                at_machines(&machines, phase.as_deref(), *wanted)
            })
        }
        Sight::Field {
            kind,
            name,
            field,
            value,
        } => {
            let called = format!("{} {name}", kind.kind);
            let found = field_owner(client, namespace, kind, name, &called).await;
            found.map(|object| at_field(&called, object.as_ref(), field, value))
        }
    };
    seen.unwrap_or_else(|refusal| match refusal {
        Refusal::NotFound => Look::Unclear("Cluster API's kinds are not installed".to_owned()),
        Refusal::Passing(message) => Look::Unclear(message),
        Refusal::Lasting(message) => Look::Refused(message),
    })
}

async fn field_owner(
    client: &Client,
    namespace: &str,
    kind: &GroupVersionKind,
    name: &str,
    called: &str,
) -> Result<Option<serde_json::Value>, Refusal> {
    let resource = resource::namespaced(client, kind).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let right = format!("{}.{}", resource.plural, resource.group);
    let found = get(&api, name, called, &right).await?;
    let value = found.map(serde_json::to_value).transpose();
    value.map_err(|error| Refusal::Lasting(format!("failed to read {called}: {error}")))
}

/// Reads an object that may be absent.
async fn get<K>(api: &Api<K>, name: &str, called: &str, resource: &str) -> Result<Option<K>, Refusal>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let read = api.get_opt(name).await;
    read.map_err(|error| refusal(&format!("read {called}"), &format!("get {resource}"), &error))
}
