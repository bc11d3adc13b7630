//! Creating, reading, updating, patching and deleting over HTTP.

use axum::body::Body;
use http::Response;
use nephele_apiserver::StoreOptions;
use serde_json::{Value, json};

use crate::support::{
    self, Call, call, failure, get, get_as, json_of, patch, pod, post, send, server, server_with,
};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn created_object_is_answered_whole_and_found_again() {
    let server = server();
    let sent = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "v"},
                      "metadata": {"name": "a", "uid": "mine", "creationTimestamp": null}});
    let created = post(&server, MAPS, sent).await;
    let metadata = &created["metadata"];
    assert_ne!(metadata["uid"], "mine");
    assert_eq!(metadata["creationTimestamp"], support::NOW);
    assert_eq!(get(&server, &format!("{MAPS}/a")).await, (200, created));
}

#[tokio::test]
async fn failures_read_as_the_real_servers_do() {
    let server = server();
    post(&server, PODS, pod("a", json!({}))).await;
    let seen = |outcome| failure(outcome);
    let is = |code, reason: &str, message: &str| (code, reason.to_owned(), message.to_owned());
    let missing = format!("{PODS}/b");
    assert_eq!(
        seen(get(&server, &missing).await),
        is(404, "NotFound", "pods \"b\" not found")
    );
    assert_eq!(
        seen(send(&server, "DELETE", &missing, &json!({})).await),
        is(404, "NotFound", "pods \"b\" not found")
    );
    assert_eq!(
        seen(patch(&server, "merge", &missing, &json!({})).await),
        is(404, "NotFound", "pods \"b\" not found")
    );
    assert_eq!(
        seen(send(&server, "POST", PODS, &pod("a", json!({}))).await),
        is(409, "AlreadyExists", "pods \"a\" already exists")
    );
    assert_eq!(
        seen(
            send(
                &server,
                "POST",
                "/api/v1/namespaces/no/pods",
                &pod("a", json!({}))
            )
            .await
        ),
        is(404, "NotFound", "namespaces \"no\" not found")
    );
    let nothing = "the server could not find the requested resource";
    for path in [
        "/apis/example.com/v1/widgets",
        "/api/v1/widgets",
        "/api/v2/pods",
        "/nonsense",
        "/api/v1/nodes/a/exec",
    ] {
        assert_eq!(
            seen(get(&server, path).await),
            is(404, "NotFound", nothing),
            "{path}"
        );
    }
    let method = "the server does not allow this method on the requested resource";
    for (verb, path) in [
        ("POST", "/api/v1/pods"),
        ("PUT", PODS),
        ("POST", "/api/v1/nodes/a"),
        ("PUT", "/version2"),
    ] {
        let outcome = send(&server, verb, path, &json!({})).await;
        assert_eq!(
            seen(outcome),
            is(405, "MethodNotAllowed", method),
            "{verb} {path}"
        );
    }
    let (code, reason, message) =
        seen(send(&server, "POST", PODS, &pod("A", json!({"l": "not valid"}))).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(
        message
            .starts_with("Pod \"A\" is invalid: [metadata.name: Invalid value: \"A\": a lowercase RFC 1123"),
        "{message}"
    );
    assert!(
        message.contains("metadata.labels: Invalid value: \"not valid\""),
        "{message}"
    );
}

#[tokio::test]
async fn details_of_a_failure_say_which_object() {
    let server = server();
    let (_, status) = get(&server, "/apis/apps/v1/namespaces/default/deployments/x").await;
    assert_eq!(
        status["details"],
        json!({"name": "x", "group": "apps", "kind": "deployments"})
    );
    let (_, status) = send(&server, "POST", PODS, &pod("", json!({}))).await;
    let causes = json!([{"reason": "FieldValueRequired", "field": "metadata.name",
                         "message": "Required value: name or generateName is required"}]);
    assert_eq!(status["details"]["causes"], causes);
}

#[tokio::test]
async fn stale_version_is_a_conflict_and_no_version_is_any() {
    let server = server();
    let first = post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
    let path = format!("{MAPS}/a");
    let mut next = first.clone();
    next["data"] = json!({"k": "1"});
    let (code, second) = send(&server, "PUT", &path, &next).await;
    assert_eq!((code, &second["data"]), (200, &json!({"k": "1"})));
    next["data"] = json!({"k": "2"});
    let conflict = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    let expected = (409, "Conflict".to_owned(), conflict.to_owned());
    assert_eq!(failure(send(&server, "PUT", &path, &next).await), expected);
    let stale =
        json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"k": "3"}});
    for kind in ["merge", "strategic-merge"] {
        assert_eq!(
            failure(patch(&server, kind, &path, &stale).await),
            expected,
            "{kind}"
        );
    }
    next["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let (code, third) = send(&server, "PUT", &path, &next).await;
    assert_eq!((code, &third["data"]), (200, &json!({"k": "2"})));
}

