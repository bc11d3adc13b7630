//! The components as text, from the files of `config/`, where they can be read and kustomized.
//!
//! clusterctl's rules for the file are in cluster-api, docs/book/src/developer/providers/contracts/clusterctl.md.
//! Nothing here knows of the command line: `cargo xtask release` renders with this same file.

/// Custom resource definitions first: objects are created in the order of the file.
const DEFINITIONS: [&str; 4] = [
    include_str!("../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemoryclusters.yaml"),
    include_str!(
        "../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemoryclustertemplates.yaml"
    ),
    include_str!("../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemorymachines.yaml"),
    include_str!(
        "../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemorymachinetemplates.yaml"
    ),
];
const NAMESPACE: &str = include_str!("../../../../config/default/namespace.yaml");
const OBJECTS: [&str; 5] = [
    include_str!("../../../../config/rbac/service_account.yaml"),
    include_str!("../../../../config/rbac/role.yaml"),
    include_str!("../../../../config/rbac/leader_election_role.yaml"),
    include_str!("../../../../config/rbac/metrics_reader_role.yaml"),
    include_str!("../../../../config/manager/manager.yaml"),
];

/// The released image, which is the one in `config/manager/manager.yaml`.
pub(crate) const IMAGE: &str = concat!("ghcr.io/nephele-dev/nephele:v", env!("CARGO_PKG_VERSION"));

/// The components as YAML documents, with this image.
pub(crate) fn render(image: &str) -> String {
    // clusterctl expands variables in the whole file; in a definition `$` only ever stands for itself.
    let definitions = DEFINITIONS.map(|definition| definition.replace('$', "$$"));
    let documents = std::iter::once(NAMESPACE.to_owned())
        .chain(definitions)
        .chain(OBJECTS.map(|object| object.replace(IMAGE, image)));
    documents.map(|document| format!("---\n{document}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;
    use serde_yaml_ng::{Deserializer, Value};

    use super::*;

    fn objects(image: &str) -> Vec<Value> {
        let text = render(image);
        Deserializer::from_str(&text).map(|document| Value::deserialize(document).expect("YAML")).collect()
    }

    fn text<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
        path.iter().try_fold(object, |value, name| value.get(name))?.as_str()
    }

    fn kind(object: &Value) -> &str {
        text(object, &["kind"]).expect("an object has a kind")
    }

    fn name(object: &Value) -> &str {
        text(object, &["metadata", "name"]).expect("an object has a name")
    }

    #[test]
    fn there_is_one_namespace_and_everything_that_can_be_is_in_it() {
        let cluster_scoped =
            BTreeSet::from(["Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"]);
        let objects = objects(IMAGE);
        assert_eq!(objects.iter().filter(|object| kind(object) == "Namespace").count(), 1);
        for object in &objects {
            let expected = (!cluster_scoped.contains(kind(object))).then_some("nephele-system");
            assert_eq!(text(object, &["metadata", "namespace"]), expected, "{}", name(object));
        }
    }

    #[test]
    fn every_object_says_whose_it_is_and_cluster_scoped_ones_are_found_by_their_names() {
        for object in &objects(IMAGE) {
            let provider = text(object, &["metadata", "labels", "cluster.x-k8s.io/provider"]);
            assert_eq!(provider, Some("infrastructure-in-memory"), "{}", name(object));
            if kind(object).starts_with("ClusterRole") {
                assert!(name(object).starts_with("nephele-system-"), "{}", name(object));
            }
        }
    }

    #[test]
    fn all_definitions_are_there() {
        let objects = objects(IMAGE);
        let definitions =
            objects.iter().filter(|object| kind(object) == "CustomResourceDefinition").map(name);
        let expected: Vec<_> = nephele_api::infrastructure::crds()
            .into_iter()
            .map(|definition| definition.metadata.name.unwrap_or_default())
            .collect();
        assert_eq!(definitions.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_image_is_the_one_asked_for_in_a_container_called_manager() {
        let image = "localhost/nephele:test";
        let objects = objects(image);
        let containers: Vec<_> = objects
            .iter()
            .filter_map(|object| {
                object.get("spec")?.get("template")?.get("spec")?.get("containers")?.as_sequence()
            })
            .flatten()
            .map(|container| (text(container, &["name"]), text(container, &["image"])))
            .collect();
        assert_eq!(containers, [(Some("manager"), Some(image))]);
    }

    #[test]
    fn a_dollar_in_a_definition_survives_the_expansion_of_variables() {
        for definition in DEFINITIONS {
            let rendered = render(IMAGE);
            assert!(rendered.contains(&definition.replace('$', "$$")));
        }
    }
}
