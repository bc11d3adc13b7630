//! The extension as its callers see it.

use std::{collections::BTreeMap, sync::Arc};

use axum::body::Body;
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::MicroTime};
use nephele_api::infrastructure::v1beta2::{
    InMemoryMachine, creation_record::CreationRecord, update::Update,
};
use nephele_controller::wall_clock;
use nephele_model::GoDuration;
use nephele_runtime_sdk::catalog::Release;
use nephele_test_extension::{Access, extension};
use nephele_testkit::{ManagementApi, objects};
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

/// Classes and tests of Cluster API use these names.
#[tokio::test]
async fn handlers_are_discovered_by_the_names_of_cluster_api_s_own() {
    let api = ManagementApi::start();
    let discovered = async |release: Release| {
        let router = extension(&Access::new(api.client(), None), wall_clock())
            .for_release(release)
            .build()
            .unwrap()
            .router();
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
        ("can-update-machine", "CanUpdateMachine"),
        ("can-update-machineset", "CanUpdateMachineSet"),
        ("update-machine", "UpdateMachine"),
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
    let router = extension(&Access::new(api.client(), None), wall_clock())
        .build()
        .unwrap()
        .router();
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
    let recorded = api
        .get::<ConfigMap>("demo-ext-test-extension-hookresponses")
        .await
        .data
        .unwrap();
    let keys: Vec<_> = recorded
        .keys()
        .map(|key| key.strip_suffix("-actualResponseStatus").unwrap())
        .collect();
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
    let router = extension(&Access::new(api.client(), None), wall_clock())
        .build()
        .unwrap()
        .router();
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
    let expected =
        json!({ "status": "Failure", "message": "cannot plan a downgrade from v1.36.0 to v1.35.0" });
    assert_eq!(response, expected);
}

/// A call to update the machine `w`, whose desired objects have this version and one file.
fn update_machine(version: &str, settings: &[(&str, &str)]) -> Value {
    let settings: BTreeMap<_, _> = settings.iter().copied().collect();
    json!({
        "settings": settings,
        "desired": {
            "machine": {
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": { "name": "w", "namespace": "default" },
                "spec": { "clusterName": "demo", "version": version },
            },
            "infrastructureMachine": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "InMemoryMachine",
                "metadata": { "name": "w", "namespace": "default" }, "spec": {},
            },
            "bootstrapConfig": {
                "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
                "metadata": { "name": "w", "namespace": "default" },
                "spec": { "files": [{ "path": "/etc/motd", "content": "hello" }] },
            },
        },
    })
}

const UPDATE: &str = "/updatemachine/update-machine";
const ADDRESSED: [(&str, &str); 2] = [("extensionConfigName", "ext"), ("inPlaceUpdateDuration", "30s")];

fn waits(seconds: i32) -> Value {
    let message = "the simulated machine is updated to v1.36.4";
    json!({ "status": "Success", "message": message, "retryAfterSeconds": seconds })
}

/// Writes what the machine's manager writes when the requested update is over.
async fn end_update(api: &ManagementApi) -> Update {
    let object = api.get::<InMemoryMachine>("w").await;
    let asked = object.update().expect("it is asked for");
    let ended = Update {
        ended: Some(asked.asked_at.clone()),
        ..asked.clone()
    };
    let software = if asked.failure.is_empty() {
        Some(asked.software.clone())
    } else {
        None
    };
    let origin = CreationRecord {
        software,
        ..CreationRecord::begun(asked.asked_at.clone())
    };
    let noted = json!({ "spec": { "instance": { "origin": origin, "update": ended } } });
    api.patch::<InMemoryMachine>("w", &noted).await;
    asked
}

