//! Malformed bodies: whatever the body, a served call is answered, and no handler panics.
#![allow(clippy::unwrap_used, reason = "what fails here has failed the test")]

mod recorded;

use std::{fmt::Debug, sync::LazyLock};

use axum::{Router, body::Body};
use http_body_util::BodyExt as _;
use hyper::{Request, StatusCode};
use nephele_runtime_sdk::{
    catalog::Catalog,
    hooks::{self, Hook},
    server::{Extension, Recording},
    topology::Walk,
    wire,
};
use proptest::{prelude::*, sample::Index};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tower::ServiceExt as _;

macro_rules! every_hook {
    ($do:ident) => {
        $do! {
            BeforeClusterCreate, AfterControlPlaneInitialized, BeforeClusterUpgrade, BeforeControlPlaneUpgrade,
            AfterControlPlaneUpgrade, BeforeWorkersUpgrade, AfterWorkersUpgrade, AfterClusterUpgrade,
            BeforeClusterDelete, ValidateTopology, DiscoverVariables, CanUpdateMachine, CanUpdateMachineSet,
            GenerateUpgradePlan,
        }
    };
}

/// An extension with a handler for every hook; some of them read their request.
fn extension() -> Extension {
    let mut extension = Extension::new()
        .on(hooks::GeneratePatches, "patches", |request, _| async move {
            Walk::new()
                .on_others(|template| {
                    let zone = template.variables.find("a.b[0].c")?.cloned().unwrap_or_default();
                    if let Some(fields) = template.object.as_object_mut() {
                        fields.insert("zone".into(), zone);
                    }
                    Ok(())
                })
                .patches(&request)
        })
        .on(hooks::UpdateMachine, "update", |request, _| async move {
            Ok(match request.desired.machine.name() {
                "" => hooks::UpdateMachineResponse::default(),
                _ => hooks::UpdateMachineResponse::retry_after(5, "busy"),
            })
        });
    macro_rules! add {
        ($($hook:ident,)+) => {
            $(extension = extension.on(hooks::$hook, stringify!($hook).to_lowercase(), |_, _| async {
                Ok(<hooks::$hook as Hook>::Response::default())
            });)+
        };
    }
    every_hook!(add);
    extension
}

static ROUTER: LazyLock<(Router, Vec<String>)> = LazyLock::new(|| {
    let service = extension().build().unwrap();
    (service.router(), service.paths().map(ToOwned::to_owned).collect())
});

static MESSAGES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let fixtures: Map<String, Value> =
        serde_json::from_str(include_str!("fixtures/messages-1.14.json")).unwrap();
    fixtures
        .into_values()
        .flat_map(|messages| messages.as_array().unwrap().clone())
        .collect()
});

fn answer(path: &str, body: Vec<u8>) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let request = Request::post(path).body(Body::from(body)).unwrap();
        let response = ROUTER.0.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
    })
}

fn check(answer: &Value) -> Result<(), TestCaseError> {
    let status = answer["status"].as_str().unwrap();
    prop_assert!(["Success", "Failure"].contains(&status), "{answer}");
    let message = answer["message"].as_str().unwrap_or_default();
    prop_assert!(!message.contains("panicked"), "{answer}");
    prop_assert!(status == "Success" || !message.is_empty(), "{answer}");
    Ok(())
}

