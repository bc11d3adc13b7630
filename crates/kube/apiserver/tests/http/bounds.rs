//! No request of any client ends the process, uses much more memory than the client sent, or keeps the store busy.

use nephele_apiserver::StoreOptions;
use serde_json::{Value, json};

use crate::support::{
    Call, apply, apply_text, call, failure, get, get_as, json_of, managers, patch, post, send, server,
    server_with,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NODES: &str = "/api/v1/nodes";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(plural: &str, columns: &Value) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.x.io")},
        "spec": {"group": "x.io", "scope": "Cluster", "names": {"plural": plural, "kind": "Thing"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": columns,
                               "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    })
}

/// Each round moves the current data into a new object, one level deeper.
#[tokio::test]
async fn patch_cannot_nest_by_moving() {
    let server = server();
    post(
        &server,
        NODES,
        json!({"metadata": {"name": "n"}, "spec": {"a": {}}}),
    )
    .await;
    let mut operations = Vec::new();
    let mut last = "a";
    for _ in 0..5000 {
        let next = if last == "a" { "b" } else { "a" };
        operations.push(json!({"op": "add", "path": format!("/spec/{next}"), "value": {}}));
        operations
            .push(json!({"op": "move", "from": format!("/spec/{last}"), "path": format!("/spec/{next}/x")}));
        last = next;
    }
    let answer = patch(&server, "json", "/api/v1/nodes/n", &Value::Array(operations)).await;
    let (code, reason, message) = failure(answer);
    assert_eq!((code, reason.as_str()), (422, "Invalid"), "{message}");
    assert!(message.contains("deeper than 100 levels"), "{message}");
    assert_eq!(get(&server, "/api/v1/nodes/n").await.1["spec"], json!({"a": {}}));
}

/// Each copy is appended to its own source: sixteen of them make 65,536 levels out of one.
#[tokio::test]
async fn patch_cannot_nest_by_copying() {
    let server = server();
    post(
        &server,
        NODES,
        json!({"metadata": {"name": "n"}, "spec": {"a": {}}}),
    )
    .await;
    let mut end = "/spec/a".to_owned();
    let mut operations = Vec::new();
    for round in 0..16 {
        operations.push(json!({"op": "copy", "from": "/spec/a", "path": format!("{end}/a")}));
        end.push_str(&"/a".repeat(1 << round));
    }
    let (code, _, message) =
        failure(patch(&server, "json", "/api/v1/nodes/n", &Value::Array(operations)).await);
    assert_eq!(code, 422, "{message}");
    assert_eq!(get(&server, "/api/v1/nodes/n").await.1["spec"], json!({"a": {}}));
}

#[tokio::test]
async fn patch_that_fails_on_its_way_changes_nothing() {
    let server = server();
    post(
        &server,
        MAPS,
        json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
    )
    .await;
    let path = format!("{MAPS}/a");
    let operations = json!([
        {"op": "add", "path": "/data/z", "value": {}}, {"op": "move", "from": "/data/z", "path": "/nope/x"},
    ]);
    let (code, reason, _) = failure(patch(&server, "json", &path, &operations).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert_eq!(get(&server, &path).await.1["data"], json!({"k": "v"}));
}

/// Each insertion at the front shifts the whole list.
#[tokio::test]
async fn patch_cannot_keep_the_store_busy_with_a_long_list() {
    let server = server();
    let list: Vec<_> = (0..200_000).map(|_| 0).collect();
    post(
        &server,
        NODES,
        json!({"metadata": {"name": "n"}, "spec": {"list": list}}),
    )
    .await;
    let insert = json!({"op": "add", "path": "/spec/list/0", "value": 1});
    let operations = Value::Array(vec![insert; 10_000]);
    let (code, _, message) = failure(patch(&server, "json", "/api/v1/nodes/n", &operations).await);
    assert_eq!(code, 422, "{message}");
}

#[tokio::test]
async fn patch_of_more_operations_than_a_real_server_takes_is_too_large() {
    let server = server();
    post(&server, NODES, json!({"metadata": {"name": "n"}})).await;
    let operations = Value::Array(vec![
        json!({"op": "test", "path": "/metadata/name", "value": "n"});
        10_001
    ]);
    let answer = failure(patch(&server, "json", "/api/v1/nodes/n", &operations).await);
    let message = "The allowed maximum operations in a JSON patch is 10000, got 10001".to_owned();
    assert_eq!(answer, (413, "RequestEntityTooLarge".to_owned(), message));
}

/// A single request is bounded, and so is the result of many requests.
#[tokio::test]
async fn object_cannot_grow_beyond_what_etcd_takes() {
    let server = server();
    post(&server, NODES, json!({"metadata": {"name": "n"}, "spec": {}})).await;
    let mut codes = Vec::new();
    for index in 0..4 {
        let change = json!({"spec": {format!("k{index}"): "x".repeat(500_000)}});
        codes.push(patch(&server, "merge", "/api/v1/nodes/n", &change).await.0);
    }
    assert_eq!(codes, [200, 200, 200, 413]);
    let big = json!({"metadata": {"name": "b"}, "spec": {"k": "x".repeat(2_000_000)}});
    let (code, reason, _) = failure(send(&server, "POST", NODES, &big).await);
    assert_eq!((code, reason.as_str()), (413, "RequestEntityTooLarge"));
}

/// Each bad element is reported with the rule that it breaks, which is 200 times as long.
#[tokio::test]
async fn refusal_does_not_outgrow_what_it_refuses() {
    let server = server();
    let metadata = json!({"name": "a", "finalizers": vec![0; 300_000]});
    let request = Call {
        method: "POST",
        path: MAPS,
        body: json!({"metadata": metadata}).to_string().into_bytes(),
        ..Call::default()
    };
    let (code, status) = json_of(call(&server, request).await).await;
    assert_eq!(code, 422);
    assert!(
        status.to_string().len() < 100_000,
        "{} bytes",
        status.to_string().len()
    );
    assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(64));
}

/// The JSONPath of a column comes from a client, too.
#[tokio::test]
async fn column_of_a_million_steps_is_read_without_recursion() {
    let server = server();
    for (plural, step) in [
        ("dots", "."),
        ("names", ".a"),
        ("stars", "[*]"),
        ("brackets", "['a']"),
    ] {
        let path = step.repeat(1_000_000 / step.len());
        let columns = json!([{"name": "Deep", "type": "string", "jsonPath": path}]);
        post(&server, DEFINITIONS, definition(plural, &columns)).await;
        let things = format!("/apis/x.io/v1/{plural}");
        post(
            &server,
            &things,
            json!({"metadata": {"name": "t"}, "a": {"a": [[{"a": 1}]]}}),
        )
        .await;
        let (code, table) = get_as(&server, &things, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
        assert_eq!(code, 200);
        // Dots alone name the object itself.
        assert_eq!(
            table["rows"][0]["cells"][1].is_null(),
            plural != "dots",
            "{plural}"
        );
    }
}

/// The sets of fields are a little deeper than the object.
#[tokio::test]
async fn object_of_a_hundred_levels_can_be_applied_and_updated() {
    let server = server();
    let path = &format!("{NODES}/n");
    let node = |levels: usize| {
        let spec = (1..levels).fold(json!(1), |value, _| json!({ "a": value }));
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec})
    };
    assert_eq!(apply(&server, path, "one", node(99)).await.0, 201);
    let (code, status) = apply(&server, path, "two&force=true", node(98)).await;
    assert_eq!((code, managers(&status).len()), (200, 2));
    let (code, object) = patch(
        &server,
        "merge",
        path,
        &json!({"metadata": {"labels": {"l": "v"}}}),
    )
    .await;
    assert_eq!((code, managers(&object).len()), (200, 3));
    let (_, list) = get(&server, NODES).await;
    assert_eq!(list["items"][0]["metadata"], object["metadata"]);
    let (code, _, message) = failure(apply(&server, path, "one", node(100)).await);
    assert_eq!(
        (code, message.contains("deeper than 100 levels")),
        (400, true),
        "{message}"
    );
}

#[tokio::test]
async fn bomb_of_aliases_is_refused() {
    let server = server();
    let yaml = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nx: &x [{}]\ndata: [{}]\n",
        "'0123456789',".repeat(1000),
        "*x,".repeat(100_000)
    );
    assert_eq!(apply_text(&server, &format!("{MAPS}/a"), "m", &yaml).await.0, 400);
}

