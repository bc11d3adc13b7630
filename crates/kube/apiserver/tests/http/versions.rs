//! A custom kind whose versions have different fields.

use nephele_apiserver::{ApiServer, Conversion, StoreOptions};
use serde_json::{Value, json};

use crate::support::{Watch, apply, failure, get, get_as, managers, patch, post, send, server_with};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OLD: &str = "/apis/x.io/v1beta1/things";
const NEW: &str = "/apis/x.io/v1/things";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// `spec.count` of v1beta1 is `spec.size` of v1. A broken object cannot be converted.
fn convert(object: &Value, api_version: &str) -> Result<Value, String> {
    let mut object = object.clone();
    if object["spec"]["broken"] == true {
        return Err("it is broken".to_owned());
    }
    let (from, to) = if api_version == "x.io/v1" {
        ("count", "size")
    } else {
        ("size", "count")
    };
    if let Some(spec) = object["spec"].as_object_mut()
        && let Some(value) = spec.remove(from)
    {
        spec.insert(to.to_owned(), value);
    }
    object["apiVersion"] = api_version.into();
    Ok(object)
}

/// A server with such a kind, whose definition has a webhook.
async fn server() -> ApiServer {
    let conversions = [("x.io".to_owned(), Conversion(convert))].into();
    let server = server_with(StoreOptions {
        conversions,
        ..StoreOptions::default()
    });
    let version = |name: &str, storage: bool| {
        let column = json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size"});
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
               "additionalPrinterColumns": [column]})
    };
    let definition = json!({
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true), version("v1beta1", false)],
            "conversion": {"strategy": "Webhook"},
        },
    });
    post(&server, DEFINITIONS, definition).await;
    server
}

fn thing(version: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("x.io/{version}"), "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
}

#[tokio::test]
async fn each_request_sees_the_fields_of_its_version() {
    let server = server().await;
    let created = post(&server, OLD, thing("v1beta1", json!({"count": 1, "same": 2}))).await;
    assert_eq!(created["spec"], json!({"count": 1, "same": 2}));
    let of_new = json!({"size": 1, "same": 2});
    assert_eq!(get(&server, &format!("{NEW}/t")).await.1["spec"], of_new);
    assert_eq!(get(&server, NEW).await.1["items"][0]["spec"], of_new);
    assert_eq!(get(&server, OLD).await.1["items"][0], created);
    let mut watch = Watch::open(&server, &format!("{OLD}?watch=true")).await;
    assert_eq!(watch.next().await.expect("an event")["object"], created);

    // Cells are those of the stored version; objects those of the requested one.
    let (_, table) = get_as(&server, &format!("{OLD}?includeObject=Object"), TABLE).await;
    assert_eq!(table["rows"], json!([{"cells": ["t", 1], "object": created}]));

    let (code, patched) = patch(
        &server,
        "merge",
        &format!("{OLD}/t"),
        &json!({"spec": {"count": 5}}),
    )
    .await;
    assert_eq!((code, &patched["spec"]), (200, &json!({"count": 5, "same": 2})));
    assert_eq!(watch.next().await.expect("an event")["object"], patched);
    let test =
        json!([{"op": "test", "path": "/spec/count", "value": 5}, {"op": "remove", "path": "/spec/count"}]);
    assert_eq!(
        patch(&server, "json", &format!("{OLD}/t"), &test).await.1["spec"],
        json!({"same": 2})
    );
    let mut next = get(&server, &format!("{OLD}/t")).await.1;
    next["spec"]["count"] = 6.into();
    assert_eq!(
        send(&server, "PUT", &format!("{OLD}/t"), &next).await.1["spec"],
        json!({"count": 6, "same": 2})
    );
    let (_, seen) = get(&server, &format!("{NEW}/t")).await;
    assert_eq!(
        (&seen["spec"], &seen["metadata"]["generation"]),
        (&json!({"size": 6, "same": 2}), &json!(4))
    );
    let status = json!({"status": {"ready": true}});
    assert_eq!(
        patch(&server, "merge", &format!("{OLD}/t/status"), &status)
            .await
            .1["spec"]["count"],
        6
    );
}

#[tokio::test]
async fn an_object_that_cannot_be_converted_is_refused_or_shown_as_it_is_stored() {
    let server = server().await;
    let broken = json!({"broken": true});
    let refused = failure(send(&server, "POST", OLD, &thing("v1beta1", broken.clone())).await);
    let message = "failed to convert Thing of x.io/v1beta1 to x.io/v1: it is broken";
    assert_eq!(refused, (400, "BadRequest".to_owned(), message.to_owned()));
    post(&server, NEW, thing("v1", broken.clone())).await;
    let (_, list) = get(&server, OLD).await;
    let shown = &list["items"][0];
    assert_eq!(
        (&shown["apiVersion"], &shown["spec"]),
        (&json!("x.io/v1beta1"), &broken)
    );
}

#[tokio::test]
async fn fields_are_owned_across_versions() {
    let server = server().await;
    let old = format!("{OLD}/t");
    let new = format!("{NEW}/t");
    apply(
        &server,
        &old,
        "one",
        thing("v1beta1", json!({"count": 1, "same": 2})),
    )
    .await;
    let conflict = failure(apply(&server, &new, "two", thing("v1", json!({"size": 3}))).await);
    let message = "Apply failed with 1 conflict: conflict with \"one\": .spec.size";
    assert_eq!(conflict, (409, "Conflict".to_owned(), message.to_owned()));
    let (_, both) = apply(&server, &new, "two", thing("v1", json!({"size": 1}))).await;
    let one = r#"one Apply {"f:spec":{".":{},"f:count":{},"f:same":{}}}"#;
    let two = r#"two Apply {"f:spec":{".":{},"f:size":{}}}"#;
    assert_eq!(managers(&both), [one, two]);

    // An update of one version takes a field from the appliers of both.
    let (_, patched) = patch(
        &server,
        "merge",
        &format!("{old}?fieldManager=three"),
        &json!({"spec": {"count": 4}}),
    )
    .await;
    let one = r#"one Apply {"f:spec":{".":{},"f:same":{}}}"#;
    let two = r#"two Apply {"f:spec":{}}"#;
    assert_eq!(
        managers(&patched),
        [one, two, r#"three Update {"f:spec":{"f:count":{}}}"#]
    );

    // An applier that changes to another version loses nothing and keeps nothing.
    let (_, forced) = apply(&server, &new, "one&force=true", thing("v1", json!({"size": 5}))).await;
    assert_eq!(forced["spec"], json!({"size": 5}));
    assert_eq!(
        managers(&forced),
        [r#"one Apply {"f:spec":{".":{},"f:size":{}}}"#, two]
    );
    let (_, gone) = apply(
        &server,
        &old,
        "one",
        json!({"apiVersion": "x.io/v1beta1", "kind": "Thing", "metadata": {"name": "t"}}),
    )
    .await;
    assert_eq!(
        (&gone["spec"], managers(&gone)),
        (&json!({}), vec![two.to_owned()])
    );
}
