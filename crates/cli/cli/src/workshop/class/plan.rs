//! The people of a class, and the objects that they need. Pure.

use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use nephele_api::{labels, names::is_dns_label};
use serde_json::{Value, json};

/// The label of everything that a class has made, but for what its people make: its name.
pub(super) const LABEL: &str = "cloud.nephele.dev/workshop-class";
/// The service account of each person, in their namespace.
pub(super) const ACCOUNT: &str = "student";
/// The rights of a person in their namespace, as the provider installs them.
pub(super) const TENANT_ROLE: &str = "nephele-system-tenant";
/// The rights of all people in the manager's namespace: the way to its pod.
pub(super) const WAY_ROLE: &str = "nephele-workshop-way";
/// The longest name of a class: the namespaces have a hyphen and three digits more.
const NAME_MAX: usize = 40;

/// Reads the name of a class.
pub(super) fn name(text: &str) -> Result<String, String> {
    match is_dns_label(text) && text.len() <= NAME_MAX {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a name has at most {NAME_MAX} lower case letters, digits and hyphens, and begins and ends without a hyphen"
        )),
    }
}

/// A class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) people: u16,
    /// The namespace of the manager.
    pub(super) manager_namespace: String,
}

/// One of the people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) namespace: String,
}

impl Class {
    /// The people, in their order.
    pub(super) fn everyone(&self) -> Vec<Person> {
        let digits = self.people.to_string().len().max(2);
        let person = |number| Person {
            namespace: format!("{}-{number:0digits$}", self.name),
        };
        (1..=self.people).map(person).collect()
    }

    /// Whether an object is of this class.
    pub(super) fn has(&self, metadata: &ObjectMeta) -> bool {
        labels::value(metadata, LABEL) == Some(&self.name)
    }

    /// The objects that all people share.
    pub(super) fn shared(&self) -> Vec<DynamicObject> {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": WAY_ROLE, "namespace": self.manager_namespace },
            "rules": [
                { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] },
                { "apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create", "get"] },
                { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch"] },
            ],
        });
        vec![object(role)]
    }

    /// The objects of a person, in the order of their creation.
    pub(super) fn of(&self, person: &Person) -> Vec<DynamicObject> {
        let namespace = &person.namespace;
        let label = json!({ LABEL: self.name });
        let subjects = json!([{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace }]);
        let binding = |name: &str, namespace: &str, kind: &str, role: &str| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": { "name": name, "namespace": namespace, "labels": label },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
                "subjects": subjects,
            })
        };
        let objects = [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace, "labels": label } }),
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": { "name": ACCOUNT, "namespace": namespace, "labels": label },
            }),
            binding(ACCOUNT, namespace, "ClusterRole", TENANT_ROLE),
            binding(namespace, &self.manager_namespace, "Role", WAY_ROLE),
        ];
        objects.into_iter().map(object).collect()
    }

    /// What the teacher reads when the class is made.
    pub(super) fn made(&self, folder: &Path, host: &str, until: Option<Timestamp>) -> String {
        let all = self.everyone();
        let name =
            |person: Option<&Person>| person.map(|person| person.namespace.clone()).unwrap_or_default();
        let folder = folder.display();
        let valid = until
            .map(|until| format!(", and are valid until {until:.0}"))
            .unwrap_or_default();
        let mut text = format!(
            "Namespaces {} to {}. Their kubeconfigs and tokens are in {folder}{valid}.\nPrint {folder}/sheet.html: a page for each person.\n",
            name(all.first()),
            name(all.last())
        );
        if is_loopback(host) {
            text += &format!(
                "The address of the API server, {host}, leads to this machine: people on others do not reach it.\n"
            );
        }
        text
    }
}

/// Whether a host of an address is this machine for whoever reads it.
fn is_loopback(host: &str) -> bool {
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("it has a name and types")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(people: u16) -> Class {
        Class {
            name: "monday".into(),
            people,
            manager_namespace: "nephele-system".into(),
        }
    }

    #[test]
    fn people_are_numbered_so_that_lists_are_in_their_order() {
        let names = |people| {
            let all = class(people).everyone();
            (
                all[0].namespace.clone(),
                all[usize::from(people) - 1].namespace.clone(),
            )
        };
        assert_eq!(names(2), ("monday-01".into(), "monday-02".into()));
        assert_eq!(names(100), ("monday-001".into(), "monday-100".into()));
    }

    #[test]
    fn a_person_has_the_rights_of_a_tenant_in_one_namespace_and_the_way_to_the_manager() {
        let class = class(3);
        let person = &class.everyone()[1];
        let bound: Vec<_> = class
            .of(person)
            .iter()
            .filter(|object| {
                object
                    .types
                    .as_ref()
                    .is_some_and(|types| types.kind == "RoleBinding")
            })
            .map(|object| {
                let namespace = object.metadata.namespace.clone().unwrap_or_default();
                (
                    namespace,
                    object.data["roleRef"]["name"].clone(),
                    object.data["subjects"].clone(),
                )
            })
            .collect();
        let subject = json!([{ "kind": "ServiceAccount", "name": "student", "namespace": "monday-02" }]);
        assert_eq!(
            bound,
            [
                ("monday-02".to_owned(), json!(TENANT_ROLE), subject.clone()),
                ("nephele-system".to_owned(), json!(WAY_ROLE), subject),
            ]
        );
        assert!(class.of(person).iter().all(|object| class.has(&object.metadata)));
    }

    #[test]
    fn a_class_has_a_name_that_namespaces_can_begin_with() {
        assert_eq!(name("team-a"), Ok("team-a".into()));
        for bad in ["", "-a", "A", "a/b", "..", &"a".repeat(41)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_teacher_is_told_when_others_cannot_reach_the_server() {
        let told = |host| class(2).made(Path::new("monday"), host, None);
        let usual = "Namespaces monday-01 to monday-02. Their kubeconfigs and tokens are in monday.\n\
                     Print monday/sheet.html: a page for each person.\n";
        assert_eq!(told("cluster.example"), usual);
        let here = "The address of the API server, 127.0.0.1, leads to this machine: people on others do not reach it.\n";
        assert_eq!(told("127.0.0.1"), format!("{usual}{here}"));
        assert!(is_loopback("[::1]") && is_loopback("localhost") && !is_loopback("10.0.0.1"));
    }
}
