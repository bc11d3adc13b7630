//! What the bootstrap data of a machine say, read once, when the machine boots. Nothing of the Secret is kept but what
//! [`nephele_cloud::read_user_data`] finds in it.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use nephele_api::core::Machine;
use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_api::infrastructure::v1beta2::kubeadm::{self, KubeadmCluster};
use nephele_api::infrastructure::v1beta2::pool_machine::POOL_NAME_LABEL;
use nephele_api::labels;
use nephele_api::names::is_dns_subdomain;
use nephele_cloud::{Kubeadm, MachineSpec, Taint};
use nephele_kit::owner_machine;

use super::{Error, validate};
use crate::context::Context;

/// The key of the data in the Secret (Cluster API, contract of bootstrap providers).
const VALUE: &str = "value";

/// What a machine boots with. `None` for one that the cloud has, or had before a restart: it does not boot again.
pub(super) async fn read(
    object: &InMemoryMachine,
    spec: &MachineSpec,
    context: &Context,
) -> Result<Option<Box<Kubeadm>>, Error> {
    if validate::has_begun(object) || context.cloud.observe_machine(&spec.id).is_some() {
        return Ok(None);
    }
    let namespace = object.namespace().unwrap_or_default();
    let owner = owner_machine(&object.metadata);
    let machine = owner.and_then(|owner| context.machines.get(&namespace, &owner.name));
    let Some(name) = machine.and_then(|machine| data_secret(&machine, context)) else { return Ok(None) };
    if !is_dns_subdomain(&name) {
        return Ok(None);
    }
    let secrets = Api::<Secret>::namespaced(context.client.clone(), &namespace);
    let found = secrets.get_opt(&name).await;
    let found = found.map_err(|source| Error::Read { kind: "Secret", name, source })?;
    let data = found.and_then(|secret| secret.data?.remove(VALUE));
    Ok(match data {
        Some(data) => nephele_cloud::read_user_data(data.0).await.map(Box::new),
        None => None,
    })
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

/// The record of it in the origin.
pub(super) fn to_api(known: &Kubeadm) -> kubeadm::Kubeadm {
    let taint = |Taint { key, value, effect }| kubeadm::Taint { key, value, effect };
    let cluster = |cluster| {
        let nephele_cloud::KubeadmCluster {
            image_repository,
            dns_image_repository,
            dns_image_tag,
            etcd_image_repository,
            etcd_image_tag,
            external_etcd,
            skips_proxy,
            skips_dns,
        } = cluster;
        KubeadmCluster {
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
    let Kubeadm { node_labels, taints, cluster: of_cluster } = known.clone();
    kubeadm::Kubeadm {
        node_labels,
        taints: taints.map(|taints| taints.into_iter().map(taint).collect()),
        cluster: of_cluster.map(cluster),
    }
}

/// What the origin records.
pub(super) fn from_api(recorded: kubeadm::Kubeadm) -> Kubeadm {
    let taint = |kubeadm::Taint { key, value, effect }| Taint { key, value, effect };
    let cluster = |cluster| {
        let KubeadmCluster {
            image_repository,
            dns_image_repository,
            dns_image_tag,
            etcd_image_repository,
            etcd_image_tag,
            external_etcd,
            skips_proxy,
            skips_dns,
        } = cluster;
        nephele_cloud::KubeadmCluster {
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
    let kubeadm::Kubeadm { node_labels, taints, cluster: of_cluster } = recorded;
    Kubeadm {
        node_labels,
        taints: taints.map(|taints| taints.into_iter().map(taint).collect()),
        cluster: of_cluster.map(cluster),
    }
}
