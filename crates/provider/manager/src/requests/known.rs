//! The requests that the manager makes by itself.

use super::call::Call;

/// Rules as in the roles of `config`: an API group, its resources, and verbs. These are the roles that a manager needs for
/// itself, in any of its parts; a test compares them. What steps of Scenarios need is in `scenario_role.yaml`, and not here.
const OWN: &[(&str, &[&str], &[&str])] = &[
    ("", &["configmaps"], &["create", "get", "patch"]),
    ("", &["namespaces"], &["get", "list", "watch"]),
    ("", &["secrets"], &["create", "get", "list", "update", "watch"]),
    (
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        READ_AND_PATCH,
    ),
    (
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        READ_AND_PATCH,
    ),
    ("authentication.k8s.io", &["tokenreviews"], &["create"]),
    ("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    (
        "cloud.nephele.dev",
        &["cloudextensionconfigs", "scenarios"],
        READ_AND_PATCH,
    ),
    (
        "cloud.nephele.dev",
        &[
            "cloudextensionconfigs/status",
            "clusterfaults/status",
            "faults/status",
            "scenarios/status",
            "simulatedclouds/status",
        ],
        &["patch"],
    ),
    ("cloud.nephele.dev", &["clusterfaults", "simulatedclouds"], READ),
    (
        "cloud.nephele.dev",
        &["faults"],
        &["create", "delete", "get", "list", "patch", "watch"],
    ),
    ("cluster.x-k8s.io", &["clusters", "machinepools"], READ),
    (
        "cluster.x-k8s.io",
        &["machines"],
        &["delete", "get", "list", "watch"],
    ),
    (
        "controlplane.cluster.x-k8s.io",
        &["kubeadmcontrolplanes"],
        &["get"],
    ),
    ("coordination.k8s.io", &["leases"], &["create", "get", "update"]),
    ("events.k8s.io", &["events"], &["create", "patch"]),
    (
        "infrastructure.cluster.x-k8s.io",
        &["inmemoryclusters", "inmemorymachinepools"],
        READ_AND_PATCH,
    ),
    (
        "infrastructure.cluster.x-k8s.io",
        &["inmemorymachines"],
        &["create", "delete", "get", "list", "patch", "watch"],
    ),
    (
        "infrastructure.cluster.x-k8s.io",
        &["inmemorymachinepooltemplates", "inmemorymachinetemplates"],
        READ,
    ),
    (
        "infrastructure.cluster.x-k8s.io",
        &[
            "inmemoryclusters/status",
            "inmemorymachinepools/status",
            "inmemorymachinepooltemplates/status",
            "inmemorymachines/status",
            "inmemorymachinetemplates/status",
        ],
        &["patch"],
    ),
    (
        "ipam.cluster.x-k8s.io",
        &[
            "globalinclusterippools",
            "globalinclusterprefixpools",
            "inclusterippools",
            "inclusterprefixpools",
        ],
        READ_AND_PATCH,
    ),
    (
        "ipam.cluster.x-k8s.io",
        &[
            "globalinclusterippools/status",
            "globalinclusterprefixpools/status",
            "inclusterippools/status",
            "inclusterprefixpools/status",
        ],
        &["patch", "update"],
    ),
    (
        "ipam.cluster.x-k8s.io",
        &["ipaddressclaims", "ipaddresses"],
        &["create", "delete", "get", "list", "patch", "update", "watch"],
    ),
    (
        "ipam.cluster.x-k8s.io",
        &["ipaddressclaims/status"],
        &["get", "patch", "update"],
    ),
];

const READ: &[&str] = &["get", "list", "watch"];
const READ_AND_PATCH: &[&str] = &["get", "list", "patch", "watch"];

/// Further resources that have a name of their own in metrics: those of steps of Scenarios.
const OF_STEPS: &[(&str, &[&str])] = &[
    (
        "bootstrap.cluster.x-k8s.io",
        &["kubeadmconfigs", "kubeadmconfigtemplates"],
    ),
    (
        "cluster.x-k8s.io",
        &[
            "clusterclasses",
            "machinedeployments",
            "machinedrainrules",
            "machinehealthchecks",
            "machinesets",
        ],
    ),
    ("controlplane.cluster.x-k8s.io", &["kubeadmcontrolplanetemplates"]),
    ("infrastructure.cluster.x-k8s.io", &["inmemoryclustertemplates"]),
];

/// The label of everything else.
const OTHER: &str = "other";

/// Whether the manager uses a resource in any request, those for steps of Scenarios left out.
pub(crate) fn is_known(group: &str, resource: &str) -> bool {
    named().any(|(known, resources)| known == group && resources.contains(&resource))
}

