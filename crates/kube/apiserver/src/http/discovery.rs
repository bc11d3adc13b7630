//! Discovery: `/api`, `/apis` and below, legacy and aggregated (KEP-3352).

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use axum::body::{Body, Bytes};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::{
    negotiate::wants_aggregated_discovery,
    status::{ApiError, bytes_response, json_response},
};
use crate::{registry::ResourceType, store::Store};

/// A kind whose requests are answered but not stored.
pub(crate) struct Review {
    pub(crate) group: &'static str,
    plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
}

static REVIEWS: [Review; 6] = [
    review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    review("authentication.k8s.io", "tokenreviews", "TokenReview"),
    Review {
        namespaced: true,
        ..review(
            "authorization.k8s.io",
            "localsubjectaccessreviews",
            "LocalSubjectAccessReview",
        )
    },
    review(
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    ),
    review(
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
    ),
    review(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
    ),
];

const fn review(group: &'static str, plural: &'static str, kind: &'static str) -> Review {
    Review {
        group,
        plural,
        kind,
        namespaced: false,
    }
}

/// The kind of a review by its group and plural.
pub(crate) fn review_named(group: &str, plural: &str) -> Option<&'static Review> {
    REVIEWS
        .iter()
        .find(|review| review.group == group && review.plural == plural)
}

/// Answers a discovery path; none for any other path.
pub(crate) fn answer(store: &Store, path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let aggregated = wants_aggregated_discovery(headers);
    let value = match segments.as_slice() {
        ["api"] if aggregated => return Some(aggregated_response(store, true)),
        ["apis"] if aggregated => return Some(aggregated_response(store, false)),
        ["api"] => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }),
        ["apis"] => json!({
            "kind": "APIGroupList", "apiVersion": "v1",
            "groups": groups(store).iter().filter(|(name, _)| !name.is_empty()).map(|(name, kinds)| group(name, kinds))
                .collect::<Vec<_>>(),
        }),
        ["api", version] => return Some(resource_list(&groups(store), "", version)),
        ["apis", name] => match groups(store).get(*name) {
            Some(kinds) if !name.is_empty() => {
                let mut value = group(name, kinds);
                value["kind"] = "APIGroup".into();
                value["apiVersion"] = "v1".into();
                value
            }
            _ => return Some(ApiError::unknown_path().response()),
        },
        ["apis", name, version] => return Some(resource_list(&groups(store), name, version)),
        _ => return None,
    };
    Some(json_response(StatusCode::OK, &value))
}

type Groups = BTreeMap<String, Vec<Arc<ResourceType>>>;

fn groups(store: &Store) -> Groups {
    let mut groups = Groups::new();
    for kind in store.resource_types() {
        groups.entry(kind.group.clone()).or_default().push(kind);
    }
    for review in &REVIEWS {
        groups.entry(review.group.to_owned()).or_default();
    }
    groups
}

/// A group's versions. A group without stored kinds has the reviews, all of them v1.
fn versions(kinds: &[Arc<ResourceType>]) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for version in kinds.iter().flat_map(|kind| &kind.versions) {
        if !versions.contains(version) {
            versions.push(version.clone());
        }
    }
    if versions.is_empty() {
        versions.push("v1".to_owned());
    }
    versions
}

fn group(name: &str, kinds: &[Arc<ResourceType>]) -> Value {
    let versions: Vec<_> = versions(kinds)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions[0]})
}

/// Subresources, each with the kind of its bodies.
fn subresources<'k>(kind: &'k ResourceType, version: &str) -> Vec<(&'k str, Value, &'static [&'static str])> {
    let own = |verbs| {
        (
            json!({"group": kind.group, "kind": kind.kind, "version": version}),
            verbs,
        )
    };
    let mut all = Vec::new();
    if kind.status {
        let (response, verbs) = own(&["get", "patch", "update"][..]);
        all.push(("status", response, verbs));
    }
    for &name in &kind.subresources {
        let (response, verbs): (Value, &'static [&'static str]) = match name {
            "scale" => (
                json!({"group": "autoscaling", "kind": "Scale", "version": "v1"}),
                &["get", "patch", "update"],
            ),
            "eviction" => (
                json!({"group": "policy", "kind": "Eviction", "version": "v1"}),
                &["create"],
            ),
            "binding" => (
                json!({"group": "", "kind": "Binding", "version": "v1"}),
                &["create"],
            ),
            "portforward" => (
                json!({"group": "", "kind": "PodPortForwardOptions", "version": "v1"}),
                &["create", "get"],
            ),
            "approval" => own(&["get", "patch", "update"][..]),
            _ => own(&["get"][..]),
        };
        all.push((name, response, verbs));
    }
    all
}

