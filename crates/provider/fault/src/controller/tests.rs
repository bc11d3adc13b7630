use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use nephele_api::cloud::RESTORING_ANNOTATION;
use nephele_controller::{Metrics, PAUSED_ANNOTATION, Reporter};
use nephele_testkit::ManagementApi;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fields::is_of_addresses;

/// A target that notes what it is told: the names of Faults, with their numbers of hits.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Target for Notes {
    type Wanted = i32;
    type Seen = ();

    fn is_for(spec: &FaultSpec) -> bool {
        !is_of_addresses(spec)
    }

    fn read(spec: &FaultSpec) -> Result<i32, String> {
        spec.budget.count.ok_or_else(|| "no count".to_owned())
    }

    fn status(object: &Fault, _: Result<Option<&()>, String>, _: Timestamp) -> FaultStatus {
        object.status.clone().unwrap_or_default()
    }

    fn put(&self, object: &Fault, count: i32, paused: bool, _: Timestamp) {
        let FaultId { namespace, name } = id_of(object);
        let paused = if paused { " paused" } else { "" };
        self.0
            .lock()
            .push(format!("put {namespace}/{name} {count}{paused}"));
    }

    fn remove(&self, FaultId { namespace, name }: &FaultId) {
        self.0.lock().push(format!("remove {namespace}/{name}"));
    }

    fn ids(&self) -> Vec<FaultId> {
        Vec::new()
    }

    fn observe(&self, _: &FaultId, _: Timestamp) -> Option<()> {
        None
    }
}

impl FaultController<Notes> {
    fn start() -> Self {
        let api = ManagementApi::start();
        let metrics = Metrics::register(&Registry::new()).expect("a new registry");
        let reporter = Reporter {
            controller: "test".into(),
            instance: "test-0".into(),
        };
        let (events, _) = Events::new(
            api.client(),
            reporter,
            api.clock(),
            metrics,
            CancellationToken::new(),
        );
        Self::new(Notes::default(), api.client(), api.clock(), events)
    }

    /// What the target was told since the last call.
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.target.0.lock())
    }
}

fn fault(uid: &str, count: Option<i32>) -> Fault {
    let spec = json!({ "effect": { "notReady": {} }, "budget": { "count": count } });
    let mut object = Fault::new("f", serde_json::from_value(spec).expect("a spec"));
    object.metadata.namespace = Some("n".to_owned());
    object.metadata.uid = Some(uid.to_owned());
    object
}

fn annotated(object: &Fault, annotation: &str) -> Fault {
    let mut object = object.clone();
    object
        .annotations_mut()
        .insert(annotation.to_owned(), String::new());
    object
}

#[test]
fn a_fault_is_carried_out_unless_it_is_gone_mistaken_or_for_another_target() {
    let ours = fault("1", Some(3));
    let spec = Arc::new(ours.spec.clone());
    let put = |paused| Plan::Put {
        spec: Arc::clone(&spec),
        wanted: 3,
        paused,
    };
    let remove = || Plan::Remove { mistake: None };
    let mut going = ours.clone();
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let mut of_addresses = ours.clone();
    of_addresses.spec.effect =
        serde_json::from_value(json!({ "addresses": { "conflict": {} } })).expect("an effect");
    let held = Standing::Holds(Arc::clone(&spec));
    let mistake = || Plan::Remove {
        mistake: Some("no count".to_owned()),
    };
    let cases = [
        (&ours, &Standing::Runs, put(false)),
        (&ours, &Standing::Rests, remove()),
        (&ours, &held, put(true)),
        // A change of a paused Fault waits.
        (&of_addresses, &held, put(true)),
        (&fault("1", None), &held, put(true)),
        (&of_addresses, &Standing::Runs, remove()),
        (&fault("1", None), &Standing::Runs, mistake()),
        (&going, &Standing::Runs, remove()),
        (&annotated(&ours, RESTORING_ANNOTATION), &Standing::Runs, remove()),
    ];
    for (object, standing, expected) in cases {
        assert_eq!(
            plan::<Notes>(object, standing),
            expected,
            "{standing:?} of {object:?}"
        );
    }
}

#[tokio::test]
async fn a_fault_that_replaces_another_one_is_a_new_one_for_the_target() {
    let controller = FaultController::start();
    controller.put_all([&fault("1", Some(3)), &fault("1", Some(4)), &fault("2", Some(5))]);
    assert_eq!(
        controller.told(),
        ["put n/f 3", "put n/f 4", "remove n/f", "put n/f 5"]
    );
}

#[tokio::test]
async fn a_fault_with_a_mistake_is_not_carried_out_when_it_is_paused_as_after_a_restart() {
    let mistaken = fault("1", None);
    let paused = annotated(&mistaken, PAUSED_ANNOTATION);
    let controller = FaultController::start();
    controller.put_all([&fault("1", Some(3)), &mistaken, &paused]);
    assert_eq!(controller.told(), ["put n/f 3", "remove n/f", "remove n/f"]);
    assert_eq!(controller.in_force.standing(&paused), Standing::Rests);
    assert_eq!(
        FaultController::start().in_force.standing(&paused),
        Standing::Rests
    );
}