#[tokio::test]
async fn each_kind_of_patch_is_applied() {
    let server = server();
    let node = json!({"metadata": {"name": "n"}, "status": {"conditions": [
        {"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]}});
    post(&server, "/api/v1/nodes", node).await;
    let path = "/api/v1/nodes/n";
    let (_, merged) = patch(&server, "merge", path, &json!({"spec": {"unschedulable": true}})).await;
    assert_eq!(merged["spec"]["unschedulable"], true);
    let operations = json!([{"op": "remove", "path": "/spec/unschedulable"}, {"op": "add", "path": "/spec/providerID", "value": "p"}]);
    let (_, patched) = patch(&server, "json", path, &operations).await;
    assert_eq!(patched["spec"], json!({"providerID": "p"}));
    let condition = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let (_, strategic) = patch(&server, "strategic-merge", &format!("{path}/status"), &condition).await;
    assert_eq!(
        strategic["status"]["conditions"],
        json!([{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "False"}])
    );
}

#[tokio::test]
async fn patch_may_not_rename_or_break_an_object() {
    let server = server();
    post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
    let path = format!("{MAPS}/a");
    for body in [
        json!({"metadata": {"name": "b"}}),
        json!({"metadata": {"namespace": "other"}}),
        json!({"metadata": "text"}),
        json!({"kind": "Secret"}),
        json!({"data": {"k": 1}}),
        json!("text"),
        json!([]),
        json!(null),
    ] {
        let (code, _, message) = failure(patch(&server, "merge", &path, &body).await);
        assert_eq!(code, 400, "{body}: {message}");
    }
    // uid, generation and creation time are kept silently, as in the real server.
    let (_, before) = get(&server, &path).await;
    let body =
        json!({"metadata": {"generation": 9, "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "x"}});
    assert_eq!(patch(&server, "merge", &path, &body).await, (200, before));
}

#[tokio::test]
async fn status_has_a_subresource_of_its_own() {
    let server = server();
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1}, "status": {"replicas": 9}});
    let created = post(
        &server,
        "/apis/apps/v1/namespaces/default/deployments",
        deployment,
    )
    .await;
    assert_eq!(created.get("status"), None);
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    let both = json!({"spec": {"replicas": 5}, "status": {"replicas": 3}});
    let (_, main) = patch(&server, "merge", path, &both).await;
    assert_eq!((&main["spec"]["replicas"], main.get("status")), (&json!(5), None));
    let both = json!({"spec": {"replicas": 7}, "status": {"replicas": 3}});
    let (_, status) = patch(&server, "merge", &format!("{path}/status"), &both).await;
    assert_eq!(
        (&status["spec"]["replicas"], &status["status"]["replicas"]),
        (&json!(5), &json!(3))
    );
    assert_eq!(status["metadata"]["generation"], 2);
    assert_eq!(get(&server, &format!("{path}/status")).await, (200, status));
    assert_eq!(get(&server, &format!("{MAPS}/a/status")).await.0, 404);
}

#[tokio::test]
async fn a_new_object_has_a_name_and_no_version() {
    let server = server();
    let created = |metadata: Value| {
        let server = server.clone();
        async move { failure(send(&server, "POST", MAPS, &json!({"metadata": metadata})).await) }
    };
    let version = "resourceVersion should not be set on objects to be created";
    let refused = created(json!({"name": "a", "resourceVersion": "1"})).await;
    assert_eq!(refused, (400, "BadRequest".to_owned(), version.to_owned()));
    let name = "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    for metadata in [
        json!({}),
        json!({"name": ""}),
        json!({"name": "", "generateName": ""}),
    ] {
        assert_eq!(
            created(metadata.clone()).await,
            (422, "Invalid".to_owned(), name.to_owned()),
            "{metadata}"
        );
    }
}

#[tokio::test]
async fn scale_reads_and_writes_replicas() {
    let server = server();
    let deployment =
        json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}});
    post(
        &server,
        "/apis/apps/v1/namespaces/default/deployments",
        deployment,
    )
    .await;
    let path = "/apis/apps/v1/namespaces/default/deployments/d/scale";
    let (_, mut scale) = get(&server, path).await;
    assert_eq!(
        (
            &scale["kind"],
            &scale["spec"]["replicas"],
            &scale["status"]["selector"]
        ),
        (&json!("Scale"), &json!(1), &json!("a=b"))
    );
    scale["spec"]["replicas"] = 4.into();
    assert_eq!(send(&server, "PUT", path, &scale).await.1["spec"]["replicas"], 4);
    assert_eq!(
        send(&server, "PUT", path, &scale).await.0,
        409,
        "the version is stale now"
    );
    assert_eq!(
        patch(&server, "merge", path, &json!({"spec": {"replicas": 2}}))
            .await
            .1["spec"]["replicas"],
        2
    );
    assert_eq!(
        patch(&server, "merge", path, &json!({"spec": {"replicas": -1}}))
            .await
            .0,
        422
    );
    assert_eq!(patch(&server, "merge", path, &json!({"spec": "x"})).await.0, 200);
}

#[tokio::test]
async fn a_patch_with_the_uid_of_another_object_is_invalid() {
    let server = server();
    let path = format!("{MAPS}/a");
    let made = post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
    let own = json!({"metadata": {"uid": made["metadata"]["uid"]}, "data": {"k": "1"}});
    let others = json!({"metadata": {"uid": "other"}, "data": {"k": "2"}});
    assert_eq!(patch(&server, "merge", &path, &own).await.0, 200);
    for kind in ["merge", "strategic-merge"] {
        let (code, status) = patch(&server, kind, &path, &others).await;
        let cause = json!({
            "reason": "FieldValueInvalid",
            "message": "Invalid value: \"other\": field is immutable",
            "field": "metadata.uid",
        });
        assert_eq!(
            (code, &status["details"]["causes"]),
            (422, &json!([cause])),
            "{kind}"
        );
    }
    let stale = json!({"metadata": {"uid": "other", "resourceVersion": "1"}});
    assert_eq!(
        patch(&server, "merge", &path, &stale).await.0,
        409,
        "the version is checked first"
    );
    assert_eq!(get(&server, &path).await.1["data"], json!({"k": "1"}));
}

#[tokio::test]
async fn deletion_answers_a_status_or_the_waiting_object() {
    let server = server();
    let a = post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
    post(
        &server,
        MAPS,
        json!({"metadata": {"name": "b", "finalizers": ["example.com/hold"]}}),
    )
    .await;
    let (code, status) = send(&server, "DELETE", &format!("{MAPS}/a"), &json!({})).await;
    assert_eq!(
        (code, &status["status"], &status["details"]["uid"]),
        (200, &json!("Success"), &a["metadata"]["uid"])
    );
    let wrong = json!({"preconditions": {"uid": "other"}});
    assert_eq!(
        failure(send(&server, "DELETE", &format!("{MAPS}/b"), &wrong).await).0,
        409
    );
    let (code, waiting) = send(&server, "DELETE", &format!("{MAPS}/b"), &json!({})).await;
    assert_eq!(
        (code, &waiting["metadata"]["deletionTimestamp"]),
        (200, &json!(support::NOW))
    );
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        patch(&server, "merge", &format!("{MAPS}/b"), &release).await.0,
        200
    );
    assert_eq!(get(&server, &format!("{MAPS}/b")).await.0, 404);
}

