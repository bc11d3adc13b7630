use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nephele_api::{
    conditions::condition,
    infrastructure::v1beta2::{InMemoryMachinePoolStatus, PoolMachine},
};

use super::*;

fn object() -> InMemoryMachinePool {
    let mut object = InMemoryMachinePool::default();
    object.metadata.name = Some("pool".into());
    object
}

fn deleted() -> InMemoryMachinePool {
    let mut object = object();
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    object.metadata.finalizers = Some(vec![finalizers::MACHINE_POOL.into()]);
    object
}

fn wanted(replicas: usize) -> Wanted {
    Wanted {
        replicas,
        model: Model {
            cluster: "demo".into(),
            pool: "pool".into(),
            version: "v1.36.3".into(),
            machine: PoolMachine::default(),
            revision: "new".into(),
        },
        failure_domains: vec![],
        infrastructure_provisioned: true,
        bootstrapped: true,
    }
}

/// Also at the end of all numbers.
#[test]
fn no_two_machines_have_one_number() {
    for first in [0, 1, 999_999_999, i64::MAX - 2, i64::MAX - 1, i64::MAX] {
        for count in 0_usize..5 {
            let made = made("pool", first, count, &[], &[]);
            let left = usize::try_from(i64::MAX - first).unwrap_or(usize::MAX);
            assert_eq!(made.len(), count.min(left), "{count} from {first}");
            let names: std::collections::BTreeSet<_> = made.iter().map(|new| &new.name).collect();
            assert_eq!(names.len(), made.len(), "{count} from {first}");
        }
    }
}

/// A machine that is up and up to date.
fn up(ordinal: i64) -> Member {
    Member {
        name: names::name("pool", ordinal),
        provider_id: Some(format!("in-memory://pool-{ordinal}")),
        revision: Some("new".into()),
        failure_domain: None,
        ready: true,
        going: false,
        terminated: false,
        machine: Link::Present {
            going: false,
            marked: false,
        },
    }
}

/// A machine whose instance was terminated.
fn dead(ordinal: i64) -> Member {
    Member {
        ready: false,
        terminated: true,
        ..up(ordinal)
    }
}

fn old(ordinal: i64) -> Member {
    Member {
        revision: Some("old".into()),
        ..up(ordinal)
    }
}

fn booting(ordinal: i64) -> Member {
    Member {
        provider_id: None,
        ready: false,
        ..up(ordinal)
    }
}

fn marked(member: Member) -> Member {
    Member {
        machine: Link::Present {
            going: false,
            marked: true,
        },
        ..member
    }
}

fn draining(member: Member) -> Member {
    Member {
        machine: Link::Present {
            going: true,
            marked: false,
        },
        ..member
    }
}

fn scaled(replicas: usize, all: &[Member]) -> Scale {
    let members = Members {
        all: all.to_vec(),
        dangling: vec![],
        ..Members::default()
    };
    scale(&object(), wanted(replicas), members)
}

/// The names of the created machines, and of the deleted Machines.
fn changes(replicas: usize, all: &[Member]) -> (Vec<String>, Vec<String>) {
    let scale = scaled(replicas, all);
    let made = scale.made.into_iter().map(|new| new.name).collect();
    let deleted = scale.victims.into_iter().map(|victim| match victim {
        Victim::Machine(name) => name,
        Victim::InMemoryMachine(name) => format!("InMemoryMachine {name}"),
    });
    (made, deleted.collect())
}

/// A description, the wanted number, the existing machines, and the created and deleted machines by number.
type Case<'a> = (&'a str, usize, &'a [Member], &'a [i64], &'a [i64]);