fn resource_list(groups: &Groups, name: &str, version: &str) -> Response<Body> {
    let Some(kinds) = groups.get(name) else {
        return ApiError::unknown_path().response();
    };
    if !versions(kinds).iter().any(|served| served == version) {
        return ApiError::unknown_path().response();
    }
    let mut resources = Vec::new();
    for kind in kinds
        .iter()
        .filter(|kind| kind.versions.iter().any(|served| served == version))
    {
        let mut entry = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
            "verbs": kind.verbs,
        });
        if !kind.short_names.is_empty() {
            entry["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            entry["categories"] = json!(kind.categories);
        }
        resources.push(entry);
        for (subresource, response, verbs) in subresources(kind, version) {
            resources.push(json!({
                "name": format!("{}/{subresource}", kind.plural), "singularName": "",
                "namespaced": kind.namespaced, "kind": response["kind"], "group": response["group"],
                "version": response["version"], "verbs": verbs,
            }));
        }
    }
    for Review {
        plural,
        kind,
        namespaced,
        ..
    } in REVIEWS.iter().filter(|review| review.group == name)
    {
        resources.push(json!({
            "name": plural, "singularName": kind.to_lowercase(), "namespaced": namespaced, "kind": kind,
            "verbs": ["create"],
        }));
    }
    let group_version = if name.is_empty() {
        version.to_owned()
    } else {
        format!("{name}/{version}")
    };
    json_response(
        StatusCode::OK,
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

/// The core group or all others. Every client of a cluster begins with it, and nearly all clusters have the same kinds.
fn aggregated_response(store: &Store, core: bool) -> Response<Body> {
    static BUILT_IN: [OnceLock<Bytes>; 2] = [OnceLock::new(), OnceLock::new()];
    let make = || aggregated(&groups(store), core);
    let body = if store.has_only_built_in_types() {
        BUILT_IN[usize::from(core)].get_or_init(make).clone()
    } else {
        make()
    };
    let mut response = bytes_response(StatusCode::OK, body);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    );
    response
}

fn aggregated(groups: &Groups, core: bool) -> Bytes {
    let items: Vec<_> = groups
        .iter()
        .filter(|(name, _)| name.is_empty() == core)
        .map(|(name, kinds)| {
            let versions: Vec<_> = versions(kinds)
                .iter()
                .map(|version| {
                    json!({"version": version, "freshness": "Current",
                           "resources": aggregated_resources(name, kinds, version)})
                })
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let value = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    Bytes::from(value.to_string())
}

fn aggregated_resources(name: &str, kinds: &[Arc<ResourceType>], version: &str) -> Vec<Value> {
    let stored = kinds
        .iter()
        .filter(|kind| kind.versions.iter().any(|served| served == version))
        .map(|kind| {
            let subresources: Vec<_> = subresources(kind, version)
            .into_iter()
            .map(|(name, response, verbs)| {
                json!({"subresource": name, "responseKind": response, "verbs": verbs})
            })
            .collect();
            let mut entry = json!({
                "resource": kind.plural, "singularResource": kind.singular, "verbs": kind.verbs,
                "responseKind": {"group": kind.group, "version": version, "kind": kind.kind},
                "scope": scope(kind.namespaced),
            });
            if !kind.short_names.is_empty() {
                entry["shortNames"] = json!(kind.short_names);
            }
            if !kind.categories.is_empty() {
                entry["categories"] = json!(kind.categories);
            }
            if !subresources.is_empty() {
                entry["subresources"] = json!(subresources);
            }
            entry
        });
    let reviews = REVIEWS
        .iter()
        .filter(|review| review.group == name)
        .map(|review| {
            let Review {
                group,
                plural,
                kind,
                namespaced,
            } = review;
            json!({
                "resource": plural, "singularResource": kind.to_lowercase(), "scope": scope(*namespaced),
                "verbs": ["create"], "responseKind": {"group": group, "version": "v1", "kind": kind},
            })
        });
    stored.chain(reviews).collect()
}

fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "Cluster" }
}