/// Every element has a step of its own, every pair of versions is compared.
#[tokio::test]
async fn long_lists_are_merged_in_a_time_that_grows_with_their_length() {
    let server = server();
    let path = "/api/v1/namespaces/default/pods/p";
    let pod = |from: usize| {
        let containers: Vec<_> = (from..from + 5_000)
            .rev()
            .map(|index| json!({"name": format!("c{index}")}))
            .collect();
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}})
    };
    assert_eq!(apply(&server, path, "one", pod(0)).await.0, 201);
    let (code, merged) = apply(&server, path, "two", pod(2_500)).await;
    assert_eq!(
        (code, merged["spec"]["containers"].as_array().map(Vec::len)),
        (200, Some(7_500))
    );
}

/// As with a full etcd: what needs more bytes fails, what frees some does not.
#[tokio::test]
async fn clients_store_no_more_than_their_quota_and_can_still_read_and_delete() {
    let server = server_with(StoreOptions {
        bytes_max: 100_000,
        ..StoreOptions::default()
    });
    let map =
        |index: usize| json!({"metadata": {"name": format!("m{index}")}, "data": {"k": "x".repeat(20_000)}});
    let mut codes = Vec::new();
    for index in 0..6 {
        codes.push(send(&server, "POST", MAPS, &map(index)).await.0);
    }
    assert_eq!(codes, [201, 201, 201, 201, 500, 500]);
    let refused = |code, reason: &str, message: &str| (code, reason.to_owned(), message.to_owned());
    let full = refused(500, "InternalError", "etcdserver: mvcc: database space exceeded");
    let path = format!("{MAPS}/m0");
    let grown = json!({"data": {"more": "x".repeat(20_000)}});
    assert_eq!(failure(patch(&server, "merge", &path, &grown).await), full);
    assert_eq!(
        patch(&server, "merge", &path, &json!({"data": {"k": "x"}}))
            .await
            .0,
        200
    );
    assert_eq!(
        get(&server, MAPS).await.1["items"].as_array().map(Vec::len),
        Some(4)
    );
    assert_eq!(
        send(&server, "DELETE", &format!("{MAPS}/m1"), &json!({})).await.0,
        200
    );
    assert_eq!(send(&server, "POST", MAPS, &map(7)).await.0, 201);
    assert!(server.store().bytes() <= 100_000);
}