/// A change of a body.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(Index, u8),
    Remove(Index, u8),
    Insert(Index, Vec<u8>),
    Truncate(Index),
    Repeat(Index, u8),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    // Bytes with a meaning in JSON are drawn more often.
    let byte = prop_oneof![prop::sample::select(br#"{}[]",:\nue0-9. "#.to_vec()), any::<u8>()];
    prop_oneof![
        (any::<Index>(), byte.clone()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (any::<Index>(), 1_u8..20).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (any::<Index>(), prop::collection::vec(byte, 1..8))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        any::<Index>().prop_map(Mutation::Truncate),
        (any::<Index>(), 1_u8..40).prop_map(|(at, length)| Mutation::Repeat(at, length)),
    ]
}

fn mutate(body: &mut Vec<u8>, mutation: &Mutation) {
    if body.is_empty() {
        return;
    }
    let range = |at: &Index, length: u8| {
        let at = at.index(body.len());
        at..(at + usize::from(length)).min(body.len())
    };
    match mutation {
        Mutation::Replace(at, byte) => {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        Mutation::Remove(at, length) => {
            body.drain(range(at, *length));
        }
        Mutation::Insert(at, bytes) => {
            let at = at.index(body.len());
            body.splice(at..at, bytes.iter().copied());
        }
        Mutation::Truncate(at) => body.truncate(at.index(body.len())),
        Mutation::Repeat(at, length) => {
            let range = range(at, *length);
            let again = body[range.clone()].to_vec();
            body.splice(range.start..range.start, again);
        }
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Numbers that serde_json reads exactly: up to 15 digits.
        (any::<i32>(), 0..6).prop_map(|(digits, point)| Value::from(f64::from(digits) / 10_f64.powi(point))),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        prop::sample::select(vec![
            "settings",
            "cluster",
            "items",
            "variables",
            "object",
            "holderReference",
            "apiVersion",
            "name",
            "value",
            "uid",
            "metadata",
            "current",
            "desired",
            "Machine",
            "SETTINGS",
            "patch",
            "patchType",
            "status",
            "retryAfterSeconds",
            "handlers",
            "requestHook",
            "timeoutSeconds",
            "controlPlaneUpgrades",
            "a",
            "b",
            "c",
        ])
        .prop_map(ToOwned::to_owned),
        "\\PC{0,4}",
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

static RECORDINGS: LazyLock<Vec<Recording>> = LazyLock::new(recorded::all);

/// Recorded bodies of Cluster API, with the paths they were sent to.
static RECORDED: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
    let path = |recorded: &str| {
        let hook = recorded.split('/').nth(3).unwrap();
        let served = |path: &&String| path.split('/').nth(3) == Some(hook);
        ROUTER.1.iter().find(served).unwrap().clone()
    };
    RECORDINGS
        .iter()
        .map(|recording| (path(&recording.path), recording.request.clone()))
        .collect()
});

/// The paths of all values in a value.
fn places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, places: &mut Vec<String>) {
        places.push(at.to_owned());
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    walk(
                        value,
                        &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                        places,
                    );
                }
            }
            Value::Array(elements) => {
                elements
                    .iter()
                    .enumerate()
                    .for_each(|(index, value)| walk(value, &format!("{at}/{index}"), places));
            }
            _ => {}
        }
    }
    let mut places = Vec::new();
    walk(value, "", &mut places);
    places
}

/// A change of the content of a body, which stays JSON.
#[derive(Clone, Debug)]
enum Twist {
    /// Replace the value.
    Put(Value),
    /// Nest the value in itself.
    Wrap,
    /// Add something to a list or object.
    Add(Value),
    /// Write the field names of an object in capitals.
    Shout,
}

fn twist() -> impl Strategy<Value = Twist> {
    prop_oneof![
        3 => json().prop_map(Twist::Put),
        2 => Just(Twist::Put(Value::Null)),
        1 => Just(Twist::Wrap),
        1 => json().prop_map(Twist::Add),
        1 => Just(Twist::Shout),
    ]
}

fn apply(body: &mut Value, place: &Index, twist: &Twist) {
    let places = places(body);
    let Some(value) = body.pointer_mut(place.get::<String>(&places)) else {
        return;
    };
    match (twist, value) {
        (Twist::Put(other), value) => *value = other.clone(),
        (Twist::Wrap, value) => *value = serde_json::json!([value.take()]),
        (Twist::Add(other), Value::Array(elements)) => elements.insert(0, other.clone()),
        (Twist::Add(other), Value::Object(fields)) => drop(fields.insert("unheardOf".into(), other.clone())),
        (Twist::Shout, Value::Object(fields)) => {
            *fields = std::mem::take(fields)
                .into_iter()
                .map(|(key, value)| (key.to_uppercase(), value))
                .collect();
        }
        (Twist::Add(_) | Twist::Shout, _) => {}
    }
}

