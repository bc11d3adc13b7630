//! What chapters have made goes, so that another one finds room.

use std::{fmt::Debug, time::Duration};

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams},
    core::{DynamicObject, NamespaceResourceScope},
};
use nephele_access::{Kinds, kind_of};
use nephele_api::{
    cloud::{
        WORKSHOP_LABEL,
        v1alpha1::{Fault, Scenario, SimulatedCloud},
    },
    core::Cluster,
    ipam::v1alpha2::InClusterIPPool,
};
use nephele_scenario_library::workshop::{self, CLUSTER};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{
    access::Access,
    exit::Problem,
    fault::heal,
    objects::{self, listed},
    output::print,
    scenario::delete,
};

/// How long the deletion of an object may take: that of a cluster with all its machines, on a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(600);

/// Deletes the Scenarios of chapters, also those that a person wrote, all Faults of the namespace, and then what else has the label or is the Cluster of a chapter.
pub(super) async fn clear(
    access: &Access,
    api: &Api<Scenario>,
    scenarios: &[Scenario],
) -> anyhow::Result<()> {
    let Access {
        client, namespace, ..
    } = access;
    // Faults could refuse the deletions that follow.
    for scenario in scenarios {
        delete(api, scenario).await?;
    }
    // It would be there already for a person who writes it again.
    let chapters = workshop::all()?.into_iter();
    let written: Vec<_> = chapters.filter_map(|chapter| chapter.about.scenario).collect();
    delete_all::<Scenario>(client, namespace, |scenario| {
        written.contains(&scenario.name_any())
    })
    .await?;
    let faults: Api<Fault> = Api::namespaced(client.clone(), namespace);
    for name in heal(&faults, Some(namespace), None).await? {
        print(&format!("Fault {namespace}/{name} is deleted\n"))?;
    }
    // The clock of a cloud may stand still, and machines are deleted in its time.
    delete_all::<SimulatedCloud>(client, namespace, has_label).await?;
    let is_of_chapter = |cluster: &Cluster| has_label(cluster) || cluster.name_any() == CLUSTER;
    let clusters = delete_all(client, namespace, is_of_chapter).await?;
    delete_health_checks(client, namespace, &clusters).await?;
    delete_all::<InClusterIPPool>(client, namespace, has_label).await?;
    Ok(())
}

fn has_label<K: Resource>(object: &K) -> bool {
    object.labels().contains_key(WORKSHOP_LABEL)
}

/// Deletes these objects of a kind, and waits until they are gone. Returns their names.
async fn delete_all<K>(
    client: &Client,
    namespace: &str,
    is_one: impl Fn(&K) -> bool,
) -> anyhow::Result<Vec<String>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let mut objects = listed(&api, &format!(" in namespace {namespace}")).await?;
    objects.retain(is_one);
    for object in &objects {
        objects::delete(&api, object, GONE_WITHIN, "").await?;
        print(&format!(
            "{} {namespace}/{} is deleted\n",
            K::kind(&()),
            object.name_any()
        ))?;
    }
    Ok(objects.iter().map(ResourceExt::name_any).collect())
}

/// Deletes the health checks of clusters, which a person made: the next cluster has the same name.
async fn delete_health_checks(client: &Client, namespace: &str, clusters: &[String]) -> anyhow::Result<()> {
    let kind = kind_of(&json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck" }));
    let problem = |verb: &str, error| {
        let what = format!("{verb} the MachineHealthChecks in namespace {namespace}");
        Problem::request(
            &what,
            &format!("{verb} machinehealthchecks.cluster.x-k8s.io"),
            error,
        )
    };
    let found = Kinds::new(client.clone()).find(&kind).await;
    let Some((resource, _)) = found.map_err(|error| problem("list", error))? else {
        return Ok(());
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let listed = api.list(&ListParams::default()).await;
    for object in listed.map_err(|error| problem("list", error))?.items {
        let of = object.data["spec"]["clusterName"].as_str();
        if !of.is_some_and(|of| clusters.iter().any(|name| name == of)) {
            continue;
        }
        match api.delete(&object.name_any(), &DeleteParams::default()).await {
            Ok(_) => print(&format!(
                "MachineHealthCheck {namespace}/{} is deleted\n",
                object.name_any()
            ))?,
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(problem("delete", error).into()),
        }
    }
    Ok(())
}