/// Whatever is done to a store, its count is the sum of its objects.
#[tokio::test]
async fn bytes_of_a_store_are_those_of_its_objects() {
    let server = server();
    let count = || {
        server
            .store()
            .objects()
            .iter()
            .map(|(_, object)| object.bytes.len())
            .sum::<usize>()
    };
    let before = server.store().bytes();
    assert_eq!(before, count());
    for index in 0..20 {
        let body = json!({"metadata": {"name": format!("m{index}"), "finalizers": ["x.io/held"]}, "data": {"k": "v"}});
        post(&server, MAPS, body).await;
    }
    assert_eq!(server.store().bytes(), count());
    send(&server, "DELETE", MAPS, &json!({})).await;
    assert_eq!(server.store().bytes(), count());
    for index in 0..20 {
        let path = format!("{MAPS}/m{index}");
        patch(
            &server,
            "merge",
            &path,
            &json!({"metadata": {"finalizers": null}}),
        )
        .await;
    }
    assert_eq!((server.store().bytes(), before), (count(), count()));
}

/// A field selector and the metadata alone keep nothing of what they skip; a table keeps one object at a time.
#[tokio::test]
async fn no_object_is_stored_whose_parse_takes_too_much() {
    let server = server();
    for (piece, code) in [
        ("{\"\":0}", 413),
        ("[[]]", 413),
        ("0", 413),
        ("\"0123456789012345678901234567890123456789\"", 201),
    ] {
        let list = format!(
            "[{piece}{}]",
            format!(",{piece}").repeat(1_400_000 / (piece.len() + 1))
        );
        let body = format!("{{\"metadata\":{{\"name\":\"a\"}},\"x\":{list}}}");
        let request = Call {
            method: "POST",
            path: MAPS,
            content_type: "application/json",
            body: body.into_bytes(),
            ..Call::default()
        };
        assert_eq!(json_of(call(&server, request).await).await.0, code, "{piece}");
    }
}