fn check(cases: &[Case<'_>]) {
    for (what, replicas, all, made, deleted) in cases {
        let names = |ordinals: &[i64]| {
            ordinals
                .iter()
                .map(|n| names::name("pool", *n))
                .collect::<Vec<_>>()
        };
        assert_eq!(changes(*replicas, all), (names(made), names(deleted)), "{what}");
    }
}

#[test]
fn there_are_as_many_machines_as_wanted() {
    check(&[
        ("none wanted", 0, &[], &[], &[]),
        ("the first", 3, &[], &[0, 1, 2], &[]),
        ("settled", 3, &[up(0), up(1), up(2)], &[], &[]),
        ("still booting", 3, &[booting(0), up(1), booting(2)], &[], &[]),
        ("two more", 5, &[up(0), up(1), up(2)], &[3, 4], &[]),
        ("a gap is not filled", 3, &[up(1), up(7)], &[8], &[]),
        (
            "the youngest go",
            2,
            &[up(0), up(1), up(2), up(3), up(4)],
            &[],
            &[4, 3, 2],
        ),
        (
            "those that are not up go before",
            2,
            &[booting(0), up(1), up(2), booting(3)],
            &[],
            &[3, 0],
        ),
        (
            "one that is marked goes first",
            2,
            &[marked(up(0)), up(1), booting(2)],
            &[],
            &[0],
        ),
        ("but only if one has to go", 2, &[marked(up(0)), up(1)], &[], &[]),
        ("all go", 0, &[up(0), up(1)], &[], &[1, 0]),
        (
            "one that a client deletes is replaced at once",
            3,
            &[draining(up(0)), up(1), up(2)],
            &[3],
            &[],
        ),
        (
            "numbers beyond nine are counted",
            3,
            &[up(2), up(10), up(9), up(8)],
            &[],
            &[10],
        ),
    ]);
}

#[test]
fn a_machine_whose_instance_was_terminated_is_replaced_at_once() {
    check(&[
        ("one", 3, &[dead(0), up(1), up(2)], &[3], &[0]),
        ("all", 2, &[dead(0), dead(1)], &[2, 3], &[0, 1]),
        (
            "its Machine is being deleted",
            2,
            &[draining(dead(0)), up(1)],
            &[2],
            &[],
        ),
        ("none is missing", 2, &[dead(0), up(1), up(2)], &[], &[0]),
        ("none is wanted", 0, &[dead(0)], &[], &[0]),
    ]);
    assert_eq!(
        scaled(2, &[dead(0), up(1), up(2)]).outcome(),
        Outcome::WaitingOn("machines")
    );
}

#[test]
fn instances_that_are_terminated_again_and_again_make_no_more_than_three_times_the_wanted_machines() {
    // None of them can be deleted.
    let mut all: Vec<Member> = Vec::new();
    for _ in 0..20 {
        let made = scaled(4, &all).made.len();
        let next = i64::try_from(all.len()).expect("few");
        all.extend((next..).take(made).map(dead));
        assert!(all.len() <= 3 * 4, "{}", all.len());
    }
    assert_eq!(all.len(), 8);
}

#[test]
fn no_number_is_used_twice() {
    let mut object = object();
    object.status = Some(InMemoryMachinePoolStatus {
        next_ordinal: Some(7),
        ..Default::default()
    });
    let members = Members {
        all: vec![up(0)],
        dangling: vec![],
        ..Members::default()
    };
    let scale = scale(&object, wanted(2), members);
    assert_eq!(
        scale.made,
        [New {
            name: "pool-7".into(),
            failure_domain: None
        }]
    );
    assert_eq!(scale.next_ordinal, 8);
}

#[test]
fn machines_are_replaced_one_by_one_with_one_more_than_wanted() {
    check(&[
        ("one comes", 3, &[old(0), old(1), old(2)], &[3], &[]),
        (
            "none goes before it is up",
            3,
            &[old(0), old(1), old(2), booting(3)],
            &[],
            &[],
        ),
        (
            "then an old one does",
            3,
            &[old(0), old(1), old(2), up(3)],
            &[],
            &[2],
        ),
        (
            "none comes before that is gone",
            3,
            &[old(0), old(1), draining(old(2)), up(3)],
            &[],
            &[],
        ),
        ("the next", 3, &[old(0), old(1), up(3)], &[4], &[]),
        ("the last", 3, &[old(0), up(3), up(4), up(5)], &[], &[0]),
        ("through", 3, &[up(3), up(4), up(5)], &[], &[]),
        (
            "a new one that never came up goes first",
            3,
            &[
                old(0),
                old(1),
                old(2),
                Member {
                    revision: Some("between".into()),
                    ..booting(3)
                },
            ],
            &[],
            &[3],
        ),
        (
            "an old one that is not up goes without waiting",
            3,
            &[
                Member {
                    ready: false,
                    ..old(0)
                },
                old(1),
                old(2),
                booting(3),
            ],
            &[],
            &[0],
        ),
        (
            "scaling down spares as many as wanted that are up",
            1,
            &[old(0), old(1), booting(2)],
            &[],
            &[1],
        ),
        (
            "scaling up makes new ones",
            5,
            &[old(0), old(1), old(2)],
            &[3, 4],
            &[],
        ),
        (
            "one that is marked does not wait",
            2,
            &[marked(old(0)), old(1), booting(2)],
            &[],
            &[0],
        ),
    ]);
}

/// Simulates a whole rollout and checks its bounds, in any order in which machines make progress.
#[test]
fn a_rollout_ends_and_never_leaves_its_bounds() {
    for (replicas, step) in [(1, 1), (3, 1), (3, 2), (7, 3), (10, 1)] {
        let mut all: Vec<_> = (0..replicas).map(old).collect();
        let wanted = usize::try_from(replicas).expect("small");
        for round in 0..1000 {
            let scale = scaled(wanted, &all);
            if scale.is_settled() {
                break;
            }
            assert!(round < 999, "no end: {all:?}");
            let before = all.len();
            all.extend(
                scale
                    .made
                    .iter()
                    .map(|new| booting(names::ordinal("pool", &new.name).expect("a name of this pool"))),
            );
            for victim in scale.victims {
                let name = match victim {
                    Victim::Machine(name) | Victim::InMemoryMachine(name) => name,
                };
                let member = all
                    .iter_mut()
                    .find(|member| member.name == name)
                    .expect("one of them");
                *member = draining(member.clone());
            }
            assert!(all.len() <= wanted + 1, "{all:?}");
            let up_and_staying = all
                .iter()
                .filter(|member| member.ready && !member.is_leaving())
                .count();
            assert!(up_and_staying >= wanted, "{all:?}");
            // Then one machine makes progress: it becomes ready, or its deletion ends.
            if all.len() == before || round % step == 0 {
                if let Some(gone) = all.iter().position(Member::is_leaving) {
                    all.remove(gone);
                } else if let Some(member) = all.iter_mut().find(|member| !member.ready) {
                    let number = names::ordinal("pool", &member.name).expect("a name of this pool");
                    *member = up(number);
                }
            }
        }
        assert!(all.iter().all(|member| member.revision.as_deref() == Some("new")));
        assert_eq!(all.len(), wanted);
    }
}

#[test]
fn what_is_left_of_a_machine_is_tidied_up() {
    let lost = Member {
        machine: Link::Lost,
        ..up(0)
    };
    let members = Members {
        all: vec![lost, up(1)],
        dangling: vec!["pool-9".into()],
        ..Members::default()
    };
    let scale = scale(&object(), wanted(2), members);
    assert_eq!(
        scale.victims,
        [
            Victim::InMemoryMachine("pool-0".into()),
            Victim::Machine("pool-9".into())
        ]
    );
    assert_eq!(scale.made.len(), 1);
}

#[test]
fn one_without_a_machine_yet_goes_by_itself() {
    let unclaimed = Member {
        machine: Link::None,
        ..booting(0)
    };
    assert_eq!(
        changes(0, &[unclaimed]),
        (vec![], vec!["InMemoryMachine pool-0".to_owned()])
    );
}

#[test]
fn machines_are_spread_over_failure_domains() {
    let placed = |ordinal, domain: &str| Member {
        failure_domain: Some(domain.into()),
        ..up(ordinal)
    };
    let domains = ["a", "b", "c"].map(str::to_owned).to_vec();
    let wanted = Wanted {
        failure_domains: domains,
        ..wanted(7)
    };
    let members = Members {
        all: vec![placed(0, "a"), placed(1, "c"), placed(2, "z")],
        dangling: vec![],
        ..Members::default()
    };
    let made = scale(&object(), wanted, members).made;
    let places: Vec<_> = made
        .into_iter()
        .map(|new| new.failure_domain.unwrap_or_default())
        .collect();
    assert_eq!(places, ["b", "a", "b", "c"]);
}

#[test]
fn provider_ids_are_those_of_machines_that_are_there_in_the_order_of_their_numbers() {
    let scale = scaled(3, &[up(10), draining(up(9)), booting(2), up(0)]);
    assert_eq!(
        scale.provider_ids,
        ["in-memory://pool-0", "in-memory://pool-9", "in-memory://pool-10"]
    );
}

#[test]
fn no_machine_is_made_before_it_can_boot() {
    let unprovisioned = Wanted {
        infrastructure_provisioned: false,
        bootstrapped: false,
        ..wanted(3)
    };
    let unbootstrapped = Wanted {
        bootstrapped: false,
        ..wanted(3)
    };
    for (wanted, expected) in [
        (unprovisioned, Waiting::ClusterInfrastructure),
        (unbootstrapped, Waiting::BootstrapData),
    ] {
        let scale = scale(&object(), wanted, Members::default());
        assert_eq!((scale.made.len(), scale.waiting), (0, Some(expected)));
        assert_eq!(scale.outcome(), Outcome::WaitingOn(expected.reason()));
    }
}

#[test]
fn many_machines_are_made_in_several_goes() {
    let first = scaled(250, &[]);
    assert_eq!((first.made.len(), first.next_ordinal), (100, 100));
    let there: Vec<_> = (0..200).map(booting).collect();
    assert_eq!(scaled(250, &there).made.len(), 50);
}

#[test]
fn a_pool_is_planned_as_its_objects_say() {
    let all = || {
        [
            Validated::ExternallyManaged,
            Validated::WithoutOwner,
            Validated::Orphaned,
            Validated::Paused("p".into()),
            Validated::Wanted(Box::new(wanted(0))),
        ]
    };
    let waits = |what| Decision::Leave(Outcome::WaitingOn(what));
    let living = all().map(|validated| answered(&object(), validated, Members::default()));
    let scale = scaled(0, &[]);
    assert_eq!(
        living,
        [
            waits("external manager"),
            waits("owner"),
            waits("machine pool and cluster"),
            Decision::Pause("p".into()),
            Decision::Scale(Box::new(scale)),
        ]
    );
    let remove = || Decision::Remove {
        victims: vec![],
        left: 0,
    };
    let going = all().map(|validated| answered(&deleted(), validated, Members::default()));
    let paused = Decision::Pause("p".into());
    assert_eq!(
        going,
        [waits("external manager"), remove(), remove(), paused, remove()]
    );

    let mut unheld = deleted();
    unheld.metadata.finalizers = None;
    let validated = Validated::Wanted(Box::new(wanted(3)));
    assert_eq!(
        answered(&unheld, validated.clone(), Members::default()),
        Decision::Leave(Outcome::Done)
    );
    let mut was_paused = object();
    let conditions = vec![condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, "p")];
    was_paused.status = Some(InMemoryMachinePoolStatus {
        conditions,
        ..Default::default()
    });
    assert_eq!(
        answered(&was_paused, validated, Members::default()),
        Decision::Unpause
    );
}