#[tokio::test]
async fn collection_is_deleted_by_selector() {
    let server = server();
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        post(
            &server,
            MAPS,
            json!({"metadata": {"name": name, "labels": {"l": label}}}),
        )
        .await;
    }
    let (code, gone) = send(
        &server,
        "DELETE",
        &format!("{MAPS}?labelSelector=l%3Dx"),
        &json!({}),
    )
    .await;
    assert_eq!((code, names(&gone)), (200, vec!["a".to_owned(), "c".to_owned()]));
    assert_eq!(names(&get(&server, MAPS).await.1), ["b"]);
}

#[tokio::test]
async fn dry_run_answers_and_stores_nothing() {
    let server = server();
    let before = server.store().resource_version();
    assert_eq!(
        send(
            &server,
            "POST",
            &format!("{MAPS}?dryRun=All"),
            &json!({"metadata": {"name": "a"}})
        )
        .await
        .0,
        201
    );
    assert_eq!(get(&server, &format!("{MAPS}/a")).await.0, 404);
    assert_eq!(server.store().resource_version(), before);
    post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
    let (_, patched) = patch(
        &server,
        "merge",
        &format!("{MAPS}/a?dryRun=All"),
        &json!({"data": {"k": "v"}}),
    )
    .await;
    assert_eq!(patched["data"], json!({"k": "v"}));
    assert_eq!(
        send(&server, "DELETE", &format!("{MAPS}/a?dryRun=All"), &json!({}))
            .await
            .0,
        200
    );
    assert_eq!(get(&server, &format!("{MAPS}/a")).await.1.get("data"), None);
    assert_eq!(
        send(&server, "POST", &format!("{MAPS}?dryRun=Some"), &json!({}))
            .await
            .0,
        400
    );
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list has items");
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn lists_select_by_labels_and_fields() {
    let server = server();
    for (name, labels) in [
        ("a", json!({"tier": "web"})),
        ("b", json!({"tier": "db"})),
        ("c", json!({})),
    ] {
        post(&server, PODS, pod(name, labels)).await;
    }
    let binding = json!({"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n1"}});
    post(&server, &format!("{PODS}/b/binding"), binding.clone()).await;
    assert_eq!(
        failure(send(&server, "POST", &format!("{PODS}/b/binding"), &binding).await).0,
        409
    );
    for (query, expected) in [
        ("labelSelector=tier%20in%20(web,db)", vec!["a", "b"]),
        ("labelSelector=%21tier", vec!["c"]),
        ("fieldSelector=spec.nodeName%3Dn1", vec!["b"]),
        ("fieldSelector=metadata.name%3Dc", vec!["c"]),
        (
            "fieldSelector=status.phase%3DPending,spec.nodeName!%3Dn1",
            vec!["a", "c"],
        ),
    ] {
        let (_, list) = get(&server, &format!("/api/v1/pods?{query}")).await;
        assert_eq!(names(&list), expected, "{query}");
    }
    for query in [
        "fieldSelector=spec.volumes%3Dx",
        "labelSelector=a%20b",
        "limit=x",
        "resourceVersion=x",
        "a=%zz",
    ] {
        assert_eq!(
            failure(get(&server, &format!("{PODS}?{query}")).await).0,
            400,
            "{query}"
        );
    }
}

