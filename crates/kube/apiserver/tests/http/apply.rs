//! Server-side apply of maps and scalars, and who owns what.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use jiff::Timestamp;
use nephele_apiserver::{ApiServer, Authentication, Settings};
use serde_json::{Value, json};

use crate::support::{
    self, apply, apply_text, failure, get, managers, patch, post, request_as, send, server, settings,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

async fn applied(server: &ApiServer, manager: &str, data: Value) -> Value {
    let (code, answer) = apply(server, MAP, manager, map(data)).await;
    assert!(code == 200 || code == 201, "{answer}");
    answer
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

#[tokio::test]
async fn apply_creates_what_is_not_there_and_merges_into_what_is() {
    let server = server();
    let (code, created) = apply(&server, MAP, "one", map(json!({"a": "1"}))).await;
    assert_eq!((code, &created["data"]), (201, &json!({"a": "1"})));
    let entry = json!([{
        "manager": "one", "operation": "Apply", "apiVersion": "v1", "time": support::NOW, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }]);
    assert_eq!(created["metadata"]["managedFields"], entry);
    let (code, merged) = apply(&server, MAP, "two", map(json!({"b": "2"}))).await;
    assert_eq!((code, &merged["data"]), (200, &json!({"a": "1", "b": "2"})));
    assert_eq!(merged["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(
        managers(&merged),
        [
            r#"one Apply {"f:data":{"f:a":{}}}"#,
            r#"two Apply {"f:data":{"f:b":{}}}"#
        ]
    );
    assert_eq!(get(&server, MAP).await, (200, merged));
}

#[tokio::test]
async fn change_of_a_field_that_others_own_is_a_conflict() {
    let server = server();
    applied(&server, "one", json!({"a": "1", "b": "1"})).await;
    let (code, status) = apply(&server, MAP, "two", map(json!({"a": "2"}))).await;
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409, "reason": "Conflict",
        "message": "Apply failed with 1 conflict: conflict with \"one\": .data.a",
        "details": {"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.a"}]},
    });
    assert_eq!((code, status), (409, expected));
    // `kubectl edit` and others update: they are named with their version.
    let (code, _) = patch(
        &server,
        "merge",
        &format!("{MAP}?fieldManager=ed"),
        &json!({"data": {"b": "2"}}),
    )
    .await;
    assert_eq!(code, 200);
    let (_, _, message) = failure(apply(&server, MAP, "two", map(json!({"a": "2", "b": "3"}))).await);
    let expected = "Apply failed with 2 conflicts: conflicts with \"ed\" using v1:\n- .data.b\nconflicts with \"one\":\n- .data.a";
    assert_eq!(message, expected);
    assert_eq!(get(&server, MAP).await.1["data"], json!({"a": "1", "b": "2"}));
}

#[tokio::test]
async fn force_takes_fields_from_their_owners() {
    let server = server();
    applied(&server, "one", json!({"a": "1", "b": "1"})).await;
    let (code, forced) = apply(&server, MAP, "two&force=true", map(json!({"a": "2"}))).await;
    assert_eq!((code, &forced["data"]), (200, &json!({"a": "2", "b": "1"})));
    assert_eq!(
        managers(&forced),
        [
            r#"one Apply {"f:data":{"f:b":{}}}"#,
            r#"two Apply {"f:data":{"f:a":{}}}"#
        ]
    );
    // The former owner gets a conflict now, unless it agrees.
    assert_eq!(
        apply(&server, MAP, "one", map(json!({"a": "1", "b": "1"})))
            .await
            .0,
        409
    );
    let agreed = applied(&server, "one", json!({"a": "2", "b": "1"})).await;
    assert_eq!(
        managers(&agreed)[0],
        r#"one Apply {"f:data":{"f:a":{},"f:b":{}}}"#
    );
}

#[tokio::test]
async fn field_goes_when_its_last_applier_omits_it() {
    let server = server();
    applied(&server, "one", json!({"a": "1", "shared": "x"})).await;
    applied(&server, "two", json!({"shared": "x"})).await;
    let without = applied(&server, "one", json!({})).await;
    assert_eq!(without["data"], json!({"shared": "x"}));
    // An empty map is owned itself, as in the real server.
    assert_eq!(
        managers(&without),
        [
            r#"one Apply {"f:data":{}}"#,
            r#"two Apply {"f:data":{"f:shared":{}}}"#
        ]
    );
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let (_, without) = apply(&server, MAP, "two", bare.clone()).await;
    assert_eq!(without["data"], json!({}));
    let (_, without) = apply(&server, MAP, "one", bare).await;
    assert_eq!((without.get("data"), managers(&without)), (None, vec![]));
}

