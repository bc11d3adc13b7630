//! Recorded requests of Cluster API, sent again over real TLS.

use nephele_runtime_sdk::{
    hooks::{self, Hook, Request as _},
    server::Extension,
    topology::Walk,
};
use serde_json::json;

use super::{World, recordings, world::PROTOCOLS};

/// An extension with a handler for every hook that is called by name, as in the recorded paths. Their answers
/// depend on the requests.
fn extension() -> Extension {
    let walk = || {
        Walk::new().on_others(|template| {
            let holder = template.holder.kind.clone();
            template.object["spec"]["holder"] = holder.into();
            Ok(())
        })
    };
    let mut extension = Extension::new().on(
        hooks::GeneratePatches,
        "generate-patches",
        move |request, _| async move { walk().patches(&request) },
    );
    macro_rules! add {
        ($($hook:ident $name:literal,)+) => {
            $(extension = extension.on(hooks::$hook, $name, |request, _| async move {
                let mut response = <hooks::$hook as Hook>::Response::default();
                hooks::Response::set_message(&mut response, format!("{:?}", request.settings()));
                Ok(response)
            });)+
        };
    }
    add! {
        BeforeClusterCreate "before-cluster-create", AfterControlPlaneInitialized "after-control-plane-initialized",
        BeforeClusterUpgrade "before-cluster-upgrade", BeforeControlPlaneUpgrade "before-control-plane-upgrade",
        AfterControlPlaneUpgrade "after-control-plane-upgrade", BeforeWorkersUpgrade "before-workers-upgrade",
        AfterWorkersUpgrade "after-workers-upgrade", AfterClusterUpgrade "after-cluster-upgrade",
        BeforeClusterDelete "before-cluster-delete", ValidateTopology "validate-topology",
        DiscoverVariables "discover-variables", GenerateUpgradePlan "generate-upgrade-plan",
        CanUpdateMachine "can-update-machine", CanUpdateMachineSet "can-update-machineset",
        UpdateMachine "update-machine",
    }
    extension
}

/// Two servers of one extension give the same answers, byte by byte, over both protocols.
#[tokio::test]
async fn two_replicas_answer_alike_over_real_tls() {
    let replicas = [World::of(extension()), World::of(extension())];
    let recordings = recordings::all();
    let mut first: Vec<Vec<u8>> = Vec::new();
    for replica in &replicas {
        for protocol in PROTOCOLS {
            let mut client = replica.client(protocol).await;
            let mut answers = Vec::new();
            for recording in &recordings {
                let target = format!("{}?{}", recording.path, recording.query);
                let answer = client.post(&target, recording.request.to_string()).await;
                assert_eq!(answer.json()["status"], json!("Success"), "{target}");
                answers.push(answer.body.to_vec());
            }
            if first.is_empty() {
                first = answers;
            } else {
                assert!(first == answers, "{protocol:?}");
            }
        }
    }
}
