//! All handlers of a hook.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use nephele_runtime_sdk::{
    catalog::Catalog,
    client::{
        CallAll, Client, LabelSelector, LabelSelectorRequirement, OnError, Registration, Registry, Subject,
        chain,
    },
    hooks::{
        AfterControlPlaneInitialized, AfterControlPlaneInitializedRequest, BeforeClusterCreate,
        BeforeClusterCreateResponse, BeforeClusterDelete, BeforeClusterDeleteRequest,
    },
};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use crate::script::{Answer, Script, client, failure, handler, registration, request, subject, success};

fn only(name: &str, namespace: &str, on_error: OnError) -> Registration {
    let requirement = LabelSelectorRequirement {
        key: "kubernetes.io/metadata.name".into(),
        operator: "In".into(),
        values: vec![namespace.into()],
    };
    Registration {
        namespace_selector: Some(LabelSelector {
            match_expressions: vec![requirement],
            ..LabelSelector::default()
        }),
        ..registration(name, vec![handler::<BeforeClusterCreate>("h", on_error)])
    }
}

fn three(on_error: OnError) -> [Registration; 3] {
    // Not sorted, so that the order of names differs from the order of registration.
    ["c", "a", "b"].map(|name| only(name, "foo", on_error))
}

/// GET-1 to GET-4.
#[tokio::test(start_paused = true)]
async fn handlers_that_are_called_for_the_namespace_are_found_in_order() {
    let script = Script::always(success());
    let mut registrations = three(OnError::Fail).to_vec();
    registrations.push(only("d", "bar", OnError::Fail));
    let client = client(&script, registrations);
    let at = |namespace: &str| Subject::new(namespace, "c");
    assert_eq!(
        client.handlers::<BeforeClusterCreate>(&at("foo")).await.unwrap(),
        ["h.a", "h.b", "h.c"]
    );
    assert_eq!(
        client.handlers::<BeforeClusterCreate>(&at("bar")).await.unwrap(),
        ["h.d"]
    );
    assert_eq!(
        client.handlers::<BeforeClusterDelete>(&at("foo")).await.unwrap(),
        [""; 0]
    );
    let error = client
        .handlers::<BeforeClusterCreate>(&at("gone"))
        .await
        .unwrap_err();
    assert_eq!(error.category(), "namespace");
    let unknown = Client::builder(Catalog::empty())
        .registry(client.registry().clone())
        .build();
    let error = unknown
        .handlers::<BeforeClusterCreate>(&at("foo"))
        .await
        .unwrap_err();
    assert_eq!(error.category(), "unknown");
    let cold = Client::builder(Catalog::cluster_api())
        .registry(Registry::new())
        .build();
    assert_eq!(
        cold.handlers::<BeforeClusterCreate>(&at("foo"))
            .await
            .unwrap_err()
            .category(),
        "readiness"
    );
}

/// Callers can show each response with its handler. The futures of both functions are `Send`.
#[tokio::test(start_paused = true)]
async fn what_each_handler_has_answered_is_told_by_its_name() {
    let script = Script::new(|asked| {
        let retry = if asked.host == "b" { 9 } else { 0 };
        Answer::Json(json!({ "status": "Success", "message": asked.host, "retryAfterSeconds": retry }))
    });
    let client = client(&script, three(OnError::Fail));
    let each = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .call_each::<BeforeClusterCreate>(&subject(), &request(), CallAll::default())
                .await
        }
    });
    let said = |name: &str, seconds, message: &str| {
        (
            name.to_owned(),
            BeforeClusterCreateResponse::retry_after(seconds, message),
        )
    };
    let expected = [said("h.a", 0, "a"), said("h.b", 9, "b"), said("h.c", 0, "c")];
    assert_eq!(each.await.unwrap().unwrap(), expected);
    let all = tokio::spawn(async move {
        client
            .call_all::<BeforeClusterCreate>(&subject(), &request())
            .await
    });
    assert_eq!(
        all.await.unwrap().unwrap(),
        BeforeClusterCreateResponse::retry_after(9, "a, b, c")
    );
}