#[test]
fn a_pool_goes_after_its_machines() {
    let unclaimed = Member {
        machine: Link::None,
        ..booting(2)
    };
    let all = vec![
        up(0),
        draining(up(1)),
        unclaimed,
        Member {
            going: true,
            ..draining(up(3))
        },
    ];
    let members = Members {
        all,
        dangling: vec!["pool-9".into()],
        ..Members::default()
    };
    let victims = ["pool-0", "pool-9"].map(|name| Victim::Machine(name.into()));
    let [first, last] = victims;
    assert_eq!(
        answered(&deleted(), Validated::Orphaned, members),
        Decision::Remove {
            victims: vec![first, Victim::InMemoryMachine("pool-2".into()), last],
            left: 5
        }
    );
}

/// The caches may not have a machine that was created a moment ago.
#[test]
fn the_api_is_asked_before_a_machine_comes_or_goes() {
    let asks = |object: &InMemoryMachinePool, validated, all: &[Member]| {
        let members = Members {
            all: all.to_vec(),
            ..Members::default()
        };
        first(object, validated, members) == Plan::Ask
    };
    let wants = |replicas| Validated::Wanted(Box::new(wanted(replicas)));
    let living = [
        asks(&object(), wants(2), &[up(0)]),
        asks(&object(), wants(0), &[up(0)]),
    ];
    let settled = [
        asks(&object(), wants(1), &[up(0)]),
        asks(&object(), Validated::Orphaned, &[up(0)]),
    ];
    let going = [
        asks(&deleted(), wants(1), &[up(0)]),
        asks(&deleted(), Validated::Orphaned, &[]),
    ];
    let waits = asks(&deleted(), wants(1), &[draining(up(0))]);
    assert_eq!(
        (living, settled, going, waits),
        ([true; 2], [false; 2], [true; 2], false)
    );
}

mod finalizer;
