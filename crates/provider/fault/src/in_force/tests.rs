use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_controller::PAUSED_ANNOTATION;
use proptest::prelude::*;

use super::*;
use crate::report::{Progress, status};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn spec(number: u8) -> FaultSpec {
    let spec = serde_json::json!({ "effect": { "notReady": {} }, "budget": { "count": number + 1 } });
    serde_json::from_value(spec).expect("a spec")
}

/// What happens to a Fault, to its manager, or between the two.
#[derive(Clone, Copy, Debug)]
enum Step {
    Edit(u8),
    Pause,
    PauseAndEdit(u8),
    Resume,
    Replace,
    Restart,
    /// The manager looks at it.
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (0..3_u8).prop_map(Step::Edit),
        1 => Just(Step::Pause),
        1 => (0..3_u8).prop_map(Step::PauseAndEdit),
        1 => Just(Step::Resume),
        1 => Just(Step::Replace),
        1 => Just(Step::Restart),
        3 => Just(Step::Look),
    ];
    proptest::collection::vec(step, 1..20)
}

/// A Fault, its manager, and the spec that has to be in force.
struct World {
    object: Fault,
    manager: InForce,
    uids: u8,
    writes_while_paused: u32,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            object: Fault::new("f", spec(0)),
            manager: InForce::default(),
            uids: 0,
            writes_while_paused: 0,
        };
        world.replace();
        world
    }

    fn replace(&mut self) {
        self.uids += 1;
        self.object = Fault::new("f", self.object.spec.clone());
        self.object.metadata.namespace = Some("n".to_owned());
        self.object.metadata.uid = Some(self.uids.to_string());
        self.object.metadata.generation = Some(1);
        self.writes_while_paused = 0;
    }

    fn edit(&mut self, number: u8) {
        if self.object.spec != spec(number) {
            self.object.spec = spec(number);
            self.object.metadata.generation = self.object.metadata.generation.map(|number| number + 1);
        }
    }

    fn set_paused(&mut self, paused: bool) {
        let annotation = (PAUSED_ANNOTATION.to_owned(), String::new());
        self.object.metadata.annotations = paused.then(|| [annotation].into());
        self.writes_while_paused = 0;
    }

    /// The look of a manager, as providers do it: carry out, then report.
    fn look(&mut self) -> Standing {
        let standing = self.manager.standing(&self.object);
        let now = at(5);
        match &standing {
            Standing::Runs => {
                self.manager
                    .carry(&self.object, Arc::new(self.object.spec.clone()));
                let progress = Progress {
                    phase: nephele_model::FaultPhase::Active,
                    began: at(1),
                    matched: 1,
                    hits: 1,
                    windows: 0,
                    last_hits: Vec::new(),
                };
                self.object.status = Some(status(&self.object, Ok(Some(progress)), now));
            }
            Standing::Holds(spec) => {
                self.manager.carry(&self.object, Arc::clone(spec));
            }
            Standing::Rests => self.manager.forget(&id_of(&self.object)),
        }
        if let Some(status) = paused_status(&self.object, &standing, self.object.status.clone(), now) {
            self.object.status = Some(status);
            self.writes_while_paused += 1;
        }
        standing
    }
}

proptest! {
    /// What a paused Fault does is the same before and after a restart, and after any number of edits.
    #[test]
    fn a_paused_fault_has_the_spec_that_it_had_whatever_happens(steps in steps()) {
        let mut world = World::new();
        // The spec that the last look before the pause has put into force.
        let mut carried: Option<FaultSpec> = None;
        let mut has_looked_since_pause = true;
        for step in steps {
            match step {
                Step::Edit(number) => world.edit(number),
                Step::Pause => {
                    has_looked_since_pause &= paused(&world.object, None).is_some();
                    world.set_paused(true);
                }
                Step::PauseAndEdit(number) => {
                    has_looked_since_pause &= paused(&world.object, None).is_some();
                    world.set_paused(true);
                    world.edit(number);
                }
                Step::Resume => world.set_paused(false),
                Step::Replace => {
                    world.replace();
                    carried = None;
                }
                // One that has seen neither the pause nor the edit cannot know what was in force: the next look rests.
                Step::Restart => world.manager = InForce::default(),
                Step::Look => {
                    let is_paused = paused(&world.object, None).is_some();
                    let before = world.manager.standing(&world.object);
                    let after = standing(&world.object, None);
                    match world.look() {
                        Standing::Runs => carried = Some(world.object.spec.clone()),
                        Standing::Holds(spec) => prop_assert_eq!(Some(&*spec), carried.as_ref()),
                        Standing::Rests => {
                            prop_assert!(carried.is_none() || !has_looked_since_pause);
                            carried = None;
                        }
                    }
                    prop_assert!(world.writes_while_paused <= 1 || !has_looked_since_pause);
                    if is_paused && has_looked_since_pause {
                        prop_assert_eq!(&before, &after, "a restart shows");
                    }
                    has_looked_since_pause = true;
                }
            }
        }
    }
}

#[test]
fn a_pause_and_its_end_are_conditions_and_nothing_else() {
    let mut world = World::new();
    world.look();
    let before = world.object.status.clone().expect("it is reported");
    world.set_paused(true);
    world.edit(2);
    let standing = world.look();
    assert_eq!(standing, Standing::Holds(Arc::new(spec(0))));
    let status = world.object.status.clone().expect("it is reported");
    let paused = conditions::find(&status.conditions, types::PAUSED)
        .cloned()
        .expect("it says so");
    let message = "Fault has the cluster.x-k8s.io/paused annotation";
    assert_eq!(
        (paused.status.as_str(), paused.message.as_str()),
        ("True", message)
    );
    let conditions = [before.conditions.clone(), vec![paused]].concat();
    assert_eq!(
        status,
        FaultStatus {
            paused_spec: Some(spec(0)),
            conditions,
            ..before.clone()
        }
    );
    assert_eq!(
        paused_status(&world.object, &standing, Some(before.clone()), at(9)),
        None
    );

    world.set_paused(false);
    assert_eq!(world.look(), Standing::Runs);
    let resumed = world.object.status.expect("it is reported");
    let paused = conditions::find(&resumed.conditions, types::PAUSED).expect("it says so");
    assert_eq!((resumed.paused_spec, paused.status.as_str()), (None, "False"));
    assert_eq!(resumed.start_time, Some(MicroTime(at(1))));
}
