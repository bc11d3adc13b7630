use std::thread::{self, ThreadId};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use super::*;
use crate::admission::Cause;

/// A kind that this crate does not know.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
struct Widget {
    size: i64,
}

fn webhook() -> Webhook {
    Webhook::new()
        .validate(
            "/validate",
            async |request: AdmissionRequest<Widget>| match request.change {
                Change::Create(widget) if widget.size < 0 => Err(Denial::invalid(
                    "example.org",
                    "Widget",
                    &request.name,
                    vec![Cause {
                        field: "spec.size".into(),
                        message: "Invalid value: -1: must be positive".into(),
                    }],
                )),
                Change::Create(widget) if widget.size > 9 => Ok(vec!["that is large".to_owned()]),
                Change::Update { old, new } if new.size < old.size => {
                    Err(Denial::bad_request("it cannot shrink"))
                }
                Change::Delete(widget) if widget.size == 7 => panic!("seven"),
                Change::Delete(widget) if widget.size == 8 => std::future::pending().await,
                _ => Ok(Vec::new()),
            },
        )
        .mutate("/mutate", |_, widget| {
            if widget["size"] == 0 {
                widget["size"] = 64.into();
            }
        })
        .convert("example.org", |mut object: Value, version: &str| {
            if object["size"] == 7 {
                panic!("seven");
            }
            if object["size"] == 8 {
                return Err("eight does not convert");
            }
            object["apiVersion"] = version.into();
            Ok(object)
        })
}

fn review(operation: &str, object: &Value, old_object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": { "group": "example.org", "version": "v1", "kind": "Widget" },
            "operation": operation, "name": "w", "namespace": "default",
            "userInfo": { "username": "alice", "groups": ["people"] },
            "object": object, "oldObject": old_object, "dryRun": false, "options": null,
        },
    })
}

async fn call(path: &str, body: &[u8]) -> Reply {
    webhook()
        .at(path)
        .expect("a handler")
        .call(call_of(body.to_vec()))
        .await
}

fn call_of(body: Vec<u8>) -> Call {
    Call {
        body: body.into(),
        peer: Owner::unique(),
        turns: Turns::default(),
    }
}

fn answer_of(reply: &Reply) -> Value {
    match &reply.body {
        Body::Review(answer) => answer.clone(),
        Body::Written(answer) => serde_json::from_slice(answer).expect("JSON"),
        Body::Text(text) => panic!("no review: {text}"),
    }
}

async fn response(path: &str, review: &Value) -> (Outcome, Value) {
    let reply = call(path, &serde_json::to_vec(review).expect("JSON")).await;
    assert_eq!(reply.code, StatusCode::OK);
    let answer = answer_of(&reply);
    assert_eq!(answer["apiVersion"], review["apiVersion"]);
    assert_eq!(answer["kind"], review["kind"]);
    (reply.outcome, answer["response"].clone())
}

#[tokio::test]
async fn a_request_is_allowed_with_or_without_warnings() {
    let silent = response(
        "/validate",
        &review("CREATE", &json!({ "size": 1 }), &Value::Null),
    )
    .await;
    assert_eq!(
        silent,
        (Outcome::Allowed, json!({ "uid": "u-1", "allowed": true }))
    );
    let warned = response(
        "/validate",
        &review("CREATE", &json!({ "size": 10 }), &Value::Null),
    )
    .await;
    let expected = json!({ "uid": "u-1", "allowed": true, "warnings": ["that is large"] });
    assert_eq!(warned, (Outcome::Allowed, expected));
}

#[tokio::test]
async fn a_denial_says_which_fields_and_why() {
    let denied = response(
        "/validate",
        &review("CREATE", &json!({ "size": -1 }), &Value::Null),
    )
    .await;
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {},
        "status": "Failure", "code": 422, "reason": "Invalid",
        "message": r#"Widget.example.org "w" is invalid: spec.size: Invalid value: -1: must be positive"#,
        "details": {
            "group": "example.org", "kind": "Widget", "name": "w",
            "causes": [{
                "reason": "FieldValueInvalid", "field": "spec.size",
                "message": "Invalid value: -1: must be positive",
            }],
        },
    });
    let expected = json!({ "uid": "u-1", "allowed": false, "status": status });
    assert_eq!(denied, (Outcome::Denied, expected));
    let (outcome, shrunk) = response(
        "/validate",
        &review("UPDATE", &json!({ "size": 1 }), &json!({ "size": 2 })),
    )
    .await;
    assert_eq!(outcome, Outcome::Denied);
    assert_eq!(
        (&shrunk["status"]["code"], &shrunk["status"]["message"]),
        (&json!(400), &json!("it cannot shrink"))
    );
}

