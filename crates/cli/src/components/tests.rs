use std::collections::BTreeSet;

use clap::Parser;
use serde::Deserialize;
use serde_yaml_ng::{Deserializer, Value};

use super::*;
use crate::{Cli, args};

fn defaults() -> ComponentsArgs {
    ComponentsArgs { image: IMAGE.to_owned() }
}

fn objects(args: &ComponentsArgs) -> Vec<Value> {
    let text = render(args);
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

fn deployment() -> Value {
    objects(&defaults()).into_iter().find(|object| kind(object) == "Deployment").expect("one Deployment")
}

/// What clusterctl makes of the defaults of variables.
fn expanded(text: &str) -> String {
    let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
    let (variable, after) = rest.split_once('}').expect("a variable ends");
    let (variable, default) = variable.split_once(":=").expect("a variable has a default");
    assert!(variable.starts_with("NEPHELE_") && !default.is_empty(), "{variable}");
    format!("{before}{default}{}", expanded(after))
}

#[test]
fn there_is_one_namespace_and_everything_that_can_be_is_in_it() {
    let cluster_scoped = BTreeSet::from(["Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"]);
    let objects = objects(&defaults());
    assert_eq!(objects.iter().filter(|object| kind(object) == "Namespace").count(), 1);
    for object in &objects {
        let expected = (!cluster_scoped.contains(kind(object))).then_some("nephele-system");
        assert_eq!(text(object, &["metadata", "namespace"]), expected, "{}", name(object));
    }
}

#[test]
fn every_object_says_whose_it_is_and_cluster_scoped_ones_are_found_by_their_names() {
    for object in &objects(&defaults()) {
        let provider = text(object, &["metadata", "labels", "cluster.x-k8s.io/provider"]);
        assert_eq!(provider, Some("infrastructure-in-memory"), "{}", name(object));
        if kind(object).starts_with("ClusterRole") {
            assert!(name(object).starts_with("nephele-system-"), "{}", name(object));
        }
    }
}

#[test]
fn all_definitions_are_there() {
    let objects = objects(&defaults());
    let definitions = objects.iter().filter(|object| kind(object) == "CustomResourceDefinition").map(name);
    let expected = nephele_api::crds();
    assert_eq!(
        definitions.collect::<Vec<_>>(),
        expected.iter().map(|definition| definition.metadata.name.as_deref().unwrap_or_default()).collect::<Vec<_>>()
    );
}

#[test]
fn the_image_is_the_one_asked_for_in_a_container_called_manager() {
    let image = "localhost/nephele:test".to_owned();
    let objects = objects(&ComponentsArgs { image: image.clone() });
    let containers: Vec<_> = objects
        .iter()
        .filter_map(|object| object.get("spec")?.get("template")?.get("spec")?.get("containers")?.as_sequence())
        .flatten()
        .map(|container| (text(container, &["name"]), text(container, &["image"])))
        .collect();
    assert_eq!(containers, [(Some("manager"), Some(image.as_str()))]);
}

#[test]
fn the_deployment_starts_a_manager_that_knows_its_flags() {
    let deployment = deployment();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let words = |name: &str| -> Vec<String> {
        let words = container[name].as_sequence().into_iter().flatten();
        words.map(|word| expanded(word.as_str().expect("text"))).collect()
    };
    let command_line = words("command").into_iter().chain(words("args")).map(Into::into);
    Cli::try_parse_from(args::normalised(command_line)).expect("the manager's own flags");
}

#[test]
fn a_dollar_in_a_definition_survives_the_expansion_of_variables() {
    for definition in DEFINITIONS {
        let rendered = render(&defaults());
        assert!(rendered.contains(&definition.replace('$', "$$")));
    }
}
