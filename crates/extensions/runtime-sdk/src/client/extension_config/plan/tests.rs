use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::{
    client::{
        ClientConfig, DiscoveryProblem, Handler, LabelSelector, OnError,
        extension_config::{ExtensionConfig, Metadata, Status, v1alpha1},
    },
    hooks::{BeforeClusterCreate, Hook, Settings},
    wire,
};

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000_000).unwrap()
}

const NOW: &str = "2001-09-09T01:46:40Z";
const BEFORE: &str = "2000-01-01T00:00:00Z";

fn config(change: impl FnOnce(&mut Value)) -> ExtensionConfig {
    let mut object = json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {
            "name": "ext1", "resourceVersion": "15", "generation": 2, "uid": "u",
            "annotations": { "runtime.cluster.x-k8s.io/inject-ca-from-secret": "ns/secret" },
        },
        "spec": {
            "clientConfig": { "service": { "namespace": "ns", "name": "svc", "port": 443 }, "caBundle": "Y2E=" },
            "namespaceSelector": {}, "settings": { "a": "b" },
        },
        "status": {
            "conditions": [
                { "type": "Paused", "status": "False", "reason": "NotPaused", "message": "",
                  "observedGeneration": 2, "lastTransitionTime": BEFORE },
                { "type": "Discovered", "status": "True", "reason": "Discovered", "message": "",
                  "observedGeneration": 2, "lastTransitionTime": BEFORE },
            ],
            "handlers": [{
                "name": "first.ext1", "timeoutSeconds": 5, "failurePolicy": "Ignore",
                "requestHook": { "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate" },
            }],
        },
    });
    change(&mut object);
    wire::from_value(object).unwrap()
}

fn unchanged(_: &mut Value) {}

fn first() -> Handler {
    Handler {
        name: "first".into(),
        hook: BeforeClusterCreate::id(),
        timeout: Duration::from_secs(5),
        on_error: OnError::Ignore,
    }
}

fn secret() -> SecretRef {
    SecretRef {
        namespace: "ns".into(),
        name: "secret".into(),
    }
}

fn begun(change: impl FnOnce(&mut Value), mode: Mode) -> Step {
    begin(Some(&config(change)), true, mode, now())
}

/// EC-1.
#[test]
fn nothing_is_done_before_the_registry_is_warmed_up() {
    for object in [None, Some(config(unchanged))] {
        for mode in [Mode::ReadOnly, Mode::ReadWrite] {
            assert_eq!(
                begin(object.as_ref(), false, mode, now()),
                Step::Wait(Duration::from_secs(10))
            );
        }
    }
}

/// EC-5.
#[test]
fn what_is_gone_or_going_is_unregistered_though_it_is_paused() {
    for mode in [Mode::ReadOnly, Mode::ReadWrite] {
        assert_eq!(
            begin::<ExtensionConfig>(None, true, mode, now()),
            Step::Unregister
        );
        let going = |object: &mut Value| {
            object["metadata"]["deletionTimestamp"] = json!(NOW);
            object["metadata"]["annotations"][PAUSED_ANNOTATION] = json!("");
        };
        assert_eq!(begun(going, mode), Step::Unregister);
    }
}

