//! Where the manager is. Whoever may edit one namespace can make a Deployment, a Lease and a pod there that look like the
//! manager's. So the namespace comes from objects that only cluster administrators write, and everything else from that
//! namespace.
//!
//! ```text
//!  definition, webhook configurations ──▶ namespace ──▶ pods ──▶ leader (pure): which pod, which certificate
//!                       or a flag ────────────┘  └────▶ leases ──┘
//! ```

mod leader;
mod managers;
mod namespace;

use std::collections::BTreeMap;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, Client, api::ListParams};
pub(crate) use leader::Leader;
use leader::NoLeader;
pub(crate) use managers::{LeaseId, MANAGER_PODS, ManagerPod, Managers, no_pod};
pub(crate) use namespace::{NamespaceArgs, ProviderArgs, namespace, namespaces_of_all};

use crate::exit::{Exit, Problem};

/// The most pods of a manager that are looked at.
const PODS_MAX: u32 = 16;

/// The pod in the manager's namespace that holds the manager's lease there.
///
/// # Errors
/// When there is none, or the management cluster does not answer.
pub(crate) async fn leader(client: &Client, namespace: &str, insecure: bool) -> anyhow::Result<Leader> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let listed = pods
        .list(&ListParams::default().labels(MANAGER_PODS).limit(PODS_MAX))
        .await;
    let listed = listed.map_err(|error| {
        Problem::request(
            "find the manager's pod",
            &format!("list pods in namespace {namespace}"),
            error,
        )
    })?;
    let mut leases = BTreeMap::new();
    for id in leader::leases(namespace, &listed.items) {
        let lease = Api::<Lease>::namespaced(client.clone(), &id.namespace)
            .get_opt(&id.name)
            .await;
        let lease = lease.map_err(|error| {
            let permission = format!("get leases in namespace {}", id.namespace);
            Problem::request("find the manager that leads", &permission, error)
        })?;
        leases.extend(lease.map(|lease| (id, lease)));
    }
    leader::leader(namespace, &listed.items, &leases, insecure).map_err(|why| {
        let exit = if matches!(why, NoLeader::NoPod(_)) {
            Exit::NotFound
        } else {
            Exit::Failed
        };
        Problem::new(exit, why.to_string()).into()
    })
}
