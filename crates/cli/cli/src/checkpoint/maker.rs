//! Who has made the machines of a checkpoint: Cluster API itself, or the stand-in of this program.

use kube::{ResourceExt as _, api::DynamicObject};
use nephele_checkpoint::Checkpoint;

use crate::exit::{Exit, Problem};

/// The group and the kind that the stand-in does not make, and every machine of Cluster API's kubeadm provider has.
const OF_CLUSTER_API: (&str, &str) = ("bootstrap.cluster.x-k8s.io/", "KubeadmConfig");

/// Refuses machines of Cluster API itself where the stand-in plays it: it knows them by other names, and would make all workers
/// again.
pub(crate) fn refuse_machines_of_cluster_api(checkpoint: &Checkpoint) -> Result<(), Problem> {
    let (group, kind) = OF_CLUSTER_API;
    let is_of_a_machine = |object: &DynamicObject| {
        let types = object.types.as_ref();
        types.is_some_and(|types| types.kind == kind && types.api_version.starts_with(group))
            && object
                .owner_references()
                .iter()
                .any(|owner| owner.kind == "Machine")
    };
    if checkpoint.objects.iter().any(is_of_a_machine) {
        return Err(Problem::new(
            Exit::Failed,
            "its clusters are of Cluster API itself, and the stand-in would make their machines again; give them to `nephele up` \
             with --cluster-api and the flags that go with it"
                .to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_of_the_stand_in_are_taken_and_those_of_cluster_api_are_not() {
        let file = b"{\"checkpoint\":1,\"time\":\"2026-03-04T05:06:07Z\",\"version\":\"v1\",\"namespaces\":[\"default\"]}\n\
            {\"objects\":0,\"clusters\":0}\n";
        let mut checkpoint = Checkpoint::read(&file[..]).expect("a checkpoint without objects");
        let object = |kind: &str, owner: &str| {
            let owner = json!({"apiVersion": "v1", "kind": owner, "name": "a", "uid": "u"});
            let object = json!({
                "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": kind,
                "metadata": {"name": "a", "ownerReferences": [owner]},
            });
            serde_json::from_value(object).expect("an object")
        };
        checkpoint
            .objects
            .push(object("KubeadmConfigTemplate", "Machine"));
        // One that a user has made.
        checkpoint.objects.push(object("KubeadmConfig", "ConfigMap"));
        assert!(refuse_machines_of_cluster_api(&checkpoint).is_ok());
        checkpoint.objects.push(object("KubeadmConfig", "Machine"));
        assert!(refuse_machines_of_cluster_api(&checkpoint).is_err());
    }
}
