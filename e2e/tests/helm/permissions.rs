//! Compares the manager's requests to the API server, by its own metrics, with the permissions in its roles.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use nephele_e2e::samples::Sample;
use serde_json::Value;

/// Verb, API group, and plural with its subresource.
pub(crate) type Permission = (String, String, String);

/// Permissions that are granted although no test needs them: verbs, resources, and the reason. A star matches any
/// beginning or end.
const UNUSED: [(&str, &str, &str); 11] = [
    ("patch update get", "scenarios*", "the test runs no Scenario"),
    (
        "delete patch",
        "faults",
        "no tenant changes the Faults of the ClusterFault, and its selector stays",
    ),
    (
        "update",
        "*/finalizers",
        "an admission plugin checks it for owners; it is not requested",
    ),
    (
        "get update",
        "ipaddressclaims/status",
        "Cluster API's contract of IPAM providers lists it",
    ),
    ("update", "ipaddressclaims", "as above"),
    ("update", "*pools/status", "as above"),
    (
        "update patch",
        "ipaddresses",
        "as above; IPAddresses of other creators are patched",
    ),
    ("update", "secrets", "certificates are renewed after months"),
    ("create patch", "events", "for failures, which do not happen here"),
    (
        "get",
        "namespaces",
        "to match the namespace selectors of extensions that answer",
    ),
    (
        "delete",
        "inmemorymachines",
        "a pool deletes those for which Cluster API has made no Machine",
    ),
];

/// The requests in the metrics of one pod.
pub(crate) fn asked(metrics: &str) -> anyhow::Result<BTreeSet<Permission>> {
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("nephele_management_requests_total{"));
    let mut asked = BTreeSet::new();
    for line in lines {
        let sample = Sample::read(line).with_context(|| format!("failed to read {line}"))?;
        let label = |name: &str| -> anyhow::Result<String> {
            sample
                .find(name)
                .map(str::to_owned)
                .with_context(|| format!("no {name} in {line}"))
        };
        let permission = (label("verb")?, label("group")?, label("resource")?);
        ensure!(label("permitted")? == "true", "refused: {permission:?}");
        asked.insert(permission);
    }
    ensure!(!asked.is_empty(), "no request was counted");
    Ok(asked)
}

/// The permissions that a list of roles grants to a ServiceAccount, by a list of bindings.
pub(crate) fn granted(roles: &Value, bindings: &Value, account: &str) -> BTreeSet<Permission> {
    let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
    let bound: Vec<Value> = items(bindings)
        .into_iter()
        .filter(|binding| {
            let subjects = binding["subjects"].as_array().into_iter().flatten();
            subjects
                .into_iter()
                .any(|subject| subject["kind"] == "ServiceAccount" && subject["name"] == account)
        })
        .map(|binding| binding["roleRef"]["name"].clone())
        .collect();
    let texts = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    let mut granted = BTreeSet::new();
    // Only the steps of Scenarios use the role for Scenarios, and they can be any.
    let is_for_steps = |role: &Value| {
        role["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.ends_with("-scenarios"))
    };
    let roles = items(roles)
        .into_iter()
        .filter(|role| bound.contains(&role["metadata"]["name"]) && !is_for_steps(role));
    for rule in roles.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()) {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    granted.insert((verb, group.clone(), resource.clone()));
                }
            }
        }
    }
    granted
}

/// Fails when a request was not permitted, or a permission was neither used nor explained.
pub(crate) fn compare(asked: &BTreeSet<Permission>, granted: &BTreeSet<Permission>) -> anyhow::Result<()> {
    let missing: Vec<_> = asked.difference(granted).collect();
    ensure!(missing.is_empty(), "asked and not granted: {missing:?}");
    let fits = |pattern: &str, resource: &str| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => resource.ends_with(end),
        (_, Some(start)) => resource.starts_with(start),
        _ => resource == pattern,
    };
    let has_reason = |(verb, group, resource): &&Permission| {
        // A single object is read when the answer to its creation was lost. A client that may list could read it
        // anyway.
        let listed = (verb == "get").then(|| ("list".to_owned(), group.clone(), resource.clone()));
        listed.is_some_and(|list| asked.contains(&list))
            || UNUSED
                .iter()
                .any(|(verbs, pattern, _)| fits(pattern, resource) && verbs.split(' ').any(|one| one == verb))
    };
    let unused: Vec<_> = granted
        .difference(asked)
        .filter(|permission| !has_reason(permission))
        .collect();
    ensure!(unused.is_empty(), "granted and never asked: {unused:#?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn permission(verb: &str, group: &str, resource: &str) -> Permission {
        (verb.to_owned(), group.to_owned(), resource.to_owned())
    }

    #[test]
    fn requests_are_read_from_metrics_and_a_refused_one_is_told() {
        let metrics = "# TYPE nephele_management_requests_total counter\n\
                       nephele_management_requests_total{group=\"\",permitted=\"true\",resource=\"secrets\",verb=\"get\"} 3\n";
        assert_eq!(
            asked(metrics).expect("read"),
            [permission("get", "", "secrets")].into()
        );
        for (text, other) in [("true", "false"), ("verb", "method"), (" 3", " three")] {
            assert!(asked(&metrics.replace(text, other)).is_err(), "{other}");
        }
        assert!(asked("").is_err());
    }

    #[test]
    fn what_is_missing_and_what_is_too_much_are_both_told() {
        let roles = json!({"items": [
            {"metadata": {"name": "manager"}, "rules": [
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "list"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ]},
            {"metadata": {"name": "for-others"}, "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
            ]},
        ]});
        let bindings = json!({"items": [{
            "roleRef": {"name": "manager"}, "subjects": [{"kind": "ServiceAccount", "name": "me"}],
        }]});
        let granted = granted(&roles, &bindings, "me");
        let both = BTreeSet::from([
            permission("create", "", "secrets"),
            permission("list", "", "secrets"),
        ]);
        assert_eq!(granted, both);
        assert!(compare(&both, &granted).is_ok());
        let fewer = BTreeSet::from([permission("list", "", "secrets")]);
        for (asked, granted) in [(&fewer, &both), (&both, &fewer)] {
            assert!(compare(asked, granted).is_err());
        }
        let with_reason: BTreeSet<_> = [
            permission("get", "", "secrets"),
            permission("update", "", "secrets"),
        ]
        .into_iter()
        .chain(fewer.clone())
        .collect();
        assert!(compare(&fewer, &with_reason).is_ok());
    }
}