/// ALL-2, ALL-3.
#[tokio::test(start_paused = true)]
async fn all_handlers_are_called_in_order_and_become_one_response() {
    let script = Script::new(|asked| {
        let (message, retry) = match asked.host.as_str() {
            "a" => ("first", 7),
            "b" => ("", 0),
            _ => ("third", 3),
        };
        Answer::Json(json!({ "status": "Success", "message": message, "retryAfterSeconds": retry }))
    });
    let client = client(&script, three(OnError::Fail));
    let response = client
        .call_all::<BeforeClusterCreate>(&subject(), &request())
        .await
        .unwrap();
    assert_eq!(
        response,
        BeforeClusterCreateResponse::retry_after(3, "first, third")
    );
    let hosts: Vec<String> = script.asked().into_iter().map(|asked| asked.host).collect();
    assert_eq!(hosts, ["a", "b", "c"]);
    let none = client
        .call_all::<BeforeClusterDelete>(&subject(), &BeforeClusterDeleteRequest::default())
        .await
        .unwrap();
    assert_eq!((none.message.as_str(), none.retry_after_seconds), ("", 0));
    let plain = client
        .call_all::<AfterControlPlaneInitialized>(&subject(), &AfterControlPlaneInitializedRequest::default())
        .await
        .unwrap();
    assert_eq!(plain.message, "");
}

