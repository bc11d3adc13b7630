//! What the manager asked of the API server, by its own count, against what its roles let it ask.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::Value;

/// Verb, API group, and plural with its subresource.
pub(crate) type Permission = (String, String, String);

/// What is granted although nobody was seen to use it, and why. The group is left out where the plural says which.
const UNUSED: [(&str, &str, &str); 1] = [("", "", "")];

/// What was asked, by the metrics of one pod.
pub(crate) fn asked(metrics: &str) -> anyhow::Result<BTreeSet<Permission>> {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix("nephele_management_requests_total{"));
    let mut asked = BTreeSet::new();
    for sample in samples {
        let label = |name: &str| -> anyhow::Result<String> {
            let rest = sample.split_once(&format!("{name}=\"")).map(|(_, rest)| rest);
            let value = rest.and_then(|rest| rest.split_once('"')).map(|(value, _)| value.to_owned());
            value.with_context(|| format!("no {name} in {sample}"))
        };
        let permission = (label("verb")?, label("group")?, label("resource")?);
        ensure!(label("permitted")? == "true", "refused: {permission:?}");
        asked.insert(permission);
    }
    ensure!(!asked.is_empty(), "no request was counted");
    Ok(asked)
}

/// What the roles of a list grant.
pub(crate) fn granted(roles: &Value) -> BTreeSet<Permission> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let mut granted = BTreeSet::new();
    let rules = roles["items"].as_array().into_iter().flatten();
    for rule in rules.flat_map(|role| role["rules"].as_array().into_iter().flatten()) {
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

/// Fails where something was asked that is not granted, or granted without having been asked or a reason.
pub(crate) fn compare(asked: &BTreeSet<Permission>, granted: &BTreeSet<Permission>) -> anyhow::Result<()> {
    let missing: Vec<_> = asked.difference(granted).collect();
    ensure!(missing.is_empty(), "asked and not granted: {missing:?}");
    let has_reason = |(verb, _, resource): &&Permission| {
        UNUSED.iter().any(|(verbs, pattern, _)| {
            let fits = pattern.strip_prefix('*').map_or(resource == pattern, |end| resource.ends_with(end));
            fits && verbs.split(' ').any(|one| one == verb)
        })
    };
    let unused: Vec<_> = granted.difference(asked).filter(|permission| !has_reason(permission)).collect();
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
        assert_eq!(asked(metrics).expect("read"), [permission("get", "", "secrets")].into());
        assert!(asked(&metrics.replace("true", "false")).is_err());
        assert!(asked("").is_err());
    }

    #[test]
    fn what_is_missing_and_what_is_too_much_are_both_told() {
        let roles = json!({"items": [{"rules": [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]}]});
        let granted = granted(&roles);
        let both = BTreeSet::from([permission("get", "", "secrets"), permission("list", "", "secrets")]);
        assert_eq!(granted, both);
        assert!(compare(&both, &granted).is_ok());
        let fewer = BTreeSet::from([permission("get", "", "secrets")]);
        for (asked, granted) in [(&fewer, &both), (&both, &fewer)] {
            assert!(compare(asked, granted).is_err());
        }
    }
}
