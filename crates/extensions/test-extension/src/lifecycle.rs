//! The lifecycle hooks. A ConfigMap has the answers to give and the answers that were given.

use nephele_runtime_sdk::{
    hooks::{
        AfterClusterUpgradeRequest, AfterControlPlaneInitializedRequest, AfterControlPlaneUpgradeRequest,
        AfterWorkersUpgradeRequest, BeforeClusterCreateRequest, BeforeClusterDeleteRequest,
        BeforeClusterUpgradeRequest, BeforeControlPlaneUpgradeRequest, BeforeWorkersUpgradeRequest, Failure,
        Hook, Request, Settings,
    },
    server::Extension,
    wire::Object,
};

use crate::{
    access::Access,
    script::{Scene, answer},
};

/// A request about a Cluster. The Cluster and the versions distinguish it from other calls of the same hook.
pub(crate) trait OfCluster: Request {
    /// The Cluster.
    fn cluster(&self) -> &Object;
    /// The Kubernetes versions of the call, in the order of the ConfigMap's keys.
    fn versions(&self) -> Vec<&str>;
}

macro_rules! of_cluster {
    ($($request:ident($($version:ident),*);)*) => {
        $(impl OfCluster for $request {
            fn cluster(&self) -> &Object {
                &self.cluster
            }

            fn versions(&self) -> Vec<&str> {
                vec![$(&self.$version),*]
            }
        })*
    };
}

of_cluster! {
    BeforeClusterCreateRequest();
    AfterControlPlaneInitializedRequest();
    BeforeClusterUpgradeRequest(from_kubernetes_version, to_kubernetes_version);
    BeforeControlPlaneUpgradeRequest(from_kubernetes_version, to_kubernetes_version);
    AfterControlPlaneUpgradeRequest(kubernetes_version);
    BeforeWorkersUpgradeRequest(from_kubernetes_version, to_kubernetes_version);
    AfterWorkersUpgradeRequest(kubernetes_version);
    AfterClusterUpgradeRequest(kubernetes_version);
    BeforeClusterDeleteRequest();
}

/// Adds a handler that answers from the ConfigMap of the Cluster.
pub(crate) fn on_lifecycle<H>(extension: Extension, access: &Access, hook: H, name: &str) -> Extension
where
    H: Hook,
    H::Request: OfCluster,
{
    let access = access.clone();
    extension.on(hook, name, move |request: H::Request, _call| {
        let access = access.clone();
        async move {
            let scene = Scene::new(
                request.cluster(),
                request.settings().unwrap_or(&Settings::new()),
                H::NAME,
                &request.versions(),
            )?;
            let response = answer::<H::Response>(&access, &scene).await?;
            Ok::<_, Failure>(response)
        }
    })
}