#[tokio::test]
async fn pages_show_one_instant() {
    let server = server();
    for name in ["a", "b", "c", "d", "e"] {
        post(&server, MAPS, json!({"metadata": {"name": name}})).await;
    }
    let (_, first) = get(&server, &format!("{MAPS}?limit=2")).await;
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["a".to_owned(), "b".to_owned()], &json!(3))
    );
    // Later changes do not show.
    send(&server, "DELETE", &format!("{MAPS}/c"), &json!({})).await;
    post(&server, MAPS, json!({"metadata": {"name": "cc"}})).await;
    let token = |page: &Value| page["metadata"]["continue"].as_str().map(str::to_owned);
    let (_, second) = get(
        &server,
        &format!("{MAPS}?limit=2&continue={}", token(&first).unwrap()),
    )
    .await;
    assert_eq!(names(&second), ["c", "d"]);
    let (_, last) = get(
        &server,
        &format!("{MAPS}?limit=2&continue={}", token(&second).unwrap()),
    )
    .await;
    assert_eq!((names(&last), token(&last)), (vec!["e".to_owned()], None));
    assert_eq!(
        last["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert_eq!(
        failure(get(&server, &format!("{MAPS}?continue=nonsense")).await).0,
        400
    );
}

#[tokio::test]
async fn page_too_late_starts_over() {
    let server = server_with(StoreOptions {
        event_log_capacity: 2,
        ..StoreOptions::default()
    });
    for name in ["a", "b"] {
        post(&server, MAPS, json!({"metadata": {"name": name}})).await;
    }
    let (_, first) = get(&server, &format!("{MAPS}?limit=1")).await;
    for name in ["c", "d", "e"] {
        post(&server, MAPS, json!({"metadata": {"name": name}})).await;
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, reason, _) = failure(get(&server, &format!("{MAPS}?limit=1&continue={token}")).await);
    assert_eq!((code, reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn exact_version_is_listed_from_the_past() {
    let server = server();
    let a = post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
    post(&server, MAPS, json!({"metadata": {"name": "b"}})).await;
    let version = a["metadata"]["resourceVersion"].as_str().unwrap();
    let (_, past) = get(
        &server,
        &format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact"),
    )
    .await;
    assert_eq!(names(&past), ["a"]);
    let (_, fresh) = get(
        &server,
        &format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
    )
    .await;
    assert_eq!(names(&fresh), ["a", "b"]);
    let (code, reason, _) = failure(get(&server, &format!("{MAPS}?resourceVersion=999")).await);
    assert_eq!((code, reason.as_str()), (504, "Timeout"));
}

#[tokio::test]
async fn generated_names_differ() {
    let server = server();
    let body = json!({"metadata": {"generateName": "web-"}});
    let first = post(&server, MAPS, body.clone()).await;
    let second = post(&server, MAPS, body).await;
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(
        name(&first).starts_with("web-") && name(&first).len() == 9,
        "{}",
        name(&first)
    );
    assert_ne!(name(&first), name(&second));
}

#[tokio::test]
async fn shapes_are_table_and_metadata() {
    let server = server();
    post(&server, PODS, pod("a", json!({"l": "v"}))).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let (_, list) = get_as(&server, PODS, table).await;
    assert_eq!(
        (&list["kind"], &list["rows"][0]["cells"][0]),
        (&json!("Table"), &json!("a"))
    );
    assert_eq!(list["columnDefinitions"][0]["name"], "Name");
    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let (_, list) = get_as(&server, PODS, metadata).await;
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (
            &json!("PartialObjectMetadataList"),
            &json!("PartialObjectMetadata")
        )
    );
    assert_eq!(
        (
            &list["items"][0]["metadata"]["labels"],
            list["items"][0].get("spec")
        ),
        (&json!({"l": "v"}), None)
    );
    assert_eq!(failure(get_as(&server, PODS, "application/yaml").await).0, 406);
}

#[tokio::test]
async fn budget_lets_one_pod_go_and_holds_the_next() {
    let server = server();
    for name in ["a", "b", "c"] {
        post(&server, PODS, pod(name, json!({"app": "web"}))).await;
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(
            patch(&server, "merge", &format!("{PODS}/{name}/status"), &status)
                .await
                .0,
            200
        );
    }
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
    post(
        &server,
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        budget,
    )
    .await;
    let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "a"}});
    post(&server, &format!("{PODS}/a/eviction"), eviction.clone()).await;
    assert_eq!(get(&server, &format!("{PODS}/a")).await.0, 404);
    assert_eq!(
        failure(send(&server, "POST", &format!("{PODS}/a/eviction"), &eviction).await).0,
        404
    );
    let (code, status) = send(&server, "POST", &format!("{PODS}/b/eviction"), &eviction).await;
    assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")));
    let cause = json!([{"reason": "DisruptionBudget",
                        "message": "The disruption budget web needs 2 healthy pods and has 2 currently"}]);
    assert_eq!(status["details"]["causes"], cause);
    assert_eq!(get(&server, &format!("{PODS}/b")).await.0, 200);
}