/// EC-2: the first reconcile writes only `Paused`.
#[test]
fn whether_it_is_paused_is_written_before_anything_else() {
    let status = |paused: &str, reason: &str, message: &str, at: &str| {
        json!({ "type": "Paused", "status": paused, "reason": reason, "message": message,
                "observedGeneration": 2, "lastTransitionTime": at })
    };
    let Step::Report(patch) = begun(|object| object["status"] = json!(null), Mode::ReadWrite) else {
        panic!("nothing is reported")
    };
    let expected = json!({ "status": {
        "conditions": [status("False", "NotPaused", "", NOW)], "handlers": [],
        "deprecated": { "v1beta1": { "conditions": [] } },
    } });
    assert_eq!(patch, expected);

    let pause = |object: &mut Value| object["metadata"]["annotations"][PAUSED_ANNOTATION] = json!("true");
    let Step::Report(patch) = begun(pause, Mode::ReadWrite) else {
        panic!("nothing is reported")
    };
    let message = "The object has the annotation cluster.x-k8s.io/paused";
    assert_eq!(
        patch["status"]["conditions"][0],
        status("True", "Paused", message, NOW)
    );
    assert_eq!(patch["status"]["conditions"][1]["type"], "Discovered");
    assert_eq!(
        patch["status"]["handlers"][0]["name"], "first.ext1",
        "what was found out stays"
    );

    let paused = |object: &mut Value| {
        pause(object);
        object["status"]["conditions"][0]["status"] = json!("True");
    };
    assert_eq!(begun(paused, Mode::ReadWrite), Step::Keep);
    assert_eq!(begun(paused, Mode::ReadOnly), Step::Keep);
    let released = |object: &mut Value| object["status"]["conditions"][0]["status"] = json!("True");
    assert!(matches!(begun(released, Mode::ReadWrite), Step::Report(_)));
}

/// EC-7, EC-8.
#[test]
fn a_bundle_is_taken_from_the_secret_that_is_named() {
    let object = config(unchanged);
    assert_eq!(begun(unchanged, Mode::ReadWrite), Step::Inject(secret()));
    assert_eq!(inject(&object, &secret(), Some(Some(b"ca"))), Ok(None));
    assert_eq!(
        inject(&object, &secret(), Some(Some(b"new"))),
        Ok(Some(Bytes(b"new".to_vec())))
    );
    let patch = object.ca_bundle_patch(&Bytes(b"new".to_vec()));
    assert_eq!(
        patch,
        json!({ "spec": { "clientConfig": { "caBundle": "bmV3" } } })
    );
    assert_eq!(
        inject(&object, &secret(), None).unwrap_err().to_string(),
        "failed to inject the CA bundle: there is no Secret ns/secret"
    );
    assert_eq!(
        inject(&object, &secret(), Some(None)).unwrap_err().to_string(),
        "failed to inject the CA bundle: Secret ns/secret has no ca.crt"
    );
    let none = |object: &mut Value| object["metadata"]["annotations"] = json!(null);
    assert_eq!(begun(none, Mode::ReadWrite), Step::Discover);
    for text in [
        "ns/../../pods/x",
        "../secret",
        "ns/a/b",
        "ns/a?b",
        "secret",
        "/secret",
        "ns/",
        "",
        "/",
    ] {
        let named = |object: &mut Value| {
            object["metadata"]["annotations"][super::super::INJECT_CA_ANNOTATION] = json!(text);
        };
        assert_eq!(
            begun(named, Mode::ReadWrite),
            Step::CannotInject(InjectError::Name(text.to_owned()))
        );
    }
    assert!(injects_from(&object, "ns", "secret"));
    assert!(!injects_from(&object, "ns", "other") && !injects_from(&config(none), "ns", "secret"));
}

/// EC-2.
#[test]
fn what_was_discovered_is_written_and_registered() {
    let before = config(|object| object["status"]["conditions"].as_array_mut().unwrap().truncate(1));
    let second = Handler {
        name: "second".into(),
        on_error: OnError::Fail,
        ..first()
    };
    let discovered = Discovered {
        handlers: vec![first(), second.clone()],
        skipped: vec![],
    };
    let conclusion = conclude(&before, &Finding::Discovered(discovered), now());
    let hook =
        json!({ "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate" });
    let expected = json!({ "status": {
        "conditions": [
            { "type": "Paused", "status": "False", "reason": "NotPaused", "message": "",
              "observedGeneration": 2, "lastTransitionTime": BEFORE },
            { "type": "Discovered", "status": "True", "reason": "Discovered", "message": "",
              "observedGeneration": 2, "lastTransitionTime": NOW },
        ],
        "handlers": [
            { "name": "first.ext1", "requestHook": hook, "timeoutSeconds": 5, "failurePolicy": "Ignore" },
            { "name": "second.ext1", "requestHook": hook, "timeoutSeconds": 5, "failurePolicy": "Fail" },
        ],
        "deprecated": { "v1beta1": { "conditions": [
            { "type": "Discovered", "status": "True", "lastTransitionTime": NOW },
        ] } },
    } });
    let handlers = Some(vec![first(), second]);
    assert_eq!(
        conclusion,
        Conclusion {
            status: Some(expected),
            handlers
        }
    );
}