/// Whether a step of a Scenario may be about a resource. The API server says which kinds these groups have.
pub(crate) fn is_of_steps(group: &str, resource: &str) -> bool {
    is_known(group, resource) || nephele_scenario::GROUPS.contains(&group)
}

/// The resources with a name of their own, by group.
fn named() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    OWN.iter()
        .map(|(group, resources, _)| (*group, *resources))
        .chain(OF_STEPS.iter().copied())
}

/// Whether the manager makes this call by itself, whatever users wrote.
pub(crate) fn is_own(call: &Call) -> bool {
    OWN.iter().any(|(group, resources, verbs)| {
        call.group == *group && resources.contains(&call.resource.as_str()) && verbs.contains(&call.verb)
    })
}

/// The group and the resource of a call as labels of a metric, from a fixed set.
pub(crate) fn labels(call: &Call) -> (&'static str, &'static str) {
    let found = named()
        .filter(|(group, _)| call.group == *group)
        .find_map(|(group, resources)| {
            resources
                .iter()
                .find(|resource| call.resource == **resource)
                .map(|resource| (group, *resource))
        });
    found.unwrap_or((OTHER, OTHER))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize as _;
    use serde_json::Value;

    use super::*;

    type Rights = BTreeSet<(String, String, String)>;

    /// The rights of the roles in a file of `config`. Updates of finalizers are for the owners of others' objects, and no
    /// request has them as its path.
    fn rights(file: &str) -> Rights {
        let texts = |value: &Value| -> Vec<String> {
            let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        let mut found = Rights::new();
        for document in serde_yaml_ng::Deserializer::from_str(file) {
            let object = Value::deserialize(document).expect("YAML");
            for rule in object["rules"].as_array().into_iter().flatten() {
                for group in texts(&rule["apiGroups"]) {
                    for resource in texts(&rule["resources"]) {
                        let verbs = texts(&rule["verbs"]).into_iter();
                        found.extend(verbs.map(|verb| (group.clone(), resource.clone(), verb)));
                    }
                }
            }
        }
        found.retain(|(_, resource, _)| !resource.ends_with("/finalizers"));
        found
    }

    macro_rules! files {
        ($($name:literal),+ $(,)?) => { [$(include_str!(concat!("../../../../../config/", $name))),+] };
    }

    #[test]
    fn what_the_manager_does_by_itself_is_what_its_roles_allow() {
        let roles = files![
            "rbac/role.yaml",
            "rbac/leader_election_role.yaml",
            "rbac/cluster_fault_role.yaml",
            "ipam/role.yaml",
            "ipam/leader_election_role.yaml",
            "ipam/cluster_fault_role.yaml",
            "webhook/role.yaml",
            "webhook-infrastructure/role.yaml",
            "runtime-extension/role.yaml",
        ];
        let granted: Rights = roles.into_iter().flat_map(rights).collect();
        let own: Rights = OWN
            .iter()
            .flat_map(|(group, resources, verbs)| {
                resources.iter().flat_map(move |resource| {
                    verbs
                        .iter()
                        .map(move |verb| ((*group).to_owned(), (*resource).to_owned(), (*verb).to_owned()))
                })
            })
            .collect();
        assert_eq!(
            own.difference(&granted).collect::<Vec<_>>(),
            Vec::<&(String, String, String)>::new()
        );
        assert_eq!(
            granted.difference(&own).collect::<Vec<_>>(),
            Vec::<&(String, String, String)>::new()
        );
    }

    #[test]
    fn every_resource_of_the_roles_has_a_label_and_all_others_share_one() {
        let [steps] = files!["rbac/scenario_role.yaml"];
        for (group, resource, _) in rights(steps) {
            let call = Call {
                verb: "get",
                group: group.clone(),
                resource: resource.clone(),
                namespace: None,
            };
            assert_eq!(labels(&call), (group.as_str(), resource.as_str()));
        }
        for (group, resource) in [
            ("evil.example.com", "kubeadmcontrolplanes"),
            ("", "b"),
            ("cluster.x-k8s.io", "x"),
        ] {
            let call = Call {
                verb: "get",
                group: group.into(),
                resource: resource.into(),
                namespace: None,
            };
            assert_eq!((labels(&call), is_own(&call)), ((OTHER, OTHER), false));
        }
        let call = Call {
            verb: "delete",
            group: "cluster.x-k8s.io".into(),
            resource: "clusters".into(),
            namespace: None,
        };
        assert_eq!(
            (labels(&call), is_own(&call)),
            (("cluster.x-k8s.io", "clusters"), false)
        );
    }
}
