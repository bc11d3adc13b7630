use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use nephele_runtime_sdk::hooks::{
    AfterControlPlaneInitializedResponse, BeforeClusterCreateResponse, BeforeClusterUpgradeResponse,
    ResponseStatus,
};
use nephele_testkit::ManagementApi;

use super::*;

const NAME: &str = "demo-ext-test-extension-hookresponses";

fn settings(more: &[(&str, &str)]) -> Settings {
    let all = [(EXTENSION_CONFIG_NAME, "ext")];
    all.iter()
        .chain(more)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn scene(hook: &str, versions: &[&str], more: &[(&str, &str)]) -> Scene {
    let cluster = json!({ "metadata": { "name": "demo", "namespace": "default" } });
    let cluster = Object::try_from(cluster).unwrap();
    Scene::new(&cluster, &settings(more), hook, versions).unwrap()
}

async fn recorded(api: &ManagementApi) -> BTreeMap<String, String> {
    api.get::<ConfigMap>(NAME).await.data.unwrap_or_default()
}

fn entry(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

#[test]
fn no_pattern_takes_longer_than_its_length_allows() {
    nephele_growth::assert_linear("preloaded response", BOUNDS.text, &["status: "], |text| {
        let _ = read::<BeforeClusterUpgradeResponse>(NAME, "key", text);
    });
    let long = read::<BeforeClusterUpgradeResponse>(NAME, "key", &"[".repeat(1_000_000)).unwrap_err();
    let ScriptError::Yaml { source, .. } = long else {
        panic!("it is too long: {long}")
    };
    assert_eq!(source.to_string(), "must be at most 16384 bytes, not 1000000");
}

#[tokio::test]
async fn a_call_without_a_preloaded_response_succeeds_and_is_recorded_once() {
    let api = ManagementApi::start();
    let scene = scene("BeforeClusterCreate", &[], &[]);
    for _ in 0..3 {
        let response: BeforeClusterCreateResponse =
            answer(&Access::new(api.client(), None), &scene).await.unwrap();
        assert_eq!(response, BeforeClusterCreateResponse::default());
    }
    let expected = entry(
        "BeforeClusterCreate-actualResponseStatus",
        "Status: Success, RetryAfterSeconds: 0",
    );
    assert_eq!(recorded(&api).await, expected);
    let verbs: Vec<_> = api.take_writes().into_iter().map(|write| write.verb).collect();
    assert_eq!(verbs, ["create", "patch"]);
}

#[tokio::test]
async fn what_is_preloaded_is_answered_until_it_says_otherwise() {
    let api = ManagementApi::start();
    let scene = scene("BeforeClusterUpgrade", &["v1.35.0+a", "v1.36.0"], &[]);
    let _: BeforeClusterUpgradeResponse = answer(&Access::new(api.client(), None), &scene).await.unwrap();
    let key = "BeforeClusterUpgrade-v1.35.0_a-v1.36.0";
    // As JSON and as YAML, with field names in the letter case of Go's fields.
    for (preloaded, response, record) in [
        (
            r#"{"Status": "Success", "RetryAfterSeconds": 7, "Message": "wait"}"#,
            BeforeClusterUpgradeResponse::retry_after(7, "wait"),
            "Status: Success, RetryAfterSeconds: 7",
        ),
        (
            "status: Failure\nmessage: never",
            BeforeClusterUpgradeResponse {
                status: ResponseStatus::Failure,
                message: "never".into(),
                ..BeforeClusterUpgradeResponse::default()
            },
            "Status: Failure, RetryAfterSeconds: 0",
        ),
        (
            r#"{"Status": "Success"}"#,
            BeforeClusterUpgradeResponse::default(),
            "Status: Success, RetryAfterSeconds: 0",
        ),
    ] {
        let data = json!({ "data": entry(&format!("{key}-preloadedResponse"), preloaded) });
        api.patch::<ConfigMap>(NAME, &data).await;
        let found: BeforeClusterUpgradeResponse =
            answer(&Access::new(api.client(), None), &scene).await.unwrap();
        assert_eq!(found, response);
        assert_eq!(
            recorded(&api).await[&format!("{key}-actualResponseStatus")],
            record
        );
    }
}

#[tokio::test]
async fn all_hooks_that_can_block_do_when_the_settings_say_so() {
    let api = ManagementApi::start();
    let blocking = [(DEFAULT_ALL_HANDLERS_TO_BLOCKING, "true")];
    let create = scene("BeforeClusterCreate", &[], &blocking);
    let response: BeforeClusterCreateResponse =
        answer(&Access::new(api.client(), None), &create).await.unwrap();
    assert_eq!(
        (&response.status, response.retry_after_seconds),
        (&ResponseStatus::Success, 5)
    );
    assert_eq!(
        response.message,
        format!("BeforeClusterCreate-preloadedResponse of ConfigMap {NAME} is awaited")
    );
    let initialized = scene("AfterControlPlaneInitialized", &[], &blocking);
    let response: AfterControlPlaneInitializedResponse =
        answer(&Access::new(api.client(), None), &initialized)
            .await
            .unwrap();
    assert_eq!(response, AfterControlPlaneInitializedResponse::default());
    let expected = BTreeMap::from([
        (
            "BeforeClusterCreate-actualResponseStatus".into(),
            "Status: Success, RetryAfterSeconds: 5".into(),
        ),
        (
            "AfterControlPlaneInitialized-actualResponseStatus".into(),
            "Success".into(),
        ),
    ]);
    assert_eq!(recorded(&api).await, expected);
}

#[tokio::test]
async fn errors_are_returned_and_not_recorded() {
    let cluster = Object::try_from(json!({ "metadata": { "name": "demo" } })).unwrap();
    let error = Scene::new(&cluster, &Settings::new(), "BeforeClusterCreate", &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the ExtensionConfig has no setting extensionConfigName"
    );

    let api = ManagementApi::start();
    let scene = scene("BeforeClusterCreate", &[], &[]);
    let key = "BeforeClusterCreate-preloadedResponse";
    for (text, message) in [
        ("{", "as YAML"),
        ("retryAfterSeconds: soon", "as a response"),
        ("- 1", "as a response"),
    ] {
        let object = json!({ "metadata": { "name": NAME }, "data": entry(key, text) });
        api.create::<ConfigMap>(&serde_json::from_value(object).unwrap())
            .await;
        let error = answer::<BeforeClusterCreateResponse>(&Access::new(api.client(), None), &scene)
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("failed to read {key} of ConfigMap {NAME} {message}")
        );
        assert_eq!(recorded(&api).await, entry(key, text));
        api.api::<ConfigMap>()
            .delete(NAME, &DeleteParams::default())
            .await
            .unwrap();
    }

    for (refused, message) in [
        (
            (|method, _| method == "GET") as fn(&str, &str) -> bool,
            "failed to read ConfigMap",
        ),
        (|method, _| method == "POST", "failed to create ConfigMap"),
        (
            |method, _| method == "PATCH",
            "failed to record the response in ConfigMap",
        ),
    ] {
        let client = api.refusing(refused);
        let error = answer::<BeforeClusterCreateResponse>(&Access::new(client, None), &scene)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), format!("{message} {NAME}"));
    }
}

