//! The extension as its callers see it.

use std::collections::BTreeMap;

use axum::body::Body;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use nephele_hooks::extension;
use nephele_runtime_sdk::catalog::Release;
use nephele_testkit::ManagementApi;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const PREFIX: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1";

async fn call(router: &axum::Router, path: &str, body: &Value) -> Value {
    let request = axum::http::Request::post(format!("{PREFIX}{path}"));
    let request = request.body(Body::from(body.to_string())).expect("a request");
    let response = router.clone().oneshot(request).await.expect("an answer");
    assert_eq!(response.status(), 200, "{path}");
    let body = response.into_body().collect().await.expect("a whole body");
    serde_json::from_slice(&body.to_bytes()).expect("JSON")
}

/// The names that classes and tests of Cluster API use.
#[tokio::test]
async fn handlers_are_discovered_by_the_names_of_cluster_api_s_own() {
    let api = ManagementApi::start();
    let discovered = async |release: Release| {
        let router = extension(&api.client()).for_release(release).build().unwrap().router();
        let found = call(&router, "/discovery", &json!({})).await;
        let handlers = found["handlers"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let names = handlers.map(|handler| (text(&handler["name"]), text(&handler["requestHook"]["hook"])));
        names.collect::<BTreeMap<_, _>>()
    };
    let before_1_12 = [
        ("after-cluster-upgrade", "AfterClusterUpgrade"),
        ("after-control-plane-initialized", "AfterControlPlaneInitialized"),
        ("after-control-plane-upgrade", "AfterControlPlaneUpgrade"),
        ("before-cluster-create", "BeforeClusterCreate"),
        ("before-cluster-delete", "BeforeClusterDelete"),
        ("before-cluster-upgrade", "BeforeClusterUpgrade"),
        ("discover-variables", "DiscoverVariables"),
        ("generate-patches", "GeneratePatches"),
        ("validate-topology", "ValidateTopology"),
    ];
    let since_1_12 = [
        ("after-workers-upgrade", "AfterWorkersUpgrade"),
        ("before-control-plane-upgrade", "BeforeControlPlaneUpgrade"),
        ("before-workers-upgrade", "BeforeWorkersUpgrade"),
        ("generate-upgrade-plan", "GenerateUpgradePlan"),
    ];
    let owned = |(name, hook): &(&str, &str)| ((*name).to_owned(), (*hook).to_owned());
    let before: BTreeMap<_, _> = before_1_12.iter().map(owned).collect();
    assert_eq!(discovered(Release::FIRST).await, before);
    let all = before_1_12.iter().chain(&since_1_12).map(owned).collect();
    assert_eq!(discovered(Release::LATEST).await, all);
}

#[tokio::test]
async fn each_hook_of_a_cluster_s_life_has_a_record_of_its_own() {
    let api = ManagementApi::start();
    let router = extension(&api.client()).build().unwrap().router();
    let request = json!({
        "settings": { "extensionConfigName": "ext", "defaultAllHandlersToBlocking": "true" },
        "cluster": { "metadata": { "name": "demo", "namespace": "default" } },
        "fromKubernetesVersion": "v1.35.0", "toKubernetesVersion": "v1.36.0", "kubernetesVersion": "v1.36.0",
    });
    for hook in [
        "beforeclustercreate/before-cluster-create",
        "aftercontrolplaneinitialized/after-control-plane-initialized",
        "beforeclusterupgrade/before-cluster-upgrade",
        "beforecontrolplaneupgrade/before-control-plane-upgrade",
        "aftercontrolplaneupgrade/after-control-plane-upgrade",
        "beforeworkersupgrade/before-workers-upgrade",
        "afterworkersupgrade/after-workers-upgrade",
        "afterclusterupgrade/after-cluster-upgrade",
        "beforeclusterdelete/before-cluster-delete",
    ] {
        let response = call(&router, &format!("/{hook}"), &request).await;
        assert_eq!(response["status"], "Success", "{hook}");
        let waits = (!hook.contains("initialized")).then_some(5);
        assert_eq!(response["retryAfterSeconds"].as_i64(), waits, "{hook}");
    }
    let recorded = api.get::<ConfigMap>("demo-ext-test-extension-hookresponses").await.data.unwrap();
    let keys: Vec<_> =
        recorded.keys().map(|key| key.strip_suffix("-actualResponseStatus").unwrap()).collect();
    assert_eq!(
        keys,
        [
            "AfterClusterUpgrade-v1.36.0",
            "AfterControlPlaneInitialized",
            "AfterControlPlaneUpgrade-v1.36.0",
            "AfterWorkersUpgrade-v1.36.0",
            "BeforeClusterCreate",
            "BeforeClusterDelete",
            "BeforeClusterUpgrade-v1.35.0-v1.36.0",
            "BeforeControlPlaneUpgrade-v1.35.0-v1.36.0",
            "BeforeWorkersUpgrade-v1.35.0-v1.36.0",
        ]
    );
}

#[tokio::test]
async fn an_upgrade_over_several_minor_versions_is_planned_over_the_versions_of_the_settings() {
    let api = ManagementApi::start();
    let router = extension(&api.client()).build().unwrap().router();
    let request = json!({
        "settings": { "kubernetesVersions": "v1.34.2, v1.35.1,v1.36.9" },
        "fromControlPlaneKubernetesVersion": "v1.34.0", "toKubernetesVersion": "v1.36.3",
    });
    let response = call(&router, "/generateupgradeplan/generate-upgrade-plan", &request).await;
    let expected = json!({
        "status": "Success", "controlPlaneUpgrades": [{ "version": "v1.35.1" }, { "version": "v1.36.3" }],
    });
    assert_eq!(response, expected);
    let back = json!({ "fromControlPlaneKubernetesVersion": "v1.36.0", "toKubernetesVersion": "v1.35.0" });
    let response = call(&router, "/generateupgradeplan/generate-upgrade-plan", &back).await;
    let expected = json!({ "status": "Failure", "message": "there is no way back from v1.36.0 to v1.35.0" });
    assert_eq!(response, expected);
}
