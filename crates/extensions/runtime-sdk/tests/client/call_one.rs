//! Calls of one handler by its name.

use std::collections::BTreeMap;

use nephele_runtime_sdk::{
    catalog::{Catalog, ConversionError, Convert},
    client::{
        CallError, Client, LabelSelector, LabelSelectorRequirement, OnError, Registration, Registry, Subject,
        chain,
    },
    hooks::{
        AfterClusterUpgrade, BeforeClusterCreate, BeforeClusterCreateResponse, Hook, HookMeta,
        ResponseStatus, Settings,
    },
    request, response,
};
use serde_json::json;

use crate::script::{
    Answer, ONE, Script, client, failure, handler, one, registration, request, subject, success,
};

const POLICIES: [OnError; 2] = [OnError::Fail, OnError::Ignore];

async fn call(client: &Client) -> Result<BeforeClusterCreateResponse, CallError> {
    client
        .call::<BeforeClusterCreate>(ONE, &subject(), &request())
        .await
}

/// Calls once. Returns the answer, and how often the extension was called.
async fn call_counted(
    answer: Answer,
    on_error: OnError,
) -> (Result<BeforeClusterCreateResponse, String>, usize) {
    let script = Script::always(answer);
    let called = call(&client(&script, [one(on_error)])).await;
    (called.map_err(|error| chain(&error)), script.count())
}

#[tokio::test(start_paused = true)]
async fn the_extension_is_asked_at_the_path_of_the_hook_and_the_handler() {
    let script = Script::always(Answer::Json(json!({
        "status": "Success", "message": "soon", "retryAfterSeconds": 5, "unknown": null,
    })));
    let response = call(&client(&script, [one(OnError::Fail)])).await.unwrap();
    assert_eq!(response, BeforeClusterCreateResponse::retry_after(5, "soon"));
    let [asked] = script.asked().try_into().unwrap();
    assert_eq!(asked.host, "ext");
    let path = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/valid-extension";
    assert_eq!((asked.path.as_str(), asked.query.as_str()), (path, "timeout=10s"));
    let body = json!({
        "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1",
        "kind": "BeforeClusterCreateRequest",
        "cluster": { "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster" },
    });
    assert_eq!(asked.body, body);
}

/// CALL-2, CALL-3, and a hook that the catalog does not have (CLI-3).
#[tokio::test(start_paused = true)]
async fn what_cannot_be_called_is_not() {
    let script = Script::always(success());
    let upgrade = handler::<AfterClusterUpgrade>("valid-extension", OnError::Ignore);
    let client = client(&script, [registration("ext", vec![upgrade])]);
    let error = call(&client).await.unwrap_err();
    assert_eq!(
        chain(&error),
        "failed to call extension handler \"valid-extension.ext\": it does not answer \
         BeforeClusterCreate.hooks.runtime.cluster.x-k8s.io"
    );
    let error = client
        .call::<BeforeClusterCreate>("other.ext", &subject(), &request())
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "failed to call extension handler \"other.ext\": there is no extension handler \"other.ext\""
    );
    let empty = Client::builder(Catalog::empty())
        .registry(client.registry().clone())
        .build();
    assert_eq!(call(&empty).await.unwrap_err().category(), "unknown");
    let cold = Client::builder(Catalog::cluster_api())
        .registry(Registry::new())
        .build();
    assert_eq!(call(&cold).await.unwrap_err().category(), "readiness");
    assert_eq!(script.count(), 0);
}

/// CALL-4.
#[tokio::test(start_paused = true)]
async fn a_success_is_one_under_either_policy() {
    for on_error in POLICIES {
        assert_eq!(
            call_counted(success(), on_error).await,
            (Ok(BeforeClusterCreateResponse::default()), 1)
        );
    }
}