#[tokio::test]
async fn events_are_one_collection_under_two_groups() {
    let server = server();
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "a"}, "note": "text", "reason": "Started",
        "type": "Normal", "action": "Start", "reportingController": "c", "reportingInstance": "i",
        "eventTime": "2026-01-02T03:04:05.000000Z",
    });
    let created = post(&server, "/apis/events.k8s.io/v1/namespaces/default/events", event).await;
    assert_eq!(
        (&created["apiVersion"], &created["note"]),
        (&json!("events.k8s.io/v1"), &json!("text"))
    );
    let (_, core) = get(&server, "/api/v1/namespaces/default/events/e").await;
    assert_eq!(
        (
            &core["apiVersion"],
            &core["message"],
            &core["involvedObject"]["name"]
        ),
        (&json!("v1"), &json!("text"), &json!("a"))
    );
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}});
    let (code, patched) = patch(
        &server,
        "merge",
        "/apis/events.k8s.io/v1/namespaces/default/events/e",
        &series,
    )
    .await;
    assert_eq!(
        (code, &patched["series"]["count"], &patched["regarding"]["name"]),
        (200, &json!(2), &json!("a"))
    );
    let (_, list) = get(
        &server,
        "/apis/events.k8s.io/v1/events?fieldSelector=metadata.name%3De",
    )
    .await;
    assert_eq!(
        (names(&list), &list["items"][0]["note"]),
        (vec!["e".to_owned()], &json!("text"))
    );
}