#[tokio::test]
async fn a_handler_that_panics_denies_its_own_request() {
    let (outcome, answer) = response(
        "/validate",
        &review("DELETE", &Value::Null, &json!({ "size": 7 })),
    )
    .await;
    assert_eq!(outcome, Outcome::Panicked);
    assert_eq!(
        (&answer["allowed"], &answer["status"]["code"]),
        (&json!(false), &json!(500))
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_denies_before_the_api_server_gives_up() {
    let started = tokio::time::Instant::now();
    let (outcome, answer) = response(
        "/validate",
        &review("DELETE", &Value::Null, &json!({ "size": 8 })),
    )
    .await;
    assert_eq!(outcome, Outcome::TimedOut);
    assert_eq!(answer["status"]["message"], "failed to decide within 9 s");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_denied() {
    for request in [
        review("CREATE", &json!({ "size": "large" }), &Value::Null),
        review("CREATE", &Value::Null, &Value::Null),
        review("UPDATE", &json!({ "size": 1 }), &Value::Null),
        review("CONNECT", &json!({ "size": 1 }), &Value::Null),
    ] {
        let (outcome, answer) = response("/validate", &request).await;
        assert_eq!(
            (outcome, &answer["status"]["code"]),
            (Outcome::Denied, &json!(400)),
            "{request}"
        );
    }
}

#[tokio::test]
async fn what_is_no_review_is_answered_with_400() {
    let conversion = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": { "uid": "u", "desiredAPIVersion": "v2", "objects": [] },
    });
    let mut without_uid = review("CREATE", &json!({}), &Value::Null);
    without_uid["request"]["uid"] = json!("");
    let mut old = review("CREATE", &json!({}), &Value::Null);
    old["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let not_reviews = [
        "".to_owned(),
        "{".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        old.to_string(),
    ];
    for body in not_reviews
        .iter()
        .chain(&[conversion.to_string(), without_uid.to_string()])
    {
        let reply = call("/validate", body.as_bytes()).await;
        assert_eq!(
            (reply.code, reply.outcome),
            (StatusCode::BAD_REQUEST, Outcome::Malformed),
            "{body}"
        );
    }
    for body in not_reviews
        .iter()
        .chain(&[review("CREATE", &json!({}), &Value::Null).to_string()])
    {
        let reply = call("/convert", body.as_bytes()).await;
        assert_eq!(
            (reply.code, reply.outcome),
            (StatusCode::BAD_REQUEST, Outcome::Malformed),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_change_is_answered_as_a_patch() {
    let decoded = |answer: &Value| -> Value {
        let patch = STANDARD
            .decode(answer["patch"].as_str().expect("a patch"))
            .expect("base64");
        serde_json::from_slice(&patch).expect("JSON")
    };
    let (_, changed) = response("/mutate", &review("CREATE", &json!({ "size": 0 }), &Value::Null)).await;
    assert_eq!(
        (&changed["allowed"], &changed["patchType"]),
        (&json!(true), &json!("JSONPatch"))
    );
    assert_eq!(
        decoded(&changed),
        json!([{ "op": "replace", "path": "/size", "value": 64 }])
    );
    let same = response(
        "/mutate",
        &review("UPDATE", &json!({ "size": 1 }), &json!({ "size": 0 })),
    )
    .await;
    assert_eq!(same, (Outcome::Allowed, json!({ "uid": "u-1", "allowed": true })));
    let gone = response("/mutate", &review("DELETE", &Value::Null, &json!({ "size": 0 }))).await;
    assert_eq!(gone, (Outcome::Allowed, json!({ "uid": "u-1", "allowed": true })));
}

#[tokio::test]
async fn all_objects_are_converted_in_order_or_none_is() {
    let conversion = |objects: Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": { "uid": "u-2", "desiredAPIVersion": "example.org/v2", "objects": objects },
        })
    };
    let widget = |size: i64| json!({ "apiVersion": "example.org/v1", "size": size });
    let good = response("/convert", &conversion(json!([widget(1), widget(2)]))).await;
    let objects =
        json!([{ "size": 1, "apiVersion": "example.org/v2" }, { "size": 2, "apiVersion": "example.org/v2" }]);
    let expected = json!({ "uid": "u-2", "convertedObjects": objects, "result": { "status": "Success" } });
    assert_eq!(good, (Outcome::Converted, expected));
    for (size, outcome, message) in [
        (8, Outcome::NotConverted, "eight does not convert"),
        (7, Outcome::Panicked, "failed to convert: the webhook panicked"),
    ] {
        let bad = response("/convert", &conversion(json!([widget(1), widget(size)]))).await;
        let expected = json!({
            "uid": "u-2", "convertedObjects": [], "result": { "status": "Failure", "message": message },
        });
        assert_eq!(bad, (outcome, expected));
    }
}

#[tokio::test]
async fn each_group_has_its_conversion() {
    let named = |name: &'static str| {
        move |mut object: Value, _: &str| {
            object["by"] = name.into();
            Ok::<_, String>(object)
        }
    };
    let webhook = Webhook::new()
        .convert("a.org", named("a"))
        .convert("b.org", named("b"));
    let conversion = |version: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": { "uid": "u", "desiredAPIVersion": version, "objects": [{ "apiVersion": version }] },
        })
    };
    for (version, expected) in [("a.org/v1", json!("a")), ("b.org/v1", json!("b"))] {
        let body = conversion(version).to_string().into_bytes();
        let answer = answer_of(
            &webhook
                .at("/convert")
                .expect("a handler")
                .call(call_of(body))
                .await,
        );
        assert_eq!(answer["response"]["convertedObjects"][0]["by"], expected);
    }
    for version in ["c.org/v1", "v1", ""] {
        let body = conversion(version).to_string().into_bytes();
        let reply = webhook
            .at("/convert")
            .expect("a handler")
            .call(call_of(body))
            .await;
        assert_eq!(reply.outcome, Outcome::NotConverted, "{version}");
    }
}

