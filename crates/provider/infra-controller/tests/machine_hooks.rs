//! Extensions are called for machines, over real TLS, with the Runtime SDK on both sides.

use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, types},
    core::Cluster,
    infrastructure::v1beta2::InMemoryMachine,
};
use nephele_machine_hooks::{Instance, InstanceAddress};
use nephele_runtime_sdk::server::HandlerOptions;
use nephele_testkit::objects;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    extension::{Extension, Question, Say, configs, touch, unregister},
    world::{Setup, World},
};

const BEFORE: &str = "BeforeMachineCreate";
const AFTER: &str = "AfterMachineDelete";
/// Longer than any test.
const LONG: u16 = u16::MAX;

/// A cluster whose workers may boot.
async fn start(first_port: u16) -> World {
    let world = World::start_with(Setup {
        extensions: true,
        ..Setup::at(first_port)
    });
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    world
}

async fn worker(world: &World, name: &str) -> InMemoryMachine {
    let machine = world.api.create(&objects::worker("demo", name)).await;
    world.api.create(&objects::in_memory_machine(&machine)).await
}

fn message(machine: &InMemoryMachine, kind: &str) -> String {
    let list = machine.status.clone().unwrap_or_default().conditions;
    conditions::find(&list, kind)
        .map(|condition| condition.message.clone())
        .unwrap_or_default()
}

fn is_simulated(world: &World, name: &str) -> bool {
    world
        .cloud
        .observe_machine(&World::machine_id("demo", name))
        .is_some()
}

async fn says_while_deleted(world: &World, name: &str, said: &str) -> InMemoryMachine {
    let says = |machine: &InMemoryMachine| message(machine, types::DELETING).contains(said);
    world
        .api
        .eventually::<InMemoryMachine>(name, &format!("to say {said}"), says)
        .await
}

#[tokio::test]
async fn a_machine_waits_until_an_extension_lets_it_be_created_and_is_not_asked_about_again() {
    let world = start(20_000).await;
    let mut extension = Extension::start(Say::Wait(1, "no quota left"), HandlerOptions::new());
    extension.register(&world.api, "ext", Value::Null).await;
    let machine = worker(&world, "w").await;
    let waiting = world.waits(&machine, "WaitingForHook").await;
    let said = "BeforeMachineCreate waits for quota.ext: no quota left; asked again every 1s";
    assert_eq!(message(&waiting, types::VM_PROVISIONED), said);
    // The message that Cluster API shows on the Machine.
    assert_eq!(message(&waiting, types::READY), format!("VMProvisioned: {said}"));
    assert!(!is_simulated(&world, "w"));
    // The extension is called again when the time is over, and the machine's status does not change meanwhile.
    extension.counts(BEFORE, 3).await;
    assert_eq!(world.api.get::<InMemoryMachine>("w").await.status, waiting.status);
    let instance = Instance {
        provider_id: "in-memory://w".into(),
        version: objects::VERSION.into(),
        ..Instance::default()
    };
    let question = Question {
        hook: BEFORE,
        machine: "w".into(),
        instance: instance.clone(),
        objects: vec![
            "cluster.x-k8s.io/v1beta2 Cluster demo".into(),
            "cluster.x-k8s.io/v1beta2 Machine w".into(),
            "infrastructure.cluster.x-k8s.io/v1beta2 InMemoryMachine w".into(),
        ],
    };
    assert_eq!(extension.asked()[0], question);

    extension.say(Say::Go);
    let ready = world.ready(&machine).await;
    let asked = extension.count(BEFORE);
    // Its status says that it exists: no extension is called.
    extension.say(Say::Fail("asked about what is there"));
    let world = world.restart().await;
    world
        .until("the machine to be taken over", |_| is_simulated(&world, "w"))
        .await;
    let annotate = json!({ "metadata": { "annotations": { "example.com/touched": "1" } } });
    world.api.patch::<InMemoryMachine>("w", &annotate).await;
    let second = worker(&world, "second").await;
    let failed = world.waits(&second, "HookFailed").await;
    let said = "failed to call extension handlers for hook \"BeforeMachineCreate.hooks.nephele.dev\": failed to call \
                extension handler \"quota.ext\": got failure response with message: asked about what is there";
    assert_eq!(message(&failed, types::VM_PROVISIONED), said);
    let about_first = extension
        .asked()
        .iter()
        .filter(|q| q.hook == BEFORE && q.machine == "w")
        .count();
    assert_eq!(about_first, asked);
    assert_eq!(world.api.get::<InMemoryMachine>("w").await.status, ready.status);

    // Afterwards the extension is called for the object, with everything that is known of the machine.
    extension.say(Say::Wait(1, "still in the inventory"));
    world.api.delete::<InMemoryMachine>("w").await;
    let said = "AfterMachineDelete waits for cleanup.ext: still in the inventory; asked again every 1s";
    says_while_deleted(&world, "w", said).await;
    assert!(!is_simulated(&world, "w"));
    let question = extension
        .asked()
        .into_iter()
        .find(|question| question.hook == AFTER)
        .expect("asked");
    let addresses: Vec<InstanceAddress> = ready
        .status
        .unwrap_or_default()
        .addresses
        .into_iter()
        .map(|address| InstanceAddress {
            kind: address.kind,
            address: address.address,
        })
        .collect();
    assert!(!addresses.is_empty());
    assert_eq!(
        question.instance,
        Instance {
            addresses,
            version: String::new(),
            ..instance
        }
    );
    extension.say(Say::Go);
    world.api.eventually_gone::<InMemoryMachine>("w").await;
    world.stop().await;
    extension.stop().await;
}