#[tokio::test]
async fn fields_from_before_the_first_apply_belong_to_a_manager_of_their_own() {
    let server = server();
    let created = post(&server, MAPS, map(json!({"a": "1", "b": "1"}))).await;
    assert_eq!(created["metadata"].get("managedFields"), None);
    let (_, _, message) = failure(apply(&server, MAP, "one", map(json!({"a": "2"}))).await);
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a"
    );
    let both = applied(&server, "one", json!({"a": "1"})).await;
    assert_eq!(
        managers(&both),
        [
            r#"one Apply {"f:data":{"f:a":{}}}"#,
            r#"before-first-apply Update {"f:data":{".":{},"f:a":{},"f:b":{}}}"#
        ]
    );
    // It is no applier, but it keeps what it owns.
    assert_eq!(
        applied(&server, "one", json!({"c": "1"})).await["data"],
        json!({"a": "1", "b": "1", "c": "1"})
    );
}

#[tokio::test]
async fn updates_after_an_apply_move_the_fields_that_they_change() {
    let server = server();
    let mut object = applied(&server, "one", json!({"a": "1", "b": "1", "c": "1"})).await;
    object["data"] = json!({"a": "1", "b": "2", "d": "1"});
    let headers = [("user-agent", "kubectl/v1.36.0 (linux/amd64)")];
    let (_, updated) = request_as(&server, None, "PUT", MAP, &headers, &object).await;
    let expected = [
        r#"one Apply {"f:data":{"f:a":{}}}"#.to_owned(),
        r#"kubectl Update {"f:data":{"f:b":{},"f:d":{}}}"#.to_owned(),
    ];
    assert_eq!(managers(&updated), expected);
    // A client that does not know them does not drop them, nor does one that changes nothing.
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let (_, same) = send(&server, "PUT", MAP, &object).await;
    assert_eq!(same, updated);
    let (_, removed) = patch(
        &server,
        "json",
        MAP,
        &json!([{"op": "remove", "path": "/data/a"}]),
    )
    .await;
    assert_eq!(managers(&removed), [&*expected[1]]);
    let (_, labelled) = patch(
        &server,
        "merge",
        MAP,
        &json!({"metadata": {"labels": {"l": "v"}}}),
    )
    .await;
    assert_eq!(
        managers(&labelled),
        [
            &*expected[1],
            r#"unknown Update {"f:metadata":{"f:labels":{".":{},"f:l":{}}}}"#
        ]
    );
}

