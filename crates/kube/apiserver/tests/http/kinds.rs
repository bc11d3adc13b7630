//! The kinds that every cluster has, compared with lists that a real server gave.

use std::collections::BTreeSet;

use nephele_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::support::{Watch, failure, get, get_as, patch, post, send, server};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const STORED: &str = "create,delete,deletecollection,get,list,patch,update,watch";

/// Subresources that reach a container or a kubelet, or give tokens. DIFFERENCES.md has them.
const NOT_SERVED: [&str; 9] = [
    "namespaces/finalize",
    "nodes/proxy",
    "pods/attach",
    "pods/ephemeralcontainers",
    "pods/exec",
    "pods/proxy",
    "pods/resize",
    "serviceaccounts/token",
    "services/proxy",
];

fn lines(text: &'static str) -> Vec<&'static str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

/// A list joined by commas, or `-` if it is empty.
fn joined(value: &Value) -> String {
    Some(texts(value).join(","))
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "-".to_owned())
}

fn verbs(value: &Value) -> String {
    let verbs = joined(value);
    if verbs == STORED {
        "stored".to_owned()
    } else {
        verbs
    }
}

fn path(group: &str, version: &str) -> String {
    if group == "core" {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    }
}

/// The kinds of aggregated discovery, in the format of `kinds.txt`.
async fn aggregated(server: &ApiServer) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in ["/api", "/apis"] {
        let (_, list) = get_as(server, root, AGGREGATED).await;
        for group in list["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or("core");
            for version in group["versions"].as_array().unwrap() {
                for kind in version["resources"].as_array().unwrap() {
                    let text = |value: &Value| value.as_str().unwrap().to_owned();
                    let subresources = kind["subresources"].as_array().cloned().unwrap_or_default();
                    let mut names: Vec<_> =
                        subresources.iter().map(|sub| text(&sub["subresource"])).collect();
                    names.sort();
                    let response = &kind["responseKind"];
                    assert_eq!(response["group"], if name == "core" { "" } else { name });
                    assert_eq!(response["version"], version["version"]);
                    let row = [
                        name.to_owned(),
                        text(&version["version"]),
                        text(&kind["resource"]),
                        text(&response["kind"]),
                        text(&kind["singularResource"]),
                        text(&kind["scope"]).to_lowercase(),
                        joined(&kind["shortNames"]),
                        joined(&kind["categories"]),
                        verbs(&kind["verbs"]),
                    ];
                    found.insert(row.into_iter().chain(names).collect::<Vec<_>>().join(" "));
                }
            }
        }
    }
    found
}

/// The kinds of the older discovery, in the same format.
async fn listed(server: &ApiServer) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut versions = vec![("core".to_owned(), "v1".to_owned())];
    for group in get(server, "/apis").await.1["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            versions.push((text(&group["name"]), text(&version["version"])));
        }
    }
    for (group, version) in versions {
        let (_, list) = get(server, &path(&group, &version)).await;
        let kinds = list["resources"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for kind in kinds.iter().filter(|kind| !text(&kind["name"]).contains('/')) {
            let plural = text(&kind["name"]);
            let names = kinds.iter().map(|other| text(&other["name"]));
            let mut subresources: Vec<_> = names
                .filter_map(|name| name.strip_prefix(&format!("{plural}/")).map(str::to_owned))
                .collect();
            subresources.sort();
            let row = [
                group.clone(),
                version.clone(),
                plural,
                text(&kind["kind"]),
                text(&kind["singularName"]),
                if kind["namespaced"] == true {
                    "namespaced"
                } else {
                    "cluster"
                }
                .to_owned(),
                joined(&kind["shortNames"]),
                joined(&kind["categories"]),
                verbs(&kind["verbs"]),
            ];
            found.insert(row.into_iter().chain(subresources).collect::<Vec<_>>().join(" "));
        }
    }
    found
}

#[tokio::test]
async fn discovery_names_what_a_real_server_names() {
    let expected: BTreeSet<_> = lines(include_str!("kinds.txt"))
        .into_iter()
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let served = |index: usize, name: &str| {
                index < 9 || !NOT_SERVED.contains(&format!("{}/{name}", words[2]).as_str())
            };
            let kept = words
                .iter()
                .enumerate()
                .filter(|(index, name)| served(*index, name));
            kept.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
        })
        .collect();
    let server = server();
    assert_eq!(aggregated(&server).await, expected);
    assert_eq!(listed(&server).await, expected);
}