#[tokio::test]
async fn who_has_no_say_any_more_holds_nothing_up() {
    let world = start(20_100).await;
    let extension = Extension::start(Say::Wait(LONG, "never"), HandlerOptions::new());
    extension.register(&world.api, "ext", json!({})).await;
    let machine = worker(&world, "w").await;
    world.waits(&machine, "WaitingForHook").await;
    assert_eq!(extension.count(BEFORE), 1);
    // A changed registration is called at once, even if it asked for a longer wait.
    touch(&world.api, "ext").await;
    extension.counts(BEFORE, 2).await;
    unregister(&world.api, "ext").await;
    world.ready(&machine).await;
    assert!(
        configs(&world.api)
            .list(&Default::default())
            .await
            .expect("a list")
            .items
            .is_empty()
    );
    world.api.delete::<InMemoryMachine>("w").await;
    world.api.eventually_gone::<InMemoryMachine>("w").await;
    assert_eq!(extension.count(AFTER), 0);
    world.stop().await;
}

#[tokio::test]
async fn an_extension_has_a_say_in_the_namespaces_that_its_registration_selects() {
    let world = start(20_200).await;
    let extension = Extension::start(Say::Wait(LONG, "not here"), HandlerOptions::new());
    extension
        .register(
            &world.api,
            "elsewhere",
            json!({ "matchLabels": { "example.com/tier": "gold" } }),
        )
        .await;
    world.ready(&worker(&world, "w").await).await;
    assert_eq!(extension.asked(), []);
    let named = json!({ "matchLabels": { "kubernetes.io/metadata.name": "default" } });
    extension.register(&world.api, "here", named).await;
    let second = worker(&world, "second").await;
    let said = message(
        &world.waits(&second, "WaitingForHook").await,
        types::VM_PROVISIONED,
    );
    let expected = format!("BeforeMachineCreate waits for quota.here: not here; asked again every {LONG}s");
    assert_eq!(said, expected);
    world.stop().await;
}