#[tokio::test]
async fn client_may_reset_and_change_managers() {
    let server = server();
    let reset = json!({"metadata": {"managedFields": [{}]}});
    for reset in [reset, json!({"metadata": {"managedFields": []}})] {
        let owned = applied(&server, "one", json!({"a": "1"})).await;
        assert_eq!(managers(&owned).len(), 1);
        let (_, object) = patch(&server, "merge", MAP, &reset).await;
        assert_eq!(object["metadata"].get("managedFields"), None);
        assert_eq!(send(&server, "DELETE", MAP, &json!({})).await.0, 200);
    }
    let owned = applied(&server, "one", json!({"a": "1"})).await;
    let mut entry = owned["metadata"]["managedFields"][0].clone();
    entry["manager"] = "renamed".into();
    let rename = json!({"metadata": {"managedFields": [entry]}});
    let (_, renamed) = patch(&server, "merge", MAP, &rename).await;
    assert_eq!(managers(&renamed), [r#"renamed Apply {"f:data":{"f:a":{}}}"#]);
    // What is malformed is as if it had not been sent.
    for (field, value) in [
        ("operation", json!("Delete")),
        ("apiVersion", json!("")),
        ("fieldsType", json!("FieldsV2")),
        ("time", json!("yesterday")),
        ("manager", json!(7)),
        ("fieldsV1", json!({"data": {}})),
        ("fieldsV1", json!([])),
        (
            "fieldsV1",
            (0..120).fold(json!({}), |inner, _| json!({"f:a": inner})),
        ),
    ] {
        let mut malformed = entry.clone();
        malformed[field] = value;
        let body = json!({"metadata": {"managedFields": [malformed]}});
        let (code, answer) = patch(&server, "merge", MAP, &body).await;
        assert_eq!((code, managers(&answer)), (200, managers(&renamed)), "{field}");
    }
}

#[tokio::test]
async fn created_object_with_managers_is_tracked_from_the_beginning() {
    let server = server();
    let owned = applied(&server, "one", json!({"a": "1"})).await;
    assert_eq!(send(&server, "DELETE", MAP, &json!({})).await.0, 200);
    let mut copy = map(json!({"a": "1"}));
    copy["metadata"]["managedFields"] = owned["metadata"]["managedFields"].clone();
    let (_, created) = send(&server, "POST", &format!("{MAPS}?fieldManager=mover"), &copy).await;
    assert_eq!(
        managers(&created),
        [r#"mover Update {"f:data":{".":{},"f:a":{}}}"#]
    );
    // `clusterctl move` writes them again afterwards.
    let restore = json!({"metadata": {"managedFields": owned["metadata"]["managedFields"]}});
    let (_, restored) = patch(&server, "merge", MAP, &restore).await;
    assert_eq!(managers(&restored), managers(&owned));
}

/// A clock that tests turn.
fn server_at(clock: &Arc<AtomicI64>) -> ApiServer {
    let clock = clock.clone();
    let now = move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
    let settings = Settings {
        clock: Arc::new(now),
        ..(*settings(Authentication::AllowAll)).clone()
    };
    ApiServer::new(server().store().clone(), Arc::new(settings))
}

#[tokio::test]
async fn apply_that_changes_nothing_writes_nothing() {
    let clock = Arc::new(AtomicI64::new(1_000_000_000));
    let server = server_at(&clock);
    let mut body = map(json!({"a": "1"}));
    body["metadata"]["creationTimestamp"] = Value::Null;
    let (_, first) = apply(&server, MAP, "one", body.clone()).await;
    clock.store(2_000_000_000, Ordering::Relaxed);
    assert_eq!(
        apply(&server, MAP, "one", body.clone()).await,
        (200, first.clone())
    );
    let (_, second) = apply(&server, MAP, "two", body.clone()).await;
    assert_ne!(version(&second), version(&first));
    let times: Vec<_> = second["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["time"])
        .collect();
    assert_eq!(times, ["2001-09-09T01:46:40Z", "2033-05-18T03:33:20Z"]);
    body["data"]["a"] = "2".into();
    let (_, third) = apply(&server, MAP, "one&force=true", body).await;
    assert_eq!(
        third["metadata"]["managedFields"][0]["time"],
        "2033-05-18T03:33:20Z"
    );
    assert_eq!(managers(&third).len(), 1);
}

#[tokio::test]
async fn dry_run_of_an_apply_answers_and_stores_nothing() {
    let server = server();
    let (code, answer) = apply(&server, MAP, "one&dryRun=All", map(json!({"a": "1"}))).await;
    assert_eq!((code, managers(&answer).len()), (201, 1));
    assert_eq!(get(&server, MAP).await.0, 404);
    let before = applied(&server, "one", json!({"a": "1"})).await;
    let (code, answer) = apply(&server, MAP, "one&dryRun=All", map(json!({"a": "2"}))).await;
    assert_eq!((code, &answer["data"]), (200, &json!({"a": "2"})));
    assert_eq!(get(&server, MAP).await.1, before);
}

#[tokio::test]
async fn yaml_is_applied_as_json_is() {
    let server = server();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: &x \"1\"\n  b: *x\n";
    let (code, object) = apply_text(&server, MAP, "one", yaml).await;
    assert_eq!((code, &object["data"]), (201, &json!({"a": "1", "b": "1"})));
}

#[tokio::test]
async fn bodies_and_parameters_that_make_no_sense_are_refused() {
    let server = server();
    let first = applied(&server, "one", json!({"a": "1"})).await;
    let with = |pointer: &str, value: Value| {
        let mut body = map(json!({"a": "1"}));
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[field] = value;
        body
    };
    for (body, code, message) in [
        (
            with("/metadata/managedFields", json!([])),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            with("/metadata/managedFields", json!([{"manager": "m"}])),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            with("/kind", json!("Secret")),
            400,
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            with("/apiVersion", json!("apps/v1")),
            400,
            "invalid object type: apps/v1, Kind=ConfigMap",
        ),
        (
            with("/apiVersion", Value::Null),
            400,
            "invalid object type: /, Kind=ConfigMap",
        ),
        (
            with("/metadata/name", json!("b")),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            with("/metadata/namespace", json!("b")),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            with("/metadata/resourceVersion", json!("1")),
            409,
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again",
        ),
        (json!([]), 400, "error decoding patch: the body is not an object"),
    ] {
        assert_eq!(failure(apply(&server, MAP, "one", body).await).2, message);
        assert_eq!(apply(&server, MAP, "one", json!([])).await.0, 400, "{code}");
    }
    let (code, _, message) = failure(apply(&server, MAP, "one", with("/metadata/uid", json!("u"))).await);
    let expected = "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable";
    assert_eq!((code, message.as_str()), (422, expected));
    let (code, _, message) = failure(
        apply(
            &server,
            &format!("{MAPS}/c"),
            "one",
            with("/metadata/uid", json!("u")),
        )
        .await,
    );
    let expected = "Operation cannot be fulfilled on configmaps \"c\": uid mismatch: the provided object specified uid u, and no existing object was found";
    assert_eq!((code, message.as_str()), (409, expected));
    for (query, field) in [
        ("", "fieldManager: Required value: is required for apply patch"),
        (
            "a%0A",
            "fieldManager: Invalid value: \"a\\n\": invalid character U+000A (at position 1)",
        ),
        ("a&fieldValidation=x", "fieldValidation: Unsupported value: \"x\""),
    ] {
        let (code, reason, message) = failure(apply(&server, MAP, query, map(json!({}))).await);
        assert_eq!((code, reason.as_str()), (422, "Invalid"));
        let begin = format!("PatchOptions.meta.k8s.io \"\" is invalid: {field}");
        assert!(message.starts_with(&begin), "{message}");
    }
    assert_eq!(apply(&server, MAP, "one&dryRun=x", map(json!({}))).await.0, 400);
    let forced = patch(&server, "merge", &format!("{MAP}?force=true"), &json!({})).await;
    assert!(
        failure(forced)
            .2
            .ends_with("force: Forbidden: may not be specified for non-apply patch")
    );
    for yaml in ["a: [", "text", "a: &a [*a]", "{", ""] {
        assert_eq!(apply_text(&server, MAP, "one", yaml).await.0, 400, "{yaml}");
    }
    assert_eq!(get(&server, MAP).await.1, first);
    // A version that is not there is no precondition for a new object.
    let mut new = with("/metadata/resourceVersion", json!("1"));
    new["metadata"]["name"] = "n".into();
    assert_eq!(apply(&server, &format!("{MAPS}/n"), "one", new).await.0, 201);
    assert_eq!(
        apply(
            &server,
            "/api/v1/namespaces/no/configmaps/a",
            "one",
            map(json!({}))
        )
        .await
        .0,
        404
    );
}

#[tokio::test]
async fn status_is_applied_and_owned_through_its_subresource() {
    let server = server();
    let body = |spec: Value, status: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"l": "v"}},
               "spec": spec, "status": status})
    };
    let status = format!("{DEPLOYMENT}/status");
    let both = body(json!({"replicas": 1}), json!({"replicas": 9}));
    assert_eq!(apply(&server, &status, "one", both.clone()).await.0, 404);
    let (code, main) = apply(&server, DEPLOYMENT, "one", both).await;
    assert_eq!((code, main.get("status")), (201, None));
    let owned = r#"one Apply {"f:metadata":{"f:labels":{"f:l":{}}},"f:spec":{"f:replicas":{}}}"#;
    assert_eq!(managers(&main), [owned]);
    let both = body(json!({"replicas": 5}), json!({"replicas": 3}));
    let (_, with_status) = apply(&server, &status, "one", both.clone()).await;
    assert_eq!(
        (
            &with_status["spec"]["replicas"],
            &with_status["status"]["replicas"]
        ),
        (&json!(1), &json!(3))
    );
    assert_eq!(
        managers(&with_status),
        [owned, r#"one Apply status {"f:status":{"f:replicas":{}}}"#]
    );
    let (_, _, message) =
        failure(apply(&server, &status, "two", body(json!({}), json!({"replicas": 4}))).await);
    let expected =
        "Apply failed with 1 conflict: conflict with \"one\" with subresource \"status\": .status.replicas";
    assert_eq!(message, expected);
    let update = json!({"status": {"replicas": 5}, "spec": {"replicas": 6}});
    let (_, updated) = patch(&server, "merge", &format!("{status}?fieldManager=c"), &update).await;
    assert_eq!(
        managers(&updated),
        [owned, r#"c Update status {"f:status":{"f:replicas":{}}}"#]
    );
    // The main object still has its status.
    let (_, main) = apply(
        &server,
        DEPLOYMENT,
        "one",
        body(json!({"replicas": 2}), json!({"replicas": 0})),
    )
    .await;
    assert_eq!(
        (&main["spec"]["replicas"], &main["status"]["replicas"]),
        (&json!(2), &json!(5))
    );
}

#[tokio::test]
async fn new_node_keeps_the_status_that_is_applied_and_has_no_owner() {
    let server = server();
    let path = "/api/v1/nodes/n";
    let node = |pods: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"providerID": "p"},
               "status": {"capacity": {"pods": pods}}})
    };
    for pods in ["1", "2"] {
        let (_, object) = apply(&server, path, "one", node(pods)).await;
        assert_eq!(object["status"], json!({"capacity": {"pods": "1"}}));
        assert_eq!(managers(&object), [r#"one Apply {"f:spec":{"f:providerID":{}}}"#]);
    }
}

#[tokio::test]
async fn scaling_takes_the_replicas() {
    let server = server();
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}});
    apply(&server, DEPLOYMENT, "one", body.clone()).await;
    let scale = format!("{DEPLOYMENT}/scale?fieldManager=hpa");
    assert_eq!(
        patch(&server, "merge", &scale, &json!({"spec": {"replicas": 4}}))
            .await
            .0,
        200
    );
    assert_eq!(
        managers(&get(&server, DEPLOYMENT).await.1),
        [r#"hpa Update scale {"f:spec":{"f:replicas":{}}}"#]
    );
    let (_, _, message) = failure(apply(&server, DEPLOYMENT, "one", body).await);
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using apps/v1: .spec.replicas"
    );
}