/// Reads the bytes as a response of every hook.
fn read_responses(bytes: &[u8]) {
    let catalog = Catalog::cluster_api();
    macro_rules! read {
        ($($hook:ident,)+) => {
            $(let _ = catalog.read_response::<hooks::$hook>(bytes, &hooks::$hook::id());)+
        };
    }
    every_hook!(read);
    let _ = catalog.read_response::<hooks::Discovery>(bytes, &hooks::Discovery::id());
    let _ = catalog.read_response::<hooks::GeneratePatches>(bytes, &hooks::GeneratePatches::id());
    let _ = catalog.read_response::<hooks::UpdateMachine>(bytes, &hooks::UpdateMachine::id());
    let _ = wire::from_slice::<Value>(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_answered(path in any::<Index>(), body in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&answer(path.get::<String>(&ROUTER.1), body.clone()))?;
        read_responses(&body);
    }

    #[test]
    fn any_json_is_answered(path in any::<Index>(), body in json()) {
        check(&answer(path.get::<String>(&ROUTER.1), body.to_string().into_bytes()))?;
        read_responses(body.to_string().as_bytes());
    }

    #[test]
    fn spoilt_messages_are_answered(
        path in any::<Index>(),
        message in any::<Index>(),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let mut body = message.get(&MESSAGES).to_string().into_bytes();
        for mutation in &mutations {
            mutate(&mut body, mutation);
        }
        check(&answer(path.get::<String>(&ROUTER.1), body.clone()))?;
        read_responses(&body);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// Recorded bodies with some values replaced and some bytes damaged.
    #[test]
    fn spoilt_recordings_are_answered(
        recorded in any::<Index>(),
        elsewhere in prop::option::weighted(0.1, any::<Index>()),
        twists in prop::collection::vec((any::<Index>(), twist()), 0..4),
        mutations in prop::collection::vec(mutation(), 0..3),
    ) {
        let (path, request) = recorded.get::<(String, Value)>(&RECORDED);
        let mut request = request.clone();
        for (place, twist) in &twists {
            apply(&mut request, place, twist);
        }
        let mut body = request.to_string().into_bytes();
        for mutation in &mutations {
            mutate(&mut body, mutation);
        }
        let path = elsewhere.map_or(path, |elsewhere| elsewhere.get::<String>(&ROUTER.1));
        check(&answer(path, body))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    /// A damaged response is either refused, or stays the same when it is written and read again.
    #[test]
    fn spoilt_responses_are_refused_or_read_the_same_again(
        recorded in any::<Index>(),
        twists in prop::collection::vec((any::<Index>(), twist()), 0..4),
        mutations in prop::collection::vec(mutation(), 0..3),
    ) {
        fn again<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
            if let Ok(read) = wire::from_slice::<T>(bytes) {
                let written = serde_json::to_vec(&read).unwrap();
                prop_assert_eq!(wire::from_slice::<T>(&written).unwrap(), read);
            }
            Ok(())
        }
        let mut response = recorded.get::<Recording>(&RECORDINGS).response.clone();
        for (place, twist) in &twists {
            apply(&mut response, place, twist);
        }
        let mut body = response.to_string().into_bytes();
        for mutation in &mutations {
            mutate(&mut body, mutation);
        }
        read_responses(&body);
        again::<hooks::DiscoveryResponse>(&body)?;
        again::<hooks::GeneratePatchesResponse>(&body)?;
        again::<hooks::DiscoverVariablesResponse>(&body)?;
        again::<hooks::GenerateUpgradePlanResponse>(&body)?;
        again::<hooks::BeforeClusterCreateResponse>(&body)?;
        again::<hooks::CanUpdateMachineResponse>(&body)?;
    }
}

/// An empty patch type is read as an absent one, because Go does not distinguish the two.
#[test]
fn a_patch_of_an_empty_type_has_none() {
    let read = |text: &str| wire::from_slice::<hooks::CanUpdateMachineResponse>(text.as_bytes()).unwrap();
    let empty = read(r#"{"machinePatch": {"patchType": "", "patch": "W10="}}"#);
    assert_eq!(empty, read(r#"{"machinePatch": {"patch": "W10="}}"#));
    assert_eq!(read(r#"{"machinePatch": {"patchType": ""}}"#), read("{}"));
}

#[test]
fn recordings_are_answered_with_success() {
    for (path, request) in RECORDED.iter() {
        assert_eq!(
            answer(path, request.to_string().into_bytes())["status"],
            "Success",
            "{path}"
        );
    }
}

/// A message sent to the path of another hook is read as a request or refused.
#[test]
fn every_message_at_every_path_is_answered() {
    for path in &ROUTER.1 {
        for message in MESSAGES.iter() {
            check(&answer(path, message.to_string().into_bytes())).unwrap();
        }
    }
    assert_eq!(ROUTER.1.len(), 17);
}

#[test]
fn deep_bodies_are_refused_and_do_not_overflow() {
    let deep = format!("{}{}", r#"{"cluster":"#.repeat(50_000), "1");
    for path in &ROUTER.1 {
        for body in ["[".repeat(100_000), deep.clone()] {
            assert_eq!(answer(path, body.into_bytes())["status"], "Failure", "{path}");
        }
    }
}

#[test]
fn no_pattern_takes_longer_than_its_length_allows() {
    nephele_growth::assert_linear("body", 64 * 1024, &["", "{\"cluster\": ", "{\"a\": ["], |text| {
        let _ = wire::from_slice::<hooks::GenerateUpgradePlanRequest>(text.as_bytes());
        let _ = wire::from_slice::<hooks::BeforeClusterCreateRequest>(text.as_bytes());
    });
}