#[tokio::test]
async fn without_an_extension_a_machine_waits_or_continues_by_the_failure_policy() {
    let world = start(20_300).await;
    let mut strict = Extension::start(Say::Go, HandlerOptions::new());
    strict.register(&world.api, "strict", Value::Null).await;
    strict.stop().await;
    let machine = worker(&world, "w").await;
    let failed = world.waits(&machine, "HookFailed").await;
    let said = message(&failed, types::VM_PROVISIONED);
    assert!(
        said.contains("extension handler \"quota.strict\": http call failed"),
        "{said}"
    );
    assert!(!is_simulated(&world, "w"));
    strict.serve();
    world.ready(&machine).await;

    strict.stop().await;
    world.api.delete::<InMemoryMachine>("w").await;
    says_while_deleted(&world, "w", "extension handler \"cleanup.strict\"").await;
    assert!(!is_simulated(&world, "w"));
    unregister(&world.api, "strict").await;
    world.api.eventually_gone::<InMemoryMachine>("w").await;

    let mut lenient = Extension::start(Say::Wait(LONG, "never"), HandlerOptions::new().ignore_failures());
    lenient.register(&world.api, "lenient", Value::Null).await;
    lenient.stop().await;
    let second = worker(&world, "second").await;
    world.ready(&second).await;
    world.api.delete::<InMemoryMachine>("second").await;
    world.api.eventually_gone::<InMemoryMachine>("second").await;
    assert_eq!(lenient.asked(), []);
    world.stop().await;
}

/// A manager that starts while an extension is down knows its handlers from the registration's status.
#[tokio::test]
async fn an_extension_that_is_dead_at_the_start_still_has_its_say() {
    let world = start(20_400).await;
    let mut extension = Extension::start(Say::Go, HandlerOptions::new());
    extension.register(&world.api, "ext", Value::Null).await;
    extension.stop().await;
    let world = world.restart().await;
    let machine = worker(&world, "w").await;
    world.waits(&machine, "HookFailed").await;
    extension.serve();
    world.ready(&machine).await;
    assert_eq!(extension.count(BEFORE), 1);
    world.stop().await;
}

/// As `clusterctl move` does it: a paused object is left alone, also when it is deleted.
#[tokio::test]
async fn no_extension_is_asked_about_paused_machines() {
    let world = start(20_500).await;
    let extension = Extension::start(Say::Go, HandlerOptions::new());
    extension.register(&world.api, "ext", Value::Null).await;
    let machine = worker(&world, "w").await;
    world.ready(&machine).await;
    let said = "Cluster spec.paused is set to true";
    world
        .api
        .patch::<Cluster>("demo", &json!({ "spec": { "paused": true } }))
        .await;
    world.paused("w", said).await;
    let new = worker(&world, "new").await;
    world.paused("new", said).await;
    world.api.delete::<InMemoryMachine>("w").await;
    world
        .api
        .eventually::<InMemoryMachine>("w", "to be on its way", |machine| {
            machine.metadata.deletion_timestamp.is_some()
        })
        .await;
    // As clusterctl does with objects that it has moved.
    let annotations = json!({ "clusterctl.cluster.x-k8s.io/delete-for-move": "" });
    let moved = json!({ "metadata": { "annotations": annotations, "finalizers": null } });
    world.api.patch::<InMemoryMachine>("w", &moved).await;
    world.api.eventually_gone::<InMemoryMachine>("w").await;
    assert_eq!((extension.count(BEFORE), extension.count(AFTER)), (1, 0));
    world
        .api
        .patch::<Cluster>("demo", &json!({ "spec": { "paused": false } }))
        .await;
    world.ready(&new).await;
    assert_eq!((extension.count(BEFORE), extension.count(AFTER)), (2, 0));
    assert_eq!(extension.asked()[1].machine, new.name_any());
    world.stop().await;
}

/// The requests to the management API for extensions.
static REQUESTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[tokio::test]
async fn without_a_registration_there_is_one_watch_and_nothing_else() {
    let note = |method: &str, path: &str| {
        let about = path.contains("cloudextensionconfigs") || path.starts_with("/api/v1/namespaces/default?");
        if about || path == "/api/v1/namespaces/default" {
            REQUESTS.lock().push(format!("{method} {path}"));
        }
        false
    };
    let world = World::start_with(Setup {
        extensions: true,
        refused: note,
        ..Setup::at(20_600)
    });
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let machine = worker(&world, "w").await;
    world.ready(&machine).await;
    world.api.delete::<InMemoryMachine>("w").await;
    world.api.eventually_gone::<InMemoryMachine>("w").await;
    world.stop().await;
    // The first list of the watch, and the watch.
    let path = "/apis/cloud.nephele.dev/v1alpha1/cloudextensionconfigs";
    assert_eq!(*REQUESTS.lock(), [format!("GET {path}"), format!("GET {path}")]);
}