#[tokio::test]
async fn client_side_apply_becomes_server_side_apply_without_conflicts() {
    let server = server();
    let mut before = map(json!({"a": "1", "b": "1"}));
    let last = map(json!({"a": "1"})).to_string();
    before["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    post(&server, MAPS, before).await;
    let next = map(json!({"a": "2"}));
    assert_eq!(apply(&server, MAP, "other", next.clone()).await.0, 409);
    let (code, object) = apply(&server, MAP, "kubectl", next).await;
    assert_eq!((code, &object["data"]), (200, &json!({"a": "2", "b": "1"})));
    assert_eq!(managers(&object)[0], r#"kubectl Apply {"f:data":{"f:a":{}}}"#);
    let annotation = &object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert_eq!(*annotation, map(json!({"a": "2"})).to_string().as_str());
    // The annotation does not have it, so it is a conflict still.
    assert_eq!(
        apply(&server, MAP, "kubectl", map(json!({"a": "2", "b": "2"})))
            .await
            .0,
        409
    );
}

#[tokio::test]
async fn only_the_newest_ten_updates_are_kept_apart() {
    let server = server();
    applied(&server, "one", json!({"a": "1"})).await;
    for index in 10..25 {
        let path = format!("{MAP}?fieldManager=m{index}");
        patch(
            &server,
            "merge",
            &path,
            &json!({"data": {format!("k{index}"): "v"}}),
        )
        .await;
    }
    let owners = managers(&get(&server, MAP).await.1);
    assert_eq!(owners.len(), 11);
    assert!(
        owners[1].starts_with(r#"ancient-changes Update {"f:data":{"f:k10":{},"#),
        "{owners:?}"
    );
}

#[tokio::test]
async fn update_does_not_fail_because_of_its_managers() {
    let server = server();
    let data = (0..2_900)
        .map(|index| (format!("{index:0250}"), json!("v")))
        .collect();
    assert_eq!(
        managers(&applied(&server, "one", Value::Object(data)).await).len(),
        1
    );
    let change = json!({"metadata": {"annotations": {"a": "x".repeat(150_000)}}});
    let (code, answer) = patch(&server, "merge", MAP, &change).await;
    assert_eq!((code, answer["metadata"].get("managedFields")), (200, None));
}

#[tokio::test]
async fn openapi_lists_the_formats_of_patches() {
    let server = server();
    let (_, document) = get(&server, "/openapi/v3/api/v1").await;
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    let formats: Vec<_> = patch["requestBody"]["content"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    let expected = [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ];
    assert_eq!(formats, expected);
    let parameters: Vec<_> = patch["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| &p["name"])
        .collect();
    assert_eq!(parameters, ["dryRun", "fieldManager", "fieldValidation", "force"]);
}
