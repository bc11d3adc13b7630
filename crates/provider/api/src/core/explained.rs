//! What `kubectl explain` says of Cluster API's kinds on a management API without Cluster API.

use serde_json::{Value, json};

/// Where the fields are described.
const FIELDS: &str = "The fields are those of Cluster API, and any are taken here. Cluster API's own definitions describe each: \
                      `nephele up --cluster-api` has them, and so has https://cluster-api.sigs.k8s.io.";

/// A schema that takes any field, and says what the kind is for.
pub(super) fn schema(kind: &str) -> Value {
    let any = |description: &str| json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": description });
    let mut schema = any(&format!("{} {FIELDS}", purpose(kind)));
    schema["properties"] = json!({
        "spec": any(&format!("What is wanted. {FIELDS}")),
        "status": any(&format!("What is observed. {FIELDS}")),
    });
    schema
}

/// What a kind is for, in a sentence.
fn purpose(kind: &str) -> &'static str {
    match kind {
        "Cluster" => {
            "A Kubernetes cluster: its network, and the objects that are its control plane and its infrastructure. With \
             spec.topology, Cluster API makes these objects after a ClusterClass."
        }
        "ClusterClass" => "The templates of clusters that are alike, and the variables in which they differ.",
        "MachineDeployment" => {
            "Worker machines that are alike. It makes a MachineSet for each template, and replaces machines step by step \
             when the template changes."
        }
        "MachineSet" => "Machines with one template: it keeps as many as spec.replicas says.",
        "Machine" => {
            "A machine that becomes a Node. It waits for the bootstrap data, then the infrastructure boots the machine with \
             them, and it shows what both say."
        }
        "MachinePool" => "Machines that the cloud itself keeps, as an instance group.",
        "MachineHealthCheck" => {
            "Which machines of a cluster count as unhealthy, and after how long. Whoever made such a machine replaces it."
        }
        "KubeadmControlPlane" => {
            "The machines of a control plane, with a configuration of kubeadm. It creates, upgrades and replaces them one \
             by one."
        }
        "KubeadmConfig" => "The bootstrap data of one machine, for kubeadm.",
        "KubeadmControlPlaneTemplate" => "The control planes of a ClusterClass.",
        "KubeadmConfigTemplate" => "The bootstrap data of machines that are alike.",
        "IPAddressClaim" => "A claim for an address of a pool.",
        "IPAddress" => "An address that a claim has got.",
        _ => "A kind of Cluster API.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::{loose_class_crds, loose_crds},
        ipam,
    };

    #[test]
    fn each_kind_says_what_it_is_for() {
        let definitions = loose_crds()
            .into_iter()
            .chain(loose_class_crds())
            .chain(ipam::loose_crds());
        for definition in definitions {
            let kind = &definition.spec.names.kind;
            assert_ne!(purpose(kind), purpose(""), "{kind}");
        }
    }
}