#[tokio::test]
async fn tables_have_the_columns_of_a_real_server() {
    let server = server();
    for line in lines(include_str!("columns.txt")) {
        let (kind, columns) = line.split_once(": ").unwrap();
        let words: Vec<_> = kind.split(' ').collect();
        let (code, table) = get_as(
            &server,
            &format!("{}/{}", path(words[0], words[1]), words[2]),
            TABLE,
        )
        .await;
        assert_eq!((code, &table["kind"]), (200, &json!("Table")), "{kind}");
        let shown: Vec<_> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| {
                let text = |field: &str| column[field].as_str().unwrap();
                let slash = if text("format").is_empty() { "" } else { "/" };
                let wide = if column["priority"] == 0 { "" } else { " wide" };
                format!("{} {}{slash}{}{wide}", text("name"), text("type"), text("format"))
            })
            .collect();
        assert_eq!(shown.join("; "), columns, "{kind}");
    }
}

#[tokio::test]
async fn each_kind_is_created_shown_watched_and_deleted() {
    let server = server();
    for line in lines(include_str!("kinds.txt")) {
        let words: Vec<_> = line.split(' ').collect();
        let [group, version, plural, kind, _, scope, ..] = words[..] else {
            panic!("{line}")
        };
        // Others are answered, or are there already.
        if words[8] != "stored" {
            continue;
        }
        let place = if scope == "namespaced" {
            "/namespaces/default"
        } else {
            ""
        };
        let collection = format!("{}{place}/{plural}", path(group, version));
        let mut watch = Watch::open(&server, &format!("{collection}?watch=true&resourceVersion=0")).await;
        let name = if plural == "customresourcedefinitions" {
            "x.y.io"
        } else {
            "a"
        };
        let mut object = json!({"metadata": {"name": name}});
        if plural == "customresourcedefinitions" {
            object["spec"] = json!({"group": "y.io", "scope": "Cluster", "names": {"plural": "x", "kind": "X"},
                                    "versions": [{"name": "v1", "served": true, "storage": true}]});
        }
        let created = post(&server, &collection, object).await;
        let api_version = if group == "core" {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        assert_eq!(
            (&created["apiVersion"], &created["kind"]),
            (&json!(api_version), &json!(kind)),
            "{line}"
        );
        let object = format!("{collection}/{name}");
        assert_eq!(get(&server, &object).await, (200, created.clone()), "{line}");
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(patch(&server, "merge", &object, &label).await.0, 200, "{line}");
        let (_, list) = get(&server, &format!("{collection}?labelSelector=a%3Db")).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{line}");
        assert_eq!(list["kind"], format!("{kind}List"));
        let (_, table) = get_as(&server, &object, TABLE).await;
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(
            cells.len(),
            table["columnDefinitions"].as_array().unwrap().len(),
            "{line}"
        );
        assert_eq!(
            send(&server, "DELETE", &object, &json!({})).await.0,
            200,
            "{line}"
        );
        assert_eq!(get(&server, &object).await.0, 404, "{line}");
        for expected in ["ADDED", "MODIFIED", "DELETED"] {
            let event = watch.next().await.unwrap();
            let seen = (
                &event["type"],
                &event["object"]["kind"],
                &event["object"]["apiVersion"],
            );
            assert_eq!(
                seen,
                (&json!(expected), &json!(kind), &json!(api_version)),
                "{line}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_answered_is_not_stored() {
    let server = server();
    let (code, list) = get(&server, "/api/v1/componentstatuses").await;
    assert_eq!(
        (code, &list["kind"], &list["items"]),
        (200, &json!("ComponentStatusList"), &json!([]))
    );
    assert_eq!(get(&server, "/api/v1/componentstatuses/etcd-0").await.0, 404);
    for (method, path) in [
        ("GET", "/api/v1/componentstatuses?watch=true"),
        ("POST", "/api/v1/componentstatuses"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/api/v1/namespaces/default/bindings"),
    ] {
        assert_eq!(
            send(&server, method, path, &json!({})).await.0,
            405,
            "{method} {path}"
        );
    }
    let review = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = post(&server, review, json!({"spec": {"token": "abc"}})).await;
    assert_eq!(
        answer["status"],
        json!({"authenticated": false, "error": "invalid bearer token"})
    );
    let reviews = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    assert_eq!(
        post(&server, reviews, json!({"spec": {}})).await["status"],
        json!({"allowed": true})
    );
}

#[tokio::test]
async fn a_binding_may_be_sent_to_its_own_collection() {
    let server = server();
    let pods = "/api/v1/namespaces/default/pods";
    post(&server, pods, json!({"metadata": {"name": "p"}})).await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    post(&server, "/api/v1/namespaces/default/bindings", binding).await;
    assert_eq!(
        get(&server, &format!("{pods}/p")).await.1["spec"]["nodeName"],
        "n"
    );
}

#[tokio::test]
async fn an_autoscaler_has_its_target_in_both_versions() {
    let server = server();
    let of =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let v1 = json!({"metadata": {"name": "a"},
                    "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70}});
    let created = post(&server, &of("v1"), v1.clone()).await;
    assert_eq!(
        (&created["apiVersion"], &created["spec"]),
        (&json!("autoscaling/v1"), &v1["spec"])
    );
    let (_, stored) = get(&server, &format!("{}/a", of("v2"))).await;
    let utilization = json!({"type": "Utilization", "averageUtilization": 70});
    let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}]);
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]),
        (
            &json!("autoscaling/v2"),
            &json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": metrics})
        )
    );
    let (_, patched) = patch(
        &server,
        "merge",
        &format!("{}/a", of("v1")),
        &json!({"spec": {"targetCPUUtilizationPercentage": 50}}),
    )
    .await;
    assert_eq!(patched["spec"]["targetCPUUtilizationPercentage"], 50);
    for version in ["v1", "v2"] {
        let (_, table) = get_as(&server, &format!("{}/a", of(version)), TABLE).await;
        assert_eq!(
            table["rows"][0]["cells"].as_array().unwrap()[1..6],
            [
                json!("Deployment/d"),
                json!("cpu: <unknown>/50%"),
                json!("1"),
                json!(3),
                json!(0)
            ]
        );
    }
}

#[tokio::test]
async fn certificates_are_approved() {
    let server = server();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let signer = "kubernetes.io/kube-apiserver-client";
    let mut request = post(
        &server,
        requests,
        json!({"metadata": {"name": "a"}, "spec": {"signerName": signer, "usages": ["client auth"]}}),
    )
    .await;
    request["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    let (code, approved) = send(&server, "PUT", &format!("{requests}/a/approval"), &request).await;
    assert_eq!((code, &approved["status"]), (200, &request["status"]));
    let (_, table) = get_as(&server, &format!("{requests}/a"), TABLE).await;
    assert_eq!(table["rows"][0]["cells"][5], "Approved");
    let (_, list) = get(&server, &format!("{requests}?fieldSelector=spec.signerName%3Dx")).await;
    assert_eq!(list["items"], json!([]));
}

const FACTS: [(&str, &str); 3] = [
    (
        "/apis/lab.example/v1/namespaces/default/widgets",
        "widgets.lab.example",
    ),
    (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        "poddisruptionbudgets.policy",
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "leases.coordination.k8s.io",
    ),
];

async fn widgets(server: &ApiServer) {
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}});
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec = json!({"group": "lab.example", "scope": "Namespaced", "names": names, "versions": [version]});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(
        server,
        definitions,
        json!({"metadata": {"name": "widgets.lab.example"}, "spec": spec}),
    )
    .await;
}

