//! Removes a class: first the clusters of its people, whose objects need the rights and the namespaces, then these.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use nephele_api::core::Cluster;

use super::plan::{Class, LABEL, WAY_ROLE};
use crate::{
    exit::{Exit, Problem},
    objects::{delete, listed},
    output::print,
};

/// Namespaces that are emptied at a time.
const AT_A_TIME: usize = 8;
/// How long a cluster may take, and a namespace.
const GONE_WITHIN: Duration = Duration::from_secs(5 * 60);

/// Removes what is left of a class.
pub(super) async fn remove(client: &Client, class: &Class) -> anyhow::Result<()> {
    let ours = ListParams::default().labels(&format!("{LABEL}={}", class.name));
    let namespaces = Api::<Namespace>::all(client.clone());
    let found = namespaces.list(&ours).await;
    let found = found
        .map_err(|error| Problem::request("list the namespaces of the class", "list namespaces", error))?;
    if found.items.is_empty() {
        let message = format!("there is no class {}", class.name);
        return Err(Problem::new(Exit::NotFound, message).into());
    }
    let count = found.items.len();
    eprintln!(
        "Deleting the clusters and the namespaces of {count} people; each may take {} minutes",
        GONE_WITHIN.as_secs() / 60
    );
    let removed = stream::iter(found.items).map(|namespace| {
        let namespaces = namespaces.clone();
        async move {
            let name = namespace.name_any();
            let clusters = Api::<Cluster>::namespaced(client.clone(), &name);
            for cluster in listed(&clusters, &format!(" in namespace {name}")).await? {
                delete(&clusters, &cluster, GONE_WITHIN, "").await?;
            }
            delete(
                &namespaces,
                &namespace,
                GONE_WITHIN,
                "; kube-controller-manager removes what is in a namespace, and has to run",
            )
            .await?;
            anyhow::Ok(name)
        }
    });
    let mut removed = removed.buffer_unordered(AT_A_TIME);
    while let Some(name) = removed.try_next().await? {
        eprintln!("{name} is gone");
    }
    remove_way(client, class, &ours).await?;
    print(&format!(
        "{count} namespaces and the rights of their people are gone.\n"
    ))?;
    Ok(())
}

/// Removes the rights in the manager's namespace, and their Role with those of the last class.
async fn remove_way(client: &Client, class: &Class, ours: &ListParams) -> anyhow::Result<()> {
    let namespace = &class.manager_namespace;
    let failed = |verb: &str, error| {
        let permission = format!("{verb} rolebindings and roles in namespace {namespace}");
        Problem::request("remove the rights of the class", &permission, error)
    };
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    let gone = bindings.delete_collection(&DeleteParams::default(), ours).await;
    drop(gone.map_err(|error| failed("delete", error))?);
    let others = bindings.list(&ListParams::default().labels(LABEL)).await;
    let others = others.map_err(|error| failed("list", error))?;
    if !others.items.is_empty() {
        return Ok(());
    }
    let roles = Api::<Role>::namespaced(client.clone(), namespace);
    match roles.delete(WAY_ROLE, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        gone => gone.map(drop).map_err(|error| failed("delete", error).into()),
    }
}
