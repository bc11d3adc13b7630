//! When calls are repeated, when calls of an extension are suspended, and what is counted.

use std::time::Duration;

use nephele_runtime_sdk::{
    client::{CircuitSettings, Metrics, OnError, Registration, Retries, UnknownHooks, chain},
    hooks::BeforeClusterCreate,
};
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};
use serde_json::json;
use tokio::time::{Instant, advance};

use crate::script::{Answer, ONE, Script, builder, one, request, subject, success};

const EXACT: CircuitSettings = CircuitSettings {
    failures: 2,
    wait: Duration::from_secs(4),
    wait_max: Duration::from_secs(60),
    jitter: 0.0,
};

#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_seen_is_tried_again_within_its_timeout() {
    let refusals = Mutex::new(2);
    let script = Script::new(move |_| {
        let mut left = refusals.lock();
        if *left == 0 {
            return success();
        }
        *left -= 1;
        Answer::Refuse
    });
    let client = builder(&script, [one(OnError::Fail)]).build();
    let start = Instant::now();
    client
        .call::<BeforeClusterCreate>(ONE, &subject(), &request())
        .await
        .unwrap();
    assert_eq!((script.count(), start.elapsed()), (3, Duration::from_millis(150)));

    let script = Script::always(Answer::Refuse);
    let retries = Retries {
        times: 1000,
        wait: Duration::from_secs(1),
    };
    let client = builder(&script, [one(OnError::Fail)]).retries(retries).build();
    let start = Instant::now();
    client
        .call::<BeforeClusterCreate>(ONE, &subject(), &request())
        .await
        .unwrap_err();
    assert_eq!((script.count(), start.elapsed()), (4, Duration::from_secs(7)));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_been_seen_is_not_tried_again() {
    for answer in [Answer::Reset, Answer::Silent, Answer::Raw(503, b"")] {
        let script = Script::always(answer);
        let client = builder(&script, [one(OnError::Fail)]).build();
        client
            .call::<BeforeClusterCreate>(ONE, &subject(), &request())
            .await
            .unwrap_err();
        assert_eq!(script.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_keeps_failing_is_left_alone_for_a_while() {
    let script = Script::always(Answer::Reset);
    let client = builder(&script, [one(OnError::Fail)]).circuit(EXACT).build();
    let call = async || {
        client
            .call::<BeforeClusterCreate>(ONE, &subject(), &request())
            .await
    };
    let mut asked = Vec::new();
    let mut errors = Vec::new();
    // Two failures open the circuit for 4 seconds, the third for 8.
    for wait in [0, 0, 0, 3, 1, 7, 1] {
        advance(Duration::from_secs(wait)).await;
        errors.push(call().await.unwrap_err().category());
        asked.push(script.count());
    }
    assert_eq!(asked, [1, 2, 2, 2, 3, 3, 4]);
    assert_eq!(
        errors,
        [
            "exchange", "exchange", "circuit", "circuit", "exchange", "circuit", "exchange"
        ]
    );
    assert_eq!(
        chain(&call().await.unwrap_err()),
        "failed to call extension handler \"valid-extension.ext\": not called because its extension keeps failing: \
        http call failed: failed to send the request or read the response: connection reset"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_left_alone_passes_with_ignore() {
    let script = Script::always(Answer::Reset);
    let client = builder(&script, [one(OnError::Ignore)]).circuit(EXACT).build();
    for _ in 0..10 {
        client
            .call::<BeforeClusterCreate>(ONE, &subject(), &request())
            .await
            .unwrap();
    }
    assert_eq!(script.count(), 2);
}

/// An extension that answers is alive, even if the answer is nonsense or a failure. Waiting would not help.
#[tokio::test(start_paused = true)]
async fn an_extension_that_answers_is_not_left_alone() {
    for answer in [
        Answer::Raw(404, b""),
        Answer::Raw(200, b"nonsense"),
        Answer::Json(json!({ "status": "Failure" })),
    ] {
        let script = Script::always(answer);
        let client = builder(&script, [one(OnError::Fail)]).circuit(EXACT).build();
        for _ in 0..10 {
            client
                .call::<BeforeClusterCreate>(ONE, &subject(), &request())
                .await
                .unwrap_err();
        }
        assert_eq!(script.count(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_is_called_again_when_its_registration_changes_or_it_is_discovered() {
    let script = Script::new(|asked| {
        if asked.path.ends_with("/discovery") {
            success()
        } else {
            Answer::Reset
        }
    });
    let client = builder(&script, [one(OnError::Fail)]).circuit(EXACT).build();
    let mut asked = Vec::new();
    for step in 0..3 {
        for _ in 0..4 {
            client
                .call::<BeforeClusterCreate>(ONE, &subject(), &request())
                .await
                .unwrap_err();
        }
        asked.push(script.count());
        let changed = Registration {
            resource_version: "16".into(),
            ..one(OnError::Fail)
        };
        if step == 0 {
            client.registry().add(changed).unwrap();
        } else {
            client
                .discover("ext", &changed.client_config, UnknownHooks::Refuse)
                .await
                .unwrap();
        }
    }
    // Two calls per client, and a discovery before the last two.
    assert_eq!(asked, [2, 4, 7]);
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_as_cluster_api_counts_them() {
    let answers = Mutex::new(vec![
        Answer::Reset,
        Answer::Reset,
        Answer::Raw(200, b"nonsense"),
        Answer::Raw(404, b"no"),
        Answer::Json(json!({ "status": "Perhaps" })),
        Answer::Json(json!({ "status": "Failure" })),
        success(),
    ]);
    let script = Script::new(move |_| answers.lock().pop().unwrap());
    let registry = Registry::new();
    let settings = Registration {
        client_config: nephele_runtime_sdk::client::ClientConfig {
            url: "https://ext:8443/pre".into(),
            ..Default::default()
        },
        ..one(OnError::Ignore)
    };
    let client = builder(&script, [settings])
        .metrics(Metrics::register(&registry).unwrap())
        .circuit(EXACT)
        .build();
    for _ in 0..8 {
        let _ = client
            .call::<BeforeClusterCreate>(ONE, &subject(), &request())
            .await;
    }
    assert_eq!(script.count(), 7, "the last one was left alone");
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.contains("_bucket") && !line.contains("_sum"))
        .collect();
    let hook = "group=\"hooks.runtime.cluster.x-k8s.io\",hook=\"BeforeClusterCreate\"";
    let requests = |code: &str, status: &str, count: u32| {
        format!(
            "capi_runtime_sdk_requests_total{{code=\"{code}\",{hook},host=\"ext:8443\",status=\"{status}\",\
             version=\"v1alpha1\"}} {count}",
        )
    };
    let mut expected = vec![
        "capi_runtime_sdk_circuits_open 1".to_owned(),
        format!("capi_runtime_sdk_ignored_errors_total{{{hook},version=\"v1alpha1\"}} 5"),
        format!(
            "capi_runtime_sdk_request_duration_seconds_count{{{hook},host=\"ext:8443\",version=\"v1alpha1\"}} 7"
        ),
        requests("200", "Success", 1),
        requests("200", "Failure", 1),
        requests("200", "Unknown", 2),
        requests("404", "Unknown", 1),
        requests("<error>", "Unknown", 2),
    ];
    expected.sort();
    let mut lines: Vec<String> = lines.into_iter().map(ToOwned::to_owned).collect();
    lines.sort();
    assert_eq!(lines, expected);
}