#[tokio::test]
async fn an_update_says_which_version_it_replaces() {
    let server = server();
    widgets(&server).await;
    for (collection, name) in FACTS {
        let mut object = post(&server, collection, json!({"metadata": {"name": "a"}})).await;
        let version = object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion")
            .unwrap();
        let path = format!("{collection}/a");
        let message = format!(
            "{name} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        );
        let refused = (422, "Invalid".to_owned(), message);
        assert_eq!(failure(send(&server, "PUT", &path, &object).await), refused);
        let patched = patch(
            &server,
            "merge",
            &path,
            &json!({"metadata": {"resourceVersion": null}}),
        )
        .await;
        assert_eq!(failure(patched), refused);
        object["metadata"]["resourceVersion"] = "0".into();
        assert_eq!(failure(send(&server, "PUT", &path, &object).await), refused);
        object["metadata"]["resourceVersion"] = version;
        assert_eq!(send(&server, "PUT", &path, &object).await.0, 200);
    }
    let status = format!("{}/a/status", FACTS[0].0);
    assert_eq!(
        failure(send(&server, "PUT", &status, &json!({"metadata": {"name": "a"}})).await).0,
        422
    );
    let maps = "/api/v1/namespaces/default/configmaps";
    post(&server, maps, json!({"metadata": {"name": "a"}})).await;
    for metadata in [json!({"name": "a"}), json!({"name": "a", "resourceVersion": "0"})] {
        let map = json!({"metadata": metadata, "data": {"a": "b"}});
        assert_eq!(send(&server, "PUT", &format!("{maps}/a"), &map).await.0, 200);
    }
}

#[tokio::test]
async fn an_update_creates_an_object_of_some_kinds() {
    let server = server();
    for (collection, code) in [
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", 201),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", 201),
        ("/api/v1/namespaces/default/services", 201),
        ("/api/v1/namespaces/default/configmaps", 404),
        ("/apis/apps/v1/namespaces/default/deployments", 404),
    ] {
        let object = json!({"metadata": {"name": "a", "resourceVersion": "5"}});
        assert_eq!(
            send(&server, "PUT", &format!("{collection}/a"), &object).await.0,
            code,
            "{collection}"
        );
        assert_eq!(
            get(&server, &format!("{collection}/a")).await.0,
            if code == 201 { 200 } else { 404 }
        );
    }
    let other = json!({"metadata": {"name": "b", "uid": "of-another"}});
    let (code, reason, _) = failure(send(&server, "PUT", &format!("{}/b", FACTS[2].0), &other).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
}