/// CALL-5.
#[tokio::test(start_paused = true)]
async fn a_failure_is_one_under_either_policy() {
    for on_error in POLICIES {
        let error =
            "failed to call extension handler \"valid-extension.ext\": got failure response with message: no";
        assert_eq!(
            call_counted(failure(), on_error).await,
            (Err(error.to_owned()), 1)
        );
    }
}

/// CALL-6, and all other reasons for having no response.
#[tokio::test(start_paused = true)]
async fn what_does_not_come_about_passes_with_ignore() {
    for (answer, asked) in [
        (Answer::Refuse, 3), // The call is retried twice.
        (Answer::Reset, 1),
        (Answer::Silent, 1),
        (Answer::Raw(404, b"404 page not found"), 1),
        (Answer::Raw(500, b""), 1),
        (Answer::Raw(301, b""), 1),
        (Answer::Raw(200, b"no json"), 1),
        (Answer::Raw(200, b"{\"status\": \"Success\""), 1),
        (Answer::Raw(200, b"[]"), 1),
        (Answer::Raw(200, b""), 1),
        (
            Answer::Json(json!({ "status": "Success", "retryAfterSeconds": "5" })),
            1,
        ),
    ] {
        assert_eq!(
            call_counted(answer.clone(), OnError::Ignore).await,
            (Ok(BeforeClusterCreateResponse::default()), asked),
            "{answer:?}"
        );
    }
}

/// CALL-7. The text ends up in conditions.
#[tokio::test(start_paused = true)]
async fn what_does_not_come_about_is_an_error_with_fail() {
    for (answer, expected) in [
        (
            Answer::Refuse,
            "http call failed: failed to connect: connection refused",
        ),
        (Answer::Silent, "no answer came in 10s"),
        (
            Answer::Raw(404, b"404 page not found"),
            "http call failed: got response with status code 404 != 200: \"404 page not found\"",
        ),
        (
            Answer::Raw(200, b"nothing"),
            "http call failed: failed to read the response of hooks.runtime.cluster.x-k8s.io/v1alpha1, \
             Hook=BeforeClusterCreate: expected ident at line 1 column 2",
        ),
    ] {
        let (called, _) = call_counted(answer, OnError::Fail).await;
        assert_eq!(
            called.unwrap_err(),
            format!("failed to call extension handler \"valid-extension.ext\": {expected}")
        );
    }
}