#[tokio::test]
async fn versions_of_a_custom_kind_share_their_objects() {
    let server = server();
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false, "subresources": {"status": {}}},
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
            ],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, definitions, definition).await;
    let old = "/apis/example.com/v1beta1/namespaces/default/widgets";
    let new = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": 1}});
    assert_eq!(
        post(&server, old, widget).await["apiVersion"],
        "example.com/v1beta1"
    );
    let (_, seen) = get(&server, &format!("{new}/w")).await;
    assert_eq!(
        (&seen["apiVersion"], &seen["metadata"]["generation"]),
        (&json!("example.com/v1"), &json!(1))
    );
    let (_, patched) = patch(
        &server,
        "merge",
        &format!("{old}/w"),
        &json!({"metadata": {"labels": {"l": "v"}}}),
    )
    .await;
    assert_eq!(
        (&patched["apiVersion"], &patched["metadata"]["generation"]),
        (&json!("example.com/v1beta1"), &json!(1))
    );
    let (_, list) = get(&server, old).await;
    assert_eq!(
        (&list["kind"], &list["items"][0]["apiVersion"]),
        (&json!("WidgetList"), &json!("example.com/v1beta1"))
    );
    assert_eq!(
        failure(patch(&server, "strategic-merge", &format!("{new}/w"), &json!({})).await).0,
        415
    );
    // A definition that drops a version stops serving it; a deleted definition stops serving its kind.
    let only_new = json!([{"op": "remove", "path": "/spec/versions/0"}]);
    assert_eq!(
        patch(
            &server,
            "json",
            &format!("{definitions}/widgets.example.com"),
            &only_new
        )
        .await
        .0,
        200
    );
    assert_eq!(get(&server, old).await.0, 404);
    assert_eq!(get(&server, &format!("{new}/w")).await.0, 200);
    assert_eq!(
        send(
            &server,
            "DELETE",
            &format!("{definitions}/widgets.example.com"),
            &json!({})
        )
        .await
        .0,
        200
    );
    assert_eq!(get(&server, new).await.0, 404);
}

