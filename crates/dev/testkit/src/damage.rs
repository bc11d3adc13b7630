//! What a backup, a person or the garbage collector does to objects.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// What an object loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Whether it loses its status.
    pub status: bool,
    /// Whether it loses its finalizers.
    pub finalizers: bool,
    /// What happens to its owners.
    pub owners: Owners,
}

/// What happens to the owners of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Nothing.
    AsBefore,
    /// They have another version of their API, and none is the controller.
    OfAnotherVersion,
    /// They are gone, until they are set again.
    Gone,
}

impl Damage {
    /// All combinations but the one that changes nothing.
    pub fn all() -> impl Iterator<Item = Self> {
        let owners = [Owners::AsBefore, Owners::OfAnotherVersion, Owners::Gone];
        let all = owners.into_iter().flat_map(|owners| {
            [false, true].into_iter().flat_map(move |status| {
                [false, true].map(|finalizers| Self {
                    status,
                    finalizers,
                    owners,
                })
            })
        });
        all.skip(1)
    }

    /// Damages an object.
    pub async fn inflict<K>(self, api: &Api<K>, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let found = api.get(name).await.expect("it is there");
        let mut metadata = json!({});
        if self.finalizers {
            metadata["finalizers"] = Value::Null;
        }
        match self.owners {
            Owners::AsBefore => {}
            Owners::OfAnotherVersion => {
                let mut owners = found.owner_references().to_vec();
                for owner in &mut owners {
                    let (group, _) = owner.api_version.split_once('/').expect("a group");
                    owner.api_version = format!("{group}/v1alpha4");
                    owner.controller = None;
                }
                metadata["ownerReferences"] = json!(owners);
            }
            Owners::Gone => metadata["ownerReferences"] = Value::Null,
        }
        let params = PatchParams::default();
        let has_status = serde_json::to_value(&found)
            .expect("JSON")
            .get("status")
            .is_some();
        if self.status && has_status {
            let none = json!({ "status": null });
            api.patch_status(name, &params, &Patch::Merge(&none))
                .await
                .expect("it is taken");
        }
        let patch = json!({ "metadata": metadata });
        api.patch(name, &params, &Patch::Merge(&patch))
            .await
            .expect("it is taken");
    }

    /// Sets the owners that an object had before, as Cluster API does, if they are gone.
    pub async fn own_again<K>(self, api: &Api<K>, before: &K)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        if self.owners == Owners::Gone {
            let patch = json!({ "metadata": { "ownerReferences": before.owner_references() } });
            let patched = api
                .patch(&before.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
                .await;
            patched.expect("it is taken");
        }
    }
}