/// CALL-8. An absent status is unknown too, and so is `null`.
#[tokio::test(start_paused = true)]
async fn an_unknown_status_is_an_error_under_either_policy() {
    for on_error in POLICIES {
        for (answer, status) in [
            (json!({ "status": "Unknown", "message": "m" }), "Unknown"),
            (json!({ "message": "m" }), ""),
            (json!({ "status": null, "message": "m" }), ""),
            (json!({ "status": "success", "message": "m" }), "success"),
        ] {
            let (called, _) = call_counted(Answer::Json(answer), on_error).await;
            let expected = format!("got unknown response status {status:?} with message: m");
            assert!(called.as_ref().unwrap_err().ends_with(&expected), "{called:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_is_read_as_go_reads_it() {
    let body = br#"{"Status": "Success", "RETRYAFTERSECONDS": 3, "message": null} trailing"#;
    let script = Script::always(Answer::Raw(200, body));
    let response = call(&client(&script, [one(OnError::Fail)])).await.unwrap();
    assert_eq!(response, BeforeClusterCreateResponse::retry_after(3, ""));
}

/// SET-1 to SET-4.
#[tokio::test(start_paused = true)]
async fn settings_of_the_call_are_over_those_of_the_registration() {
    let settings = |pairs: &[(&str, &str)]| -> Settings {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    for (of_call, of_registration, expected) in [
        (vec![("a", "1")], vec![], json!({ "a": "1" })),
        (vec![], vec![("a", "2")], json!({ "a": "2" })),
        (
            vec![("a", "1"), ("b", "1")],
            vec![("a", "2"), ("c", "2")],
            json!({ "a": "1", "b": "1", "c": "2" }),
        ),
        (vec![], vec![], json!(null)),
    ] {
        let script = Script::always(success());
        let registered = Registration {
            settings: settings(&of_registration),
            ..one(OnError::Fail)
        };
        let client = client(&script, [registered]);
        let mut request = request();
        request.settings = settings(&of_call);
        let before = request.clone();
        client
            .call::<BeforeClusterCreate>(ONE, &subject(), &request)
            .await
            .unwrap();
        client
            .call_all::<BeforeClusterCreate>(&subject(), &request)
            .await
            .unwrap();
        assert_eq!(request, before);
        request.settings.clear();
        client
            .call::<BeforeClusterCreate>(ONE, &subject(), &request)
            .await
            .unwrap();
        let asked: Vec<_> = script
            .asked()
            .into_iter()
            .map(|asked| asked.body["settings"].clone())
            .collect();
        let registered_only = serde_json::to_value(settings(&of_registration)).unwrap();
        let registered_only = if of_registration.is_empty() {
            json!(null)
        } else {
            registered_only
        };
        assert_eq!(asked, [expected.clone(), expected, registered_only]);
    }
}

/// NS-1 to NS-3, for one handler. A call of a handler that does not select the namespace is an error.
#[tokio::test(start_paused = true)]
async fn a_handler_is_called_only_for_the_namespaces_it_is_selected_for() {
    let script = Script::always(success());
    let requirement = LabelSelectorRequirement {
        key: "kubernetes.io/metadata.name".into(),
        operator: "In".into(),
        values: vec!["foo".into()],
    };
    let selector = LabelSelector {
        match_expressions: vec![requirement],
        ..LabelSelector::default()
    };
    let selecting = |namespace_selector| Registration {
        namespace_selector,
        ..one(OnError::Ignore)
    };
    let called = client(&script, [selecting(Some(selector))]);
    let at = |namespace: &str| Subject::new(namespace, "c");
    called
        .call::<BeforeClusterCreate>(ONE, &at("foo"), &request())
        .await
        .unwrap();
    for (namespace, expected) in [
        ("bar", "its namespace selector does not match bar/c"),
        (
            "gone",
            "failed to match the namespace: there is no namespace \"gone\"",
        ),
    ] {
        let error = called
            .call::<BeforeClusterCreate>(ONE, &at(namespace), &request())
            .await
            .unwrap_err();
        assert_eq!(
            chain(&error),
            format!("failed to call extension handler \"valid-extension.ext\": {expected}")
        );
    }
    // With an empty selector the namespace is not read. Without a selector nothing matches.
    let everywhere = client(&script, [selecting(Some(LabelSelector::default()))]);
    everywhere
        .call::<BeforeClusterCreate>(ONE, &at("gone"), &request())
        .await
        .unwrap();
    let nowhere = client(&script, [selecting(None)]);
    let error = nowhere
        .call::<BeforeClusterCreate>(ONE, &at("foo"), &request())
        .await
        .unwrap_err();
    assert_eq!(error.category(), "not_selected");
    assert_eq!(script.count(), 2);
}

request! {
    struct OldRequest { name: String }
}
response! {
    struct OldResponse: plain { first: String }
}
request! {
    struct NewRequest { name: String, reason: String }
}
response! {
    struct NewResponse: plain { first: String, second: String }
}

macro_rules! fake {
    ($hook:ident, $version:literal, $request:ty, $response:ty) => {
        struct $hook;
        impl Hook for $hook {
            type Request = $request;
            type Response = $response;
            const GROUP: &'static str = "test.example.com";
            const VERSION: &'static str = $version;
            const NAME: &'static str = "Fake";
            const META: HookMeta = HookMeta::new("A hook of a test");
        }
    };
}

fake!(Old, "v1alpha1", OldRequest, OldResponse);
fake!(New, "v1alpha2", NewRequest, NewResponse);

impl Convert<Old> for New {
    fn request(request: NewRequest) -> Result<OldRequest, ConversionError> {
        match request.reason.as_str() {
            "unsayable" => Err(ConversionError::Unsaid("no reasons in v1alpha1".into())),
            _ => Ok(OldRequest {
                settings: request.settings,
                name: request.name,
            }),
        }
    }

    fn response(response: OldResponse) -> Result<NewResponse, ConversionError> {
        match response.first.as_str() {
            "unreadable" => Err(ConversionError::Unsaid("no such thing in v1alpha2".into())),
            _ => Ok(NewResponse {
                status: response.status,
                message: response.message,
                first: response.first,
                ..NewResponse::default()
            }),
        }
    }
}

fn versions(script: &std::sync::Arc<Script>) -> Client {
    let mut catalog = Catalog::empty();
    catalog
        .add::<Old>()
        .unwrap()
        .add::<New>()
        .unwrap()
        .add_conversion::<New, Old>()
        .unwrap();
    let old = handler::<Old>("old", OnError::Ignore);
    Client::builder(catalog)
        .registry(Registry::of([registration("ext", vec![old])]).unwrap())
        .namespaces(BTreeMap::new())
        .transport(script.clone())
        .build()
}

/// CLI-4, CLI-5.
#[tokio::test(start_paused = true)]
async fn an_extension_of_another_version_is_spoken_to_in_its_own() {
    let script = Script::always(Answer::Json(
        json!({ "status": "Success", "first": "1", "second": "2" }),
    ));
    let client = versions(&script);
    let request = NewRequest {
        name: "n".into(),
        reason: "r".into(),
        ..NewRequest::default()
    };
    let response = client.call::<New>("old.ext", &subject(), &request).await.unwrap();
    assert_eq!(
        response,
        NewResponse {
            first: "1".into(),
            ..NewResponse::default()
        }
    );
    let [asked] = script.asked().try_into().unwrap();
    assert_eq!(asked.path, "/test.example.com/v1alpha1/fake/old");
    let expected = json!({ "apiVersion": "test.example.com/v1alpha1", "kind": "FakeRequest", "name": "n" });
    assert_eq!(asked.body, expected);
    let same = client
        .call::<Old>("old.ext", &subject(), &OldRequest::default())
        .await
        .unwrap();
    assert_eq!(
        same,
        OldResponse {
            first: "1".into(),
            ..OldResponse::default()
        }
    );
    assert_eq!(client.handlers::<New>(&subject()).await.unwrap(), ["old.ext"]);
}

/// Upstream ignores these errors with the policy `Ignore`, contrary to its documentation.
#[tokio::test(start_paused = true)]
async fn a_conversion_that_fails_is_an_error_though_the_policy_is_ignore() {
    let script = Script::always(Answer::Json(
        json!({ "status": "Success", "first": "unreadable" }),
    ));
    let client = versions(&script);
    let unsayable = NewRequest {
        reason: "unsayable".into(),
        ..NewRequest::default()
    };
    for (request, asked) in [(unsayable, 0), (NewRequest::default(), 1)] {
        let error = client
            .call::<New>("old.ext", &subject(), &request)
            .await
            .unwrap_err();
        assert_eq!((error.category(), script.count()), ("conversion", asked));
    }
}

#[tokio::test(start_paused = true)]
async fn long_messages_of_an_extension_are_cut() {
    let message = "ü".repeat(10_000);
    let script = Script::always(Answer::Json(json!({ "status": "Failure", "message": message })));
    let error = chain(&call(&client(&script, [one(OnError::Fail)])).await.unwrap_err());
    assert!(
        error.len() < 4300 && error.ends_with("ü..."),
        "{} bytes",
        error.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_ignored_is_a_success_without_a_word() {
    // The response has the status `Success` even when its default has not.
    let script = Script::always(Answer::Refuse);
    let response = call(&client(&script, [one(OnError::Ignore)])).await.unwrap();
    assert_eq!(
        (response.status, response.message.as_str()),
        (ResponseStatus::Success, "")
    );
}