#[test]
fn a_status_that_says_so_already_is_not_written() {
    let discovered = Finding::Discovered(Discovered {
        handlers: vec![first()],
        skipped: vec![],
    });
    let same = conclude(&config(unchanged), &discovered, now());
    assert_eq!(
        same,
        Conclusion {
            status: None,
            handlers: Some(vec![first()])
        }
    );
    let newer = conclude(
        &config(|object| object["metadata"]["generation"] = json!(3)),
        &discovered,
        now(),
    );
    let conditions = &newer.status.unwrap()["status"]["conditions"];
    for condition in conditions.as_array().unwrap() {
        assert_eq!(
            (&condition["observedGeneration"], &condition["lastTransitionTime"]),
            (&json!(3), &json!(BEFORE))
        );
    }
}

/// EC-6: the handlers stay, in the status and in the registry.
#[test]
fn a_failed_discovery_is_reported_and_removes_no_handlers() {
    let finding = Finding::NotDiscovered("failed to discover extension \"ext1\": gone".into());
    let conclusion = conclude(&config(unchanged), &finding, now());
    assert_eq!(conclusion.handlers, None);
    let status = &conclusion.status.unwrap()["status"];
    let message = "Error in discovery: failed to discover extension \"ext1\": gone";
    let expected = json!({ "type": "Discovered", "status": "False", "reason": "NotDiscovered", "message": message,
        "observedGeneration": 2, "lastTransitionTime": NOW });
    assert_eq!(status["conditions"][1], expected);
    assert_eq!(status["handlers"][0]["name"], "first.ext1");
    let legacy = json!([{ "type": "Discovered", "status": "False", "severity": "Error", "reason": "DiscoveryFailed",
        "message": message, "lastTransitionTime": NOW }]);
    assert_eq!(status["deprecated"]["v1beta1"]["conditions"], legacy);
    let long = conclude(
        &config(unchanged),
        &Finding::NotDiscovered("x".repeat(100_000)),
        now(),
    );
    let length = long.status.unwrap()["status"]["conditions"][1]["message"]
        .as_str()
        .unwrap()
        .len();
    assert!(length < 32_768, "{length}");
}

/// EC-3, EC-9.
#[test]
fn what_another_process_looks_after_is_registered_when_that_is_done() {
    let registration = Registration {
        name: "ext1".into(),
        resource_version: "15".into(),
        client_config: config(unchanged).spec.client_config,
        namespace_selector: Some(LabelSelector::default()),
        settings: Settings::from([("a".to_owned(), "b".to_owned())]),
        handlers: vec![first()],
    };
    assert_eq!(
        begun(unchanged, Mode::ReadOnly),
        Step::Register(Box::new(registration))
    );
    let refused = |change: fn(&mut Value)| match begun(change, Mode::ReadOnly) {
        Step::Refuse(unusable) => unusable,
        other => panic!("{other:?}"),
    };
    let no_bundle = refused(|object| object["spec"]["clientConfig"]["caBundle"] = json!(null));
    assert_eq!(no_bundle.to_string(), "caBundle is not set");
    assert_eq!(
        refused(|object| object["status"] = json!(null)),
        Unusable::NotYetDiscovered
    );
    assert_eq!(
        refused(|object| object["status"]["conditions"][1]["status"] = json!("False")),
        Unusable::NotDiscovered("False".into())
    );
    assert_eq!(
        refused(|object| object["metadata"]["generation"] = json!(3)),
        Unusable::Outdated {
            generation: 3,
            observed: 2
        }
    );
    assert!(matches!(
        refused(|object| object["status"]["handlers"][0]["requestHook"]["apiVersion"] = json!("a/b/c")),
        Unusable::Handler(_)
    ));
}