#[test]
#[should_panic(expected = "two conversions of a.org")]
fn a_group_has_one_conversion() {
    let same = |object: Value, _: &str| Ok::<_, String>(object);
    let _ = Webhook::new().convert("a.org", same).convert("a.org", same);
}

#[test]
#[should_panic(expected = "two handlers for /mutate")]
fn a_path_has_one_handler() {
    let _ = Webhook::new()
        .mutate("/mutate", |_, _| {})
        .mutate("/mutate", |_, _| {});
}

#[test]
fn several_faults_are_listed_as_the_api_machinery_does() {
    let cause = |field: &str| Cause {
        field: field.into(),
        message: "Invalid value: 1: no".into(),
    };
    let denial = Denial::invalid("example.org", "Widget", "w", vec![cause("a"), cause("b")]);
    assert_eq!(
        denial.message(),
        r#"Widget.example.org "w" is invalid: [a: Invalid value: 1: no, b: Invalid value: 1: no]"#
    );
}

/// Knows the thread that made it.
struct Made(ThreadId);

impl<'de> serde::Deserialize<'de> for Made {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer)?;
        Ok(Self(thread::current().id()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn objects_of_large_reviews_are_made_by_another_thread() {
    let answer = async |request: AdmissionRequest<Made>| match request.change {
        Change::Create(Made(thread)) => Ok(vec![format!("{thread:?}")]),
        Change::Update { .. } | Change::Delete(_) => Ok(Vec::new()),
    };
    let webhook = Arc::new(Webhook::new().validate("/validate", answer));
    for (bytes, is_elsewhere) in [(10, false), (200 * 1024, true)] {
        let review = review("CREATE", &json!({ "text": "x".repeat(bytes) }), &Value::Null).to_string();
        let webhook = webhook.clone();
        let asking = async move {
            let answer = webhook.answer("/validate", review.into_bytes()).await;
            (thread::current().id(), answer.expect("there is a handler").1)
        };
        let (worker, text) = tokio::spawn(asking).await.expect("no panic");
        assert!(text.contains("ThreadId"), "{text}");
        assert_eq!(
            !text.contains(&format!("{worker:?}")),
            is_elsewhere,
            "{bytes} bytes: {text}"
        );
    }
}