/// ALL-4 to ALL-6.
#[tokio::test(start_paused = true)]
async fn the_first_failure_ends_it() {
    for (answer, cause) in [
        (failure(), "got failure response with message: no"),
        (
            Answer::Raw(404, b"gone"),
            "http call failed: got response with status code 404 != 200: \"gone\"",
        ),
    ] {
        let script = Script::new(move |asked| {
            if asked.host == "b" {
                answer.clone()
            } else {
                success()
            }
        });
        let client = client(&script, three(OnError::Fail));
        let error = client
            .call_all::<BeforeClusterCreate>(&subject(), &request())
            .await
            .unwrap_err();
        assert_eq!(
            chain(&error),
            format!(
                "failed to call extension handlers for hook \
                 \"BeforeClusterCreate.hooks.runtime.cluster.x-k8s.io\": \
                 failed to call extension handler \"h.b\": {cause}"
            )
        );
        assert_eq!(script.count(), 2);
    }
    let script = Script::always(failure());
    let client = client(&script, three(OnError::Ignore));
    client
        .call_all::<BeforeClusterCreate>(&subject(), &request())
        .await
        .unwrap_err();
    assert_eq!(script.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_are_ignored_have_no_say() {
    let script = Script::new(|asked| match asked.host.as_str() {
        "b" => Answer::Reset,
        _ => Answer::Json(json!({ "status": "Success", "retryAfterSeconds": 9, "message": "m" })),
    });
    let client = client(&script, three(OnError::Ignore));
    let response = client
        .call_all::<BeforeClusterCreate>(&subject(), &request())
        .await
        .unwrap();
    assert_eq!(response, BeforeClusterCreateResponse::retry_after(9, "m, m"));
}

fn slow(seconds: u64) -> Arc<Script> {
    Script::new(move |asked| {
        let message = json!({ "status": "Success", "message": asked.host });
        Answer::After(Duration::from_secs(seconds), Box::new(Answer::Json(message)))
    })
}

#[tokio::test(start_paused = true)]
async fn all_together_take_no_longer_than_the_total() {
    let script = slow(8);
    let start = Instant::now();
    let client = client(&script, three(OnError::Fail));
    let how = CallAll {
        total: Some(Duration::from_secs(20)),
        ..CallAll::default()
    };
    let error = client
        .call_all_with::<BeforeClusterCreate>(&subject(), &request(), how)
        .await
        .unwrap_err();
    let expected = "failed to call extension handler \"h.c\": the time for all handlers, 20s, is over";
    assert!(chain(&error).ends_with(expected), "{}", chain(&error));
    assert_eq!(start.elapsed(), Duration::from_secs(20));
    let allowed: Vec<String> = script.asked().into_iter().map(|asked| asked.query).collect();
    assert_eq!(allowed, ["timeout=10s", "timeout=10s", "timeout=4s"]);
    assert!(
        !client.registry().circuit("c").unwrap().is_open(),
        "it is not the extension's fault"
    );

    let ended = CallAll {
        total: Some(Duration::from_secs(16)),
        ..CallAll::default()
    };
    client
        .call_all_with::<BeforeClusterCreate>(&subject(), &request(), ended)
        .await
        .unwrap_err();
    assert_eq!(script.count(), 5, "no extension is called when no time is left");
    let without = CallAll {
        total: None,
        ..CallAll::default()
    };
    client
        .call_all_with::<BeforeClusterCreate>(&subject(), &request(), without)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_at_a_time_give_the_same_response_sooner() {
    let script = slow(8);
    let start = Instant::now();
    let client = client(&script, three(OnError::Fail));
    let how = CallAll {
        at_once: NonZeroUsize::new(3).unwrap(),
        ..CallAll::default()
    };
    let response = client
        .call_all_with::<BeforeClusterCreate>(&subject(), &request(), how)
        .await
        .unwrap();
    assert_eq!(response.message, "a, b, c");
    assert_eq!(start.elapsed(), Duration::from_secs(8));
}

#[derive(Clone, Debug)]
struct Extension {
    waits_ms: u64,
    fails: bool,
    retry: i32,
}

fn extensions() -> impl Strategy<Value = Vec<Extension>> {
    let extension =
        (0..9_000_u64, prop::bool::weighted(0.2), 0..5_i32).prop_map(|(waits_ms, fails, retry)| Extension {
            waits_ms,
            fails,
            retry,
        });
    prop::collection::vec(extension, 0..6)
}

/// The result of calling all handlers, this many at a time.
fn called(extensions: &[Extension], at_once: usize) -> Result<BeforeClusterCreateResponse, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let behaviour = extensions.to_vec();
        let script = Script::new(move |asked| {
            let Extension {
                waits_ms,
                fails,
                retry,
            } = behaviour[asked.host[1..].parse::<usize>().unwrap()];
            let status = if fails { "Failure" } else { "Success" };
            let answer = json!({ "status": status, "message": asked.host, "retryAfterSeconds": retry });
            Answer::After(Duration::from_millis(waits_ms), Box::new(Answer::Json(answer)))
        });
        let names = (0..extensions.len()).map(|index| format!("e{index}"));
        let registrations =
            names.map(|name| registration(&name, vec![handler::<BeforeClusterCreate>("h", OnError::Fail)]));
        let client = client(&script, registrations);
        let how = CallAll {
            total: None,
            at_once: NonZeroUsize::new(at_once).unwrap(),
        };
        let called = client
            .call_all_with::<BeforeClusterCreate>(&subject(), &request(), how)
            .await;
        called.map_err(|error| chain(&error))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_comes_of_it_does_not_depend_on_which_response_is_there_first(
        extensions in extensions(), at_once in 1..7_usize
    ) {
        let one_by_one = called(&extensions, 1);
        prop_assert_eq!(&called(&extensions, at_once), &one_by_one);
        let reversed_waits: Vec<u64> = extensions.iter().rev().map(|extension| extension.waits_ms).collect();
        let mut other_order = extensions.clone();
        for (extension, waits_ms) in other_order.iter_mut().zip(reversed_waits) {
            extension.waits_ms = waits_ms;
        }
        prop_assert_eq!(&called(&other_order, at_once), &one_by_one);
    }
}
