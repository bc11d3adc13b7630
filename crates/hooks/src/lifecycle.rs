//! The hooks of a cluster's life: answered as a ConfigMap says, and recorded there.

use kube::Client;
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

use crate::script::{Scene, answer};

/// What tells a call of a hook of a cluster's life from others of the same hook.
pub(crate) trait OfCluster: Request {
    /// The Cluster.
    fn cluster(&self) -> &Object;
    /// The versions that it is about.
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

/// Answers a hook as the ConfigMap of the Cluster says.
pub(crate) fn on_lifecycle<H>(extension: Extension, client: &Client, hook: H, name: &str) -> Extension
where
    H: Hook,
    H::Request: OfCluster,
{
    let client = client.clone();
    extension.on(hook, name, move |request: H::Request, _call| {
        let client = client.clone();
        async move {
            let scene = Scene::new(
                request.cluster(),
                request.settings().unwrap_or(&Settings::new()),
                H::NAME,
                &request.versions(),
            )?;
            let response = answer::<H::Response>(&client, &scene).await?;
            Ok::<_, Failure>(response)
        }
    })
}
