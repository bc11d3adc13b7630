//! Replays calls of unmodified Cluster API 1.14.2. Answers that depend only on the request are the same as recorded,
//! and lifecycle hooks are answered from a ConfigMap of the Cluster in the request.

use std::{fs, path::Path};

use axum::body::Body;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use nephele_controller::wall_clock;
use nephele_runtime_sdk::server::Recording;
use nephele_test_extension::{Access, extension};
use nephele_testkit::ManagementApi;
use serde_json::Value;
use tower::ServiceExt as _;

/// The recordings of these hooks.
fn recorded(hooks: &[&str]) -> Vec<Recording> {
    let folder = Path::new("../runtime-sdk/tests/recordings/1.14");
    let read = |hook: &&str| -> Vec<Recording> {
        let text = fs::read(folder.join(format!("{hook}.json"))).expect("a hook that was recorded");
        serde_json::from_slice(&text).expect("recordings")
    };
    hooks.iter().flat_map(read).collect()
}

async fn replay(router: &axum::Router, recording: &Recording) -> Value {
    let request = axum::http::Request::post(format!("{}?{}", recording.path, recording.query));
    let request = request
        .body(Body::from(recording.request.to_string()))
        .expect("a request");
    let response = router.clone().oneshot(request).await.expect("an answer");
    assert_eq!(response.status(), recording.status, "{}", recording.path);
    let body = response.into_body().collect().await.expect("a whole body");
    serde_json::from_slice(&body.to_bytes()).expect("JSON")
}

#[tokio::test]
async fn what_is_computed_from_a_request_is_answered_as_it_was() {
    let api = ManagementApi::start();
    let router = extension(&Access::new(api.client(), None), wall_clock())
        .build()
        .expect("an extension")
        .router();
    let recordings = recorded(&[
        "DiscoverVariables",
        "GeneratePatches",
        "GenerateUpgradePlan",
        "ValidateTopology",
    ]);
    for recording in recordings {
        assert_eq!(
            replay(&router, &recording).await,
            recording.response,
            "{}",
            recording.path
        );
    }
}

#[tokio::test]
async fn the_hooks_of_a_clusters_life_are_answered_by_its_config_map() {
    let hooks = [
        "BeforeClusterCreate",
        "AfterControlPlaneInitialized",
        "BeforeClusterUpgrade",
        "BeforeControlPlaneUpgrade",
        "AfterControlPlaneUpgrade",
        "BeforeWorkersUpgrade",
        "AfterWorkersUpgrade",
        "AfterClusterUpgrade",
        "BeforeClusterDelete",
    ];
    for hook in hooks {
        for recording in recorded(&[hook]) {
            let api = ManagementApi::start();
            let router = extension(&Access::new(api.client(), None), wall_clock())
                .build()
                .expect("an extension")
                .router();
            let cluster = &recording.request["cluster"]["metadata"];
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            let namespace = text(&cluster["namespace"]);
            let name = text(&cluster["name"]);
            let namespaces: Api<Namespace> = Api::all(api.client());
            let metadata = ObjectMeta {
                name: Some(namespace.clone()),
                ..ObjectMeta::default()
            };
            let created = Namespace {
                metadata,
                ..Namespace::default()
            };
            namespaces
                .create(&PostParams::default(), &created)
                .await
                .expect("a namespace");
            let response = replay(&router, &recording).await;
            assert_eq!(response["status"], "Success", "{response}");
            let config_maps: Api<ConfigMap> = Api::namespaced(api.client(), &namespace);
            let config_map = config_maps
                .get(&format!("{name}-nephele-test-extension-hookresponses"))
                .await;
            let data = config_map.expect("a record").data.expect("an answer");
            let expected = if hook == "AfterControlPlaneInitialized" {
                "Success"
            } else {
                "Status: Success, RetryAfterSeconds: 0"
            };
            let records: Vec<_> = data
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect();
            let [(key, record)] = records[..] else {
                panic!("{hook}: {records:?}")
            };
            assert!(
                key.starts_with(hook) && key.ends_with("-actualResponseStatus"),
                "{key}"
            );
            assert_eq!(record, expected);
        }
    }
}
