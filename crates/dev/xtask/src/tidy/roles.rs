//! Permissions as sets: who may do what on which kinds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Context as _, bail};
use nephele_api::finalizers::HELD;
use serde::Deserialize as _;
use serde_yaml_ng::{Deserializer, Value};

/// The role of the manager for the steps of Scenarios, and that of the people who create them.
const SCENARIO: &str = "nephele-system-scenarios";
const TENANT: &str = "nephele-system-tenant";
/// The roles of the manager.
const MANAGER: [&str; 2] = ["nephele-system-manager", "capi-ipam-in-cluster-system-manager"];

/// A verb on a kind. The kind has its group behind a dot, and a subresource behind a slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    verb: String,
    kind: String,
}

impl Right {
    fn new(verb: &str, resource: &str, group: &str) -> Self {
        let separator = if group.is_empty() { "" } else { "." };
        Self {
            verb: verb.to_owned(),
            kind: format!("{resource}{separator}{group}"),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.kind)
    }
}

/// The rights of each ClusterRole, by name.
type Roles = BTreeMap<String, BTreeSet<Right>>;

/// Fails where roles contradict each other, or what the manager does. `texts` are YAML files.
pub(super) fn check(texts: &[String]) -> anyhow::Result<()> {
    let found = problems(&roles(texts)?)?;
    if found.is_empty() {
        Ok(())
    } else {
        bail!("{}", found.join("; "))
    }
}

fn problems(roles: &Roles) -> anyhow::Result<Vec<String>> {
    let role = |name: &str| {
        roles
            .get(name)
            .with_context(|| format!("there is no ClusterRole {name}"))
    };
    let mut found = Vec::new();
    let more: Vec<_> = role(SCENARIO)?
        .difference(role(TENANT)?)
        .map(Right::to_string)
        .collect();
    if !more.is_empty() {
        found.push(format!(
            "a Scenario may {}, and who creates it may not: {SCENARIO} has to be a part of {TENANT}",
            more.join(", ")
        ));
    }
    let mut manager = BTreeSet::new();
    for name in MANAGER {
        manager.extend(role(name)?);
    }
    for held in HELD {
        // The finalizer is added and removed by a patch of the object, and found by a list.
        for verb in ["list", "patch"] {
            let right = Right::new(verb, held.plural, held.group);
            if !manager.contains(&right) {
                found.push(format!(
                    "{} have a finalizer, but the manager may not {right}",
                    held.plural
                ));
            }
        }
    }
    Ok(found)
}

fn roles(texts: &[String]) -> anyhow::Result<Roles> {
    let mut roles = Roles::new();
    for document in texts.iter().flat_map(|text| Deserializer::from_str(text)) {
        let object = Value::deserialize(document).context("failed to read a role")?;
        if object["kind"] != "ClusterRole" {
            continue;
        }
        let name = object["metadata"]["name"]
            .as_str()
            .context("a role has no name")?;
        let rules = object["rules"].as_sequence().into_iter().flatten();
        roles
            .entry(name.to_owned())
            .or_default()
            .extend(rules.flat_map(rights));
    }
    Ok(roles)
}

/// The rights of a rule. A rule about paths has none.
fn rights(rule: &Value) -> Vec<Right> {
    let texts = |field: &str| -> Vec<&str> {
        rule[field]
            .as_sequence()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    let mut rights = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            rights.extend(
                texts("verbs")
                    .iter()
                    .map(|verb| Right::new(verb, resource, group)),
            );
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, rules: &[(&str, &[&str], &[&str])]) -> String {
        let mut text = format!("---\nkind: ClusterRole\nmetadata: {{name: {name}}}\nrules:\n");
        for (group, resources, verbs) in rules {
            text += &format!(
                "- {{apiGroups: [\"{group}\"], resources: [{}], verbs: [{}]}}\n",
                resources.join(", "),
                verbs.join(", ")
            );
        }
        text
    }

    fn manager() -> String {
        let rules: Vec<_> = HELD.iter().map(|held| (held.group, [held.plural])).collect();
        let rules: Vec<_> = rules
            .iter()
            .map(|(group, plural)| (*group, &plural[..], &["list", "patch"][..]))
            .collect();
        role(MANAGER[0], &rules) + &role(MANAGER[1], &[])
    }

    #[test]
    fn a_scenario_may_do_nothing_that_its_creator_may_not() {
        let tenant = role(TENANT, &[("g", &["a", "b"], &["get", "patch"])]);
        let check = |scenario: String| check(&[tenant.clone(), manager() + &scenario]);
        check(role(
            SCENARIO,
            &[("g", &["a"], &["patch"]), ("g", &["b"], &["get"])],
        ))
        .expect("a part");
        for (group, resource, verb) in [("h", "a", "get"), ("g", "c", "get"), ("g", "a", "delete")] {
            let error = check(role(SCENARIO, &[(group, &[resource], &[verb])])).expect_err("more");
            assert!(
                error
                    .to_string()
                    .contains(&format!("may {verb} {resource}.{group},")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_kind_with_a_finalizer_can_be_patched() {
        let without = manager().replace("scenarios", "others");
        let error = check(&[role(TENANT, &[]), role(SCENARIO, &[]), without]).expect_err("no permission");
        assert!(
            error
                .to_string()
                .contains("the manager may not patch scenarios.cloud.nephele.dev"),
            "{error}"
        );
    }
}