#[tokio::test]
async fn secret_text_becomes_data() {
    let server = server();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "text"}, "data": {"a": "YQ=="}});
    let created = post(&server, "/api/v1/namespaces/default/secrets", secret).await;
    assert_eq!(
        (&created["type"], created.get("stringData")),
        (&json!("Opaque"), None)
    );
    assert_eq!(created["data"], json!({"a": "YQ==", "k": "dGV4dA=="}));
}

/// The warnings of a response.
fn warnings(response: &Response<Body>) -> Vec<&str> {
    response
        .headers()
        .get_all("warning")
        .iter()
        .map(|text| text.to_str().expect("text"))
        .collect()
}

#[tokio::test]
async fn a_misspelled_field_is_refused_warned_of_or_passed_over() {
    let server = server();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let object = |name: &str| json!({"metadata": {"name": name, "label": {}}, "spec": {"replica": 3}});
    let sent = async |method: &str, path: &str, content_type: &str, body: &Value| {
        let body = body.to_string().into_bytes();
        call(
            &server,
            Call {
                method,
                path,
                content_type,
                body,
                ..Call::default()
            },
        )
        .await
    };
    let json = "application/json";
    let strict = format!("{deployments}?fieldValidation=Strict");
    let refused = failure(json_of(sent("POST", &strict, json, &object("a")).await).await);
    let message = "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: \
                   unknown field \"metadata.label\", unknown field \"spec.replica\"";
    assert_eq!(refused, (400, "BadRequest".to_owned(), message.to_owned()));
    let told = [
        "299 - \"unknown field \\\"metadata.label\\\"\"",
        "299 - \"unknown field \\\"spec.replica\\\"\"",
    ];
    for (validation, name, expected) in [("", "a", &told[..]), ("Warn", "b", &told), ("Ignore", "c", &[])] {
        let path = format!("{deployments}?fieldValidation={validation}");
        let created = sent("POST", &path, json, &object(name)).await;
        assert_eq!(
            (created.status().as_u16(), warnings(&created)),
            (201, expected.to_vec()),
            "{validation}"
        );
    }

    // A custom kind has the fields of its definition.
    let thing = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}, "status": {"type": "object"}}});
    let definition = json!({"metadata": {"name": "things.x.io"}, "spec": {
        "group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                      "schema": {"openAPIV3Schema": thing}}]}});
    post(
        &server,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
    .await;
    let things = "/apis/x.io/v1/namespaces/default/things";
    let thing = json!({"metadata": {"name": "t", "label": {}}, "spec": {"size": 1, "sizes": 2}});
    let refused =
        failure(json_of(sent("POST", &format!("{things}?fieldValidation=Strict"), json, &thing).await).await);
    let message = "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \
                   \"metadata.label\", unknown field \"spec.sizes\"";
    assert_eq!(refused, (400, "BadRequest".to_owned(), message.to_owned()));
    let warned = sent("POST", things, json, &thing).await;
    assert_eq!((warned.status().as_u16(), warnings(&warned).len()), (201, 2));
    let path = format!("{things}/t/status?fieldValidation=Strict");
    let merge = "application/merge-patch+json";
    let refused = sent("PATCH", &path, merge, &json!({"status": {"phase": "x"}})).await;
    assert_eq!(refused.status().as_u16(), 422);

    // What is there already is in the way of no patch.
    let one = format!("{deployments}/a?fieldValidation=Strict");
    let patched = sent("PATCH", &one, merge, &json!({"spec": {"replicas": 2}})).await;
    assert_eq!((patched.status().as_u16(), warnings(&patched)), (200, vec![]));
    for content_type in [merge, "application/strategic-merge-patch+json"] {
        let refused = failure(
            json_of(sent("PATCH", &one, content_type, &json!({"spec": {"pausd": true}})).await).await,
        );
        let message = " \"\" is invalid: patch: Invalid value: \"{\\\"spec\\\":{\\\"pausd\\\":true}}\": strict decoding \
                       error: unknown field \"spec.pausd\"";
        assert_eq!(
            refused,
            (422, "Invalid".to_owned(), message.to_owned()),
            "{content_type}"
        );
    }
    let replaced = sent("PUT", &one, json, &object("a")).await;
    assert_eq!(replaced.status().as_u16(), 400);
}