#[tokio::test]
async fn a_machine_is_asked_once_by_its_object_and_done_when_that_says_so() {
    let api = ManagementApi::start();
    let machine = api.create(&objects::worker("demo", "w")).await;
    api.create(&objects::in_memory_machine(&machine)).await;
    let now: Timestamp = "2026-01-02T03:04:05.678901234Z".parse().unwrap();
    let at = move |seconds| now + SignedDuration::from_secs(seconds);
    let router = |seconds| {
        let clock = Arc::new(move || at(seconds));
        extension(&Access::new(api.client(), None), clock)
            .build()
            .unwrap()
            .router()
    };
    let request = update_machine("v1.36.4", &ADDRESSED);
    assert_eq!(call(&router(0), UPDATE, &request).await, waits(10));
    let asked = api.get::<InMemoryMachine>("w").await;
    // A repeated call, to another replica, changes nothing.
    assert_eq!(call(&router(28), UPDATE, &request).await, waits(2));
    assert_eq!(api.get::<InMemoryMachine>("w").await, asked);
    let asked = end_update(&api).await;
    assert_eq!(
        asked.asked_at,
        MicroTime("2026-01-02T03:04:05.678901Z".parse().unwrap())
    );
    assert_eq!(
        (
            asked.duration.as_ref().map(GoDuration::as_str),
            asked.software.version.as_str()
        ),
        (Some("30s"), "v1.36.4")
    );
    let shown = asked
        .software
        .files
        .map(|files| files.contents.into_keys().collect::<Vec<_>>());
    assert_eq!(shown, Some(vec!["/etc/motd".to_owned()]));
    let done = json!({ "status": "Success", "retryAfterSeconds": 0 });
    assert_eq!(call(&router(40), UPDATE, &request).await, done);
    // No ConfigMap of the Cluster was written, because each of its machines causes such calls.
    assert!(
        api.take_writes()
            .iter()
            .all(|write| write.resource != "configmaps")
    );
}

#[tokio::test]
async fn an_update_fails_while_the_config_map_of_its_cluster_says_so_and_then_works() {
    let api = ManagementApi::start();
    let machine = api.create(&objects::worker("demo", "w")).await;
    api.create(&objects::in_memory_machine(&machine)).await;
    let mut said = ConfigMap::default();
    said.metadata.name = Some("demo-ext-test-extension-hookresponses".into());
    said.metadata.namespace = Some("default".into());
    let fails = |why: &str| format!("{{Status: Failure, Message: {why}}}");
    said.data = Some(BTreeMap::from([
        ("UpdateMachine-preloadedResponse".into(), fails("for all")),
        ("UpdateMachine-w-preloadedResponse".into(), fails("no space left")),
    ]));
    api.create(&said).await;
    let router = extension(&Access::new(api.client(), None), wall_clock())
        .build()
        .unwrap()
        .router();
    let request = update_machine("v1.36.4", &ADDRESSED);
    assert_eq!(call(&router, UPDATE, &request).await, waits(10));
    assert_eq!(end_update(&api).await.failure, "no space left");
    let failed = json!({ "status": "Failure", "message": "no space left", "retryAfterSeconds": 0 });
    assert_eq!(call(&router, UPDATE, &request).await, failed);

    let works = json!({ "data": { "UpdateMachine-w-preloadedResponse": null, "UpdateMachine-preloadedResponse": null } });
    api.patch::<ConfigMap>("demo-ext-test-extension-hookresponses", &works)
        .await;
    assert_eq!(call(&router, UPDATE, &request).await, waits(10));
    assert_eq!(end_update(&api).await.failure, "");
    assert_eq!(call(&router, UPDATE, &request).await["retryAfterSeconds"], 0);
}

#[tokio::test]
async fn what_cannot_be_updated_is_a_failure_that_says_why() {
    let api = ManagementApi::start();
    let router = extension(&Access::new(api.client(), None), wall_clock())
        .build()
        .unwrap()
        .router();
    let said = async |request: Value| {
        let answer = call(&router, UPDATE, &request).await;
        assert_eq!(answer["status"], "Failure", "{answer}");
        answer["message"].as_str().unwrap_or_default().to_owned()
    };
    let message = said(update_machine("v1.36.4", &[])).await;
    assert!(
        message.starts_with("failed to read InMemoryMachine w: "),
        "{message}"
    );
    let off = said(update_machine("v1.36.4", &[("disableInPlaceUpdates", "true")])).await;
    assert_eq!(off, "updates in place are off: disableInPlaceUpdates is true");
    let message = said(update_machine("v1.36.4", &[("inPlaceUpdateDuration", "soon")])).await;
    assert!(
        message.starts_with("failed to read the setting inPlaceUpdateDuration: "),
        "{message}"
    );
    let mut foreign = update_machine("v1.36.4", &[]);
    foreign["desired"]["infrastructureMachine"]["kind"] = "DevMachine".into();
    assert_eq!(
        said(foreign).await,
        "the machine is a \"DevMachine\", not an InMemoryMachine"
    );
    assert!(said(json!({})).await.contains("not an InMemoryMachine"));
}
