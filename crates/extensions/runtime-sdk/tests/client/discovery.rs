//! Discovery responses of extensions.

use std::time::Duration;

use nephele_runtime_sdk::{
    catalog::Catalog,
    client::{Client, ClientConfig, Discovered, OnError, UnknownHooks, chain},
    hooks::{AfterClusterUpgrade, BeforeClusterCreate, HookId},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::script::{Answer, Script, client, handler};

fn config() -> ClientConfig {
    ClientConfig {
        url: "https://ext/pre".into(),
        ..ClientConfig::default()
    }
}

async fn discover(answer: Answer, unknown: UnknownHooks) -> Result<Discovered, String> {
    let client = client(&Script::always(answer), []);
    client
        .discover("ext", &config(), unknown)
        .await
        .map_err(|error| chain(&error))
}

fn offered(name: &str, hook: &str) -> Value {
    json!({ "name": name, "requestHook": { "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook } })
}

#[tokio::test(start_paused = true)]
async fn discovery_is_asked_without_a_handler_and_without_settings() {
    let script = Script::always(Answer::Json(json!({
        "status": "Success", "handlers": [offered("b", "BeforeClusterCreate"), offered("a", "AfterClusterUpgrade")],
    })));
    let client = client(&script, []);
    let discovered = client
        .discover("ext", &config(), UnknownHooks::Refuse)
        .await
        .unwrap();
    let handlers = vec![
        handler::<AfterClusterUpgrade>("a", OnError::Fail),
        handler::<BeforeClusterCreate>("b", OnError::Fail),
    ];
    assert_eq!(
        discovered,
        Discovered {
            handlers,
            skipped: vec![]
        }
    );
    let [asked] = script.asked().try_into().unwrap();
    assert_eq!(
        asked.path,
        "/pre/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery"
    );
    assert_eq!(asked.query, "timeout=10s");
    let body = json!({ "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "DiscoveryRequest" });
    assert_eq!(asked.body, body);
}

/// Go writes `null` when there are no handlers.
#[tokio::test(start_paused = true)]
async fn an_extension_may_offer_nothing() {
    for answer in [
        json!({ "status": "Success" }),
        json!({ "status": "Success", "handlers": null }),
    ] {
        assert_eq!(
            discover(Answer::Json(answer), UnknownHooks::Refuse).await,
            Ok(Discovered::default())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_discovery_response_is_an_error_that_names_the_problem() {
    for (answer, expected) in [
        (
            json!({ "status": "Failure", "message": "not yet" }),
            "got failure response with message: not yet",
        ),
        (
            json!({ "handlers": [] }),
            "got unknown response status \"\" with message: ",
        ),
        (
            json!({ "status": "Success", "handlers": [offered("a", "Unheard"), offered("A", "UpdateMachine")] }),
            "the discovery response is not valid: [the name of handler \"A\" is not a DNS label, requestHook \
             hooks.runtime.cluster.x-k8s.io/v1alpha1/Unheard of handler \"a\" is not in the Runtime SDK catalog]",
        ),
    ] {
        let error = discover(Answer::Json(answer), UnknownHooks::Refuse)
            .await
            .unwrap_err();
        assert_eq!(error, format!("failed to discover extension \"ext\": {expected}"));
    }
    for (answer, expected) in [
        (
            Answer::Raw(404, b"x"),
            "http call failed: got response with status code 404 != 200: \"x\"",
        ),
        (Answer::Silent, "no answer came in 10s"),
    ] {
        let error = discover(answer, UnknownHooks::Refuse).await.unwrap_err();
        assert_eq!(error, format!("failed to discover extension \"ext\": {expected}"));
    }
    for answer in [
        json!([]),
        json!("Success"),
        json!({ "status": "Success", "handlers": {} }),
    ] {
        discover(Answer::Json(answer), UnknownHooks::Refuse)
            .await
            .unwrap_err();
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_hooks_are_skipped_if_asked_for() {
    let answer = json!({ "status": "Success", "handlers": [offered("a", "Unheard"), offered("b", "BeforeClusterCreate")] });
    let discovered = discover(Answer::Json(answer), UnknownHooks::Skip).await.unwrap();
    assert_eq!(
        discovered.handlers,
        [handler::<BeforeClusterCreate>("b", OnError::Fail)]
    );
    assert_eq!(
        discovered
            .skipped
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        [
            "requestHook hooks.runtime.cluster.x-k8s.io/v1alpha1/Unheard of handler \"a\" is not in the Runtime SDK catalog"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn discovery_takes_ten_seconds_at_most_and_needs_a_catalog_and_an_address() {
    let script = Script::always(Answer::Silent);
    let start = Instant::now();
    client(&script, [])
        .discover("ext", &config(), UnknownHooks::Refuse)
        .await
        .unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    let without = Client::builder(Catalog::empty())
        .transport(script.clone())
        .build();
    let error = without
        .discover("ext", &config(), UnknownHooks::Refuse)
        .await
        .unwrap_err();
    let id = HookId::new("hooks.runtime.cluster.x-k8s.io", "v1alpha1", "Discovery");
    assert_eq!(
        chain(&error),
        format!("failed to discover extension \"ext\": {id} is not in the catalog")
    );
    let error = without
        .discover("ext", &ClientConfig::default(), UnknownHooks::Refuse)
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "failed to discover extension \"ext\": failed to compute the URL: neither a service nor a url is given"
    );
    assert_eq!(script.count(), 1);
}