/// A caller that makes up versions cannot fill a ConfigMap.
#[tokio::test]
async fn beyond_so_many_entries_no_new_answer_is_recorded() {
    let api = ManagementApi::start();
    let access = Access::new(api.client(), None);
    let entries: BTreeMap<String, String> = (0..ENTRIES_MAX)
        .map(|number| (format!("entry-{number}"), String::new()))
        .collect();
    let object = json!({ "metadata": { "name": NAME }, "data": entries });
    api.create::<ConfigMap>(&serde_json::from_value(object).unwrap())
        .await;
    let made_up = scene("BeforeClusterUpgrade", &["v1.35.0", "v1.36.0"], &[]);
    let response: BeforeClusterUpgradeResponse = answer(&access, &made_up).await.unwrap();
    assert_eq!(response, BeforeClusterUpgradeResponse::default());
    assert_eq!(recorded(&api).await, entries);
}

#[test]
fn what_makes_no_key_or_name_is_refused() {
    let refused = |name: &str, version: &str| {
        let cluster = json!({ "metadata": { "name": name, "namespace": "default" } });
        let cluster = Object::try_from(cluster).unwrap();
        Scene::new(&cluster, &settings(&[]), "BeforeClusterUpgrade", &[version])
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused("demo", "v1/2"),
        r#""BeforeClusterUpgrade-v1/2" cannot be part of a ConfigMap's key"#
    );
    let long = refused("demo", &"1".repeat(1_000_000));
    assert!(long.len() < 200, "{long}");
    // Each name is allowed, but not the one they make together.
    let long = refused(&"a".repeat(250), "v1.36.0");
    assert!(
        long.ends_with("of the ConfigMap is not a DNS subdomain"),
        "{long}"
    );
}
