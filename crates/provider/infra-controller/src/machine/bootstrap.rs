//! What the bootstrap data of a machine say, read once, when the machine boots. Nothing of the Secret is kept but what
//! [`nephele_cloud::read_user_data`] finds in it.

use k8s_openapi::api::core::v1::Secret;
use kube::{Client, Resource as _, ResourceExt as _, api::GetParams};
use nephele_api::{
    core::Machine,
    infrastructure::v1beta2::{InMemoryMachine, kubeadm, pool_machine::POOL_NAME_LABEL},
    labels,
    names::is_dns_subdomain,
};
use nephele_cloud::{Kubeadm, MachineSpec};
use nephele_controller::owner_machine;
use nephele_poll_time::apart_if_large;

use super::{Error, recorded::has_begun};
use crate::context::Context;

/// The key of the data in the Secret (Cluster API, contract of bootstrap providers).
const VALUE: &str = "value";

/// What a machine boots with. `None` for one that the cloud has, or had before a restart: it does not boot again.
pub(super) async fn read(
    object: &InMemoryMachine,
    spec: &MachineSpec,
    context: &Context,
) -> Result<Option<Box<Kubeadm>>, Error> {
    if has_begun(object) || context.cloud.observe_machine(&spec.id).is_some() {
        return Ok(None);
    }
    let namespace = object.namespace().unwrap_or_default();
    let owner = owner_machine(&object.metadata);
    let machine = owner.and_then(|owner| context.machines.get(&namespace, &owner.name));
    let Some(name) = machine.and_then(|machine| data_secret(&machine, context)) else {
        return Ok(None);
    };
    if !is_dns_subdomain(&name) {
        return Ok(None);
    }
    let _turn = context.boots.acquire().await.expect("it is never closed");
    let data = data_of(&context.client, &namespace, &name).await;
    let data = data.map_err(|source| Error::Read {
        kind: "Secret",
        name,
        source,
    })?;
    Ok(match data {
        Some(data) => nephele_cloud::read_user_data(data).await.map(Box::new),
        None => None,
    })
}

/// The data of a Secret, if it is there and has them. A client would read its 1.4 MB of text on the thread of the caller.
async fn data_of(client: &Client, namespace: &str, name: &str) -> kube::Result<Option<Vec<u8>>> {
    let secrets = kube::core::Request::new(Secret::url_path(&(), Some(namespace)));
    let mut request = secrets
        .get(name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    request.extensions_mut().insert("get");
    let text = match client.request_text(request).await {
        Ok(text) => text,
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    apart_if_large(text.len(), move || {
        let secret: Secret = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        let data = secret.data.and_then(|mut data| data.remove(VALUE));
        Ok(data.map(|data| data.0))
    })
    .await
}

/// The Secret with the bootstrap data of a Machine. All Machines of a pool share that of the pool.
fn data_secret(machine: &Machine, context: &Context) -> Option<String> {
    let own = machine.data_secret_name()?;
    if !own.is_empty() {
        return Some(own.to_owned());
    }
    let pool = labels::value(&machine.metadata, POOL_NAME_LABEL)?;
    let pool = context.machine_pools.get(&machine.namespace()?, pool)?;
    pool.data_secret_name().map(str::to_owned)
}

/// A conversion between what the cloud and what the origin knows: the same fields in types of two crates.
macro_rules! conversion {
    ($(#[$doc:meta])* $name:ident: $from:ident => $to:ident) => {
        $(#[$doc])*
        pub(super) fn $name(known: $from::Kubeadm) -> $to::Kubeadm {
            let taint = |$from::Taint { key, value, effect }| $to::Taint { key, value, effect };
            let cluster = |cluster| {
                let $from::KubeadmCluster {
                    image_repository,
                    dns_image_repository,
                    dns_image_tag,
                    etcd_image_repository,
                    etcd_image_tag,
                    external_etcd,
                    skips_proxy,
                    skips_dns,
                } = cluster;
                $to::KubeadmCluster {
                    image_repository,
                    dns_image_repository,
                    dns_image_tag,
                    etcd_image_repository,
                    etcd_image_tag,
                    external_etcd,
                    skips_proxy,
                    skips_dns,
                }
            };
            let $from::Kubeadm { node_labels, taints, cluster: of_cluster } = known;
            $to::Kubeadm {
                node_labels,
                taints: taints.map(|taints| taints.into_iter().map(taint).collect()),
                cluster: of_cluster.map(cluster),
            }
        }
    };
}

conversion!(
    /// The record of it in the origin.
    to_api: nephele_cloud => kubeadm
);
conversion!(
    /// What the origin records.
    from_api: kubeadm => nephele_cloud
);