#[test]
fn the_former_version_has_its_conditions_elsewhere() {
    let object: v1alpha1::ExtensionConfig = wire::from_value(json!({
        "metadata": { "name": "ext1", "generation": 1 },
        "spec": { "clientConfig": { "url": "https://e", "service": null }, "namespaceSelector": null },
        "status": {
            "conditions": [{ "type": "Other", "status": "True", "lastTransitionTime": BEFORE }],
            "v1beta2": { "conditions": [{ "type": "Paused", "status": "False", "reason": "NotPaused" }] },
        },
    }))
    .unwrap();
    assert_eq!(object.namespace_selector(), None);
    assert_eq!(
        object.client_config(),
        ClientConfig {
            url: "https://e".into(),
            ..ClientConfig::default()
        }
    );
    assert_eq!(begin(Some(&object), true, Mode::ReadWrite, now()), Step::Discover);
    let conclusion = conclude(&object, &Finding::Discovered(Discovered::default()), now());
    let status = &conclusion.status.unwrap()["status"];
    let kinds = |conditions: &Value| -> Vec<String> {
        conditions
            .as_array()
            .unwrap()
            .iter()
            .map(|condition| condition["type"].to_string())
            .collect()
    };
    assert_eq!(kinds(&status["conditions"]), ["\"Other\"", "\"Discovered\""]);
    assert_eq!(
        kinds(&status["v1beta2"]["conditions"]),
        ["\"Paused\"", "\"Discovered\""]
    );
}

/// A provider's own kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Own {
    metadata: Metadata,
    status: OwnStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OwnStatus {
    conditions: Vec<Condition>,
}

impl ExtensionKind for Own {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Own";
    const PLURAL: &'static str = "owns";

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn client_config(&self) -> ClientConfig {
        ClientConfig {
            url: "https://own".into(),
            ..ClientConfig::default()
        }
    }

    fn namespace_selector(&self) -> Option<LabelSelector> {
        Some(LabelSelector::default())
    }

    fn settings(&self) -> Settings {
        Settings::new()
    }

    fn status(&self) -> Status {
        Status {
            conditions: self.status.conditions.clone(),
            handlers: vec![],
        }
    }
}

/// Upstream writes no condition for a missing bundle. An object of an own kind needs no bundle in a read-only process.
#[test]
fn an_own_kind_says_what_was_left_out_and_that_there_is_no_bundle() {
    let finding = Finding::NotInjected(InjectError::NoSecret(secret()));
    assert_eq!(
        conclude(&config(unchanged), &finding, now()),
        Conclusion {
            status: None,
            handlers: None
        }
    );
    let reason = |finding: &Finding| {
        let status = conclude(&Own::default(), finding, now()).status.unwrap();
        let condition = status["status"]["conditions"][0].clone();
        ["status", "reason", "message"].map(|field| condition[field].as_str().unwrap().to_owned())
    };
    let message = "failed to inject the CA bundle: there is no Secret ns/secret";
    assert_eq!(reason(&finding), ["False", "CABundleNotInjected", message]);
    let skipped = vec![DiscoveryProblem::UnknownHook {
        handler: "h".into(),
        api_version: "g/v1".into(),
        hook: "New".into(),
    }];
    let left_out = Finding::Discovered(Discovered {
        handlers: vec![],
        skipped,
    });
    let message = "Left out: requestHook g/v1/New of handler \"h\" is not in the Runtime SDK catalog";
    assert_eq!(reason(&left_out), ["True", "Discovered", message]);
    let mut own = Own::default();
    own.status
        .conditions
        .push(Condition::new(DISCOVERED, true, "Discovered", ""));
    assert!(usable(&own).is_ok());
}

#[test]
fn what_was_last_known_is_there_for_when_an_extension_is_dead() {
    let object = config(unchanged);
    let dead = candidate(&object, Err("dead".into()));
    assert_eq!(dead.last_known, Some(object.known_registration().unwrap()));
    let never = candidate(
        &config(|object| object["status"] = json!(null)),
        Err("dead".into()),
    );
    assert_eq!(
        never,
        Candidate {
            name: "ext1".into(),
            found: Err("dead".into()),
            last_known: None
        }
    );
}
