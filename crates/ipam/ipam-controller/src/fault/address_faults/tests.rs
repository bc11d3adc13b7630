use nephele_api::ipam::PoolKind;
use nephele_model::FaultPhase;
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn pool() -> PoolKey {
    PoolKey {
        kind: PoolKind::InClusterIPPool,
        namespace: "ns".into(),
        name: "p".into(),
    }
}

fn block(last: u8) -> Block {
    Block::Address([10, 0, 0, last].into())
}

fn id(name: &str) -> FaultId {
    FaultId {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    }
}

fn claim(name: &str) -> Subject {
    Subject {
        owner: Owner::new("ns", name),
        uid: format!("uid-{name}").into(),
        created: at(100),
        has_requested: false,
        cluster: "c".into(),
        labels: BTreeMap::new(),
        was_told: false,
    }
}

fn described(matches: &Value, effect: &Value, budget: &Value) -> Described {
    let spec = json!({ "match": matches, "effect": { "addresses": effect }, "budget": budget });
    let spec = serde_json::from_value(spec).expect("readable");
    Described {
        fault: super::super::spec::read(&spec).expect("valid"),
        paused: false,
    }
}

/// A board with one Fault that began at 100.
fn address_faults(effect: &Value, budget: &Value) -> AddressFaults {
    let mut address_faults = AddressFaults::new(Seed::new("s"));
    put(
        &mut address_faults,
        "f",
        described(&json!({}), effect, budget),
        History::default(),
        100,
    );
    address_faults
}

fn put(
    address_faults: &mut AddressFaults,
    name: &str,
    described: Described,
    history: History,
    second: i64,
) -> bool {
    let is_news = address_faults.put(&id(name), described, history, at(second));
    address_faults.tick(&id(name), at(second), |_, _| Presence::Waiting) || is_news
}

/// The status of the Fault is written. Returns the claims for which that is news.
fn record(address_faults: &mut AddressFaults, name: &str, second: i64) -> Vec<String> {
    let seen = address_faults
        .observe(&id(name), at(second))
        .expect("it is known");
    address_faults
        .recorded(&id(name), &seen.hits)
        .iter()
        .map(|owner| owner.name().to_owned())
        .collect()
}

/// What the next process reads from the status of the Fault.
fn read_back(address_faults: &AddressFaults, name: &str, second: i64) -> History {
    let Observation { progress, hits, .. } = address_faults
        .observe(&id(name), at(second))
        .expect("it is known");
    let recorded = hits.into_iter().filter(|(_, hit)| hit.recorded);
    History {
        began: Some(progress.began),
        matched: progress.matched,
        hits: progress.hits,
        windows: progress.windows,
        claims: recorded.take(AFFECTED_MAX).collect(),
    }
}

fn ask(address_faults: &mut AddressFaults, name: &str, second: i64) -> Verdict {
    address_faults.ask(&claim(name), &pool(), Some(block(1)), at(second))
}

fn held(why: Why, until: Option<i64>) -> Verdict {
    Verdict::Held(Hold {
        fault: "f".into(),
        why,
        until: until.map(at),
    })
}

#[test]
fn a_claim_notices_a_hit_only_after_the_status_lists_it() {
    let mut address_faults = address_faults(&json!({ "exhausted": {} }), &json!({}));
    assert_eq!(ask(&mut address_faults, "a", 101), Verdict::Unrecorded);
    assert_eq!(ask(&mut address_faults, "a", 102), Verdict::Unrecorded);
    assert_eq!(address_faults.take_changed(), Some(id("f")));
    assert_eq!(record(&mut address_faults, "f", 103), ["a"]);
    assert_eq!(record(&mut address_faults, "f", 103), [""; 0]);
    assert_eq!(ask(&mut address_faults, "a", 104), held(Why::Exhausted, None));
    let seen = address_faults
        .observe(&id("f"), at(104))
        .expect("it is known")
        .progress;
    assert_eq!((seen.matched, seen.hits, seen.last_hits.len()), (1, 1, 1));
    assert!(address_faults.remove(&id("f")));
    assert_eq!(ask(&mut address_faults, "a", 105), Verdict::Passes);
}

#[test]
fn a_slow_claim_waits_from_its_creation_whatever_restarts() {
    let slow = json!({ "slow": { "duration": "30s" } });
    let mut first = address_faults(&slow, &json!({}));
    assert_eq!(ask(&mut first, "a", 110), Verdict::Unrecorded);
    record(&mut first, "f", 110);
    let mut second = AddressFaults::new(Seed::new("s"));
    put(
        &mut second,
        "f",
        described(&json!({}), &slow, &json!({})),
        read_back(&first, "f", 111),
        120,
    );
    for address_faults in [&mut first, &mut second] {
        assert_eq!(ask(address_faults, "a", 129), held(Why::Slow, Some(130)));
        assert_eq!(ask(address_faults, "a", 130), Verdict::Passes);
        // A claim that is old enough is not hit.
        assert_eq!(ask(address_faults, "b", 130), Verdict::Passes);
        assert_eq!(
            address_faults
                .observe(&id("f"), at(130))
                .expect("it is known")
                .progress
                .matched,
            1
        );
    }
}

#[test]
fn a_conflict_keeps_its_address_from_all_and_its_claim_for_a_while() {
    let mut address_faults = address_faults(&json!({ "conflict": {} }), &json!({ "count": 1 }));
    assert_eq!(
        address_faults.ask(&claim("a"), &pool(), None, at(101)),
        Verdict::Passes
    );
    assert_eq!(ask(&mut address_faults, "a", 101), Verdict::Unrecorded);
    assert_eq!(
        address_faults.quarantined(&pool(), at(101)),
        BTreeSet::from([block(1)])
    );
    record(&mut address_faults, "f", 101);
    assert_eq!(
        ask(&mut address_faults, "a", 102),
        held(Why::Conflict(block(1)), Some(106))
    );
    assert!(!address_faults.lets_pass(&claim("a"), &pool(), block(2), at(102)));
    assert!(address_faults.lets_pass(&claim("a"), &pool(), block(2), at(106)));
    assert_eq!(
        address_faults.ask(&claim("a"), &pool(), Some(block(2)), at(106)),
        Verdict::Passes
    );
    // The claim is gone, and the address stays with the Fault.
    address_faults.tick(&id("f"), at(107), |_, _| Presence::Gone);
    assert_eq!(
        address_faults.quarantined(&pool(), at(107)),
        BTreeSet::from([block(1)])
    );
    assert_eq!(
        address_faults.ask(&claim("b"), &pool(), Some(block(2)), at(107)),
        Verdict::Passes
    );
    address_faults.remove(&id("f"));
    assert_eq!(address_faults.quarantined(&pool(), at(107)), BTreeSet::new());
}

#[test]
fn a_claim_with_a_wish_waits_until_the_conflict_is_gone() {
    let mut address_faults = address_faults(&json!({ "conflict": {} }), &json!({ "for": "60s" }));
    let requesting = Subject {
        has_requested: true,
        ..claim("a")
    };
    assert_eq!(
        address_faults.ask(&requesting, &pool(), Some(block(9)), at(101)),
        Verdict::Unrecorded
    );
    record(&mut address_faults, "f", 101);
    let answer = |address_faults: &mut AddressFaults, second| {
        address_faults.ask(&requesting, &pool(), None, at(second))
    };
    assert_eq!(
        answer(&mut address_faults, 159),
        held(Why::Conflict(block(9)), None)
    );
    assert_eq!(answer(&mut address_faults, 160), Verdict::Passes);
}

#[test]
fn an_address_is_released_late_and_at_once_when_the_fault_is_gone() {
    let mut address_faults = address_faults(
        &json!({ "lateRelease": { "duration": "30s" } }),
        &json!({ "count": 1 }),
    );
    assert_eq!(ask(&mut address_faults, "a", 101), Verdict::Passes);
    let release = |address_faults: &mut AddressFaults, name: &str, second| {
        address_faults.release(&claim(name), &pool(), Some(block(1)), at(110), at(second))
    };
    assert_eq!(release(&mut address_faults, "a", 110), Release::Unrecorded);
    record(&mut address_faults, "f", 110);
    assert_eq!(release(&mut address_faults, "a", 111), Release::At(at(140)));
    assert_eq!(release(&mut address_faults, "b", 111), Release::Now);
    let late = BTreeMap::from([(Owner::new("ns", "a"), (Some(block(1)), at(140)))]);
    assert_eq!(address_faults.late(&pool(), at(139)), late);
    assert_eq!(
        address_faults
            .observe(&id("f"), at(139))
            .expect("it is known")
            .next,
        Some(at(140))
    );
    assert!(address_faults.tick(&id("f"), at(140), |_, _| Presence::Gone));
    assert_eq!(address_faults.late(&pool(), at(140)), BTreeMap::new());
}

#[test]
fn a_claim_has_to_fit_the_pool_the_labels_and_the_namespace() {
    let matches = json!({ "pools": ["p"], "clusterSelector": { "matchLabels": { "team": "blue" } } });
    let mut address_faults = AddressFaults::new(Seed::new("s"));
    put(
        &mut address_faults,
        "f",
        described(&matches, &json!({ "exhausted": {} }), &json!({})),
        History::default(),
        100,
    );
    let blue = Subject {
        labels: [("team".to_owned(), "blue".to_owned())].into(),
        ..claim("a")
    };
    let other_pool = PoolKey {
        name: "q".into(),
        ..pool()
    };
    let elsewhere = Subject {
        owner: Owner::new("other", "a"),
        ..blue.clone()
    };
    for (subject, pool) in [
        (&claim("a"), &pool()),
        (&blue, &other_pool),
        (&elsewhere, &pool()),
    ] {
        assert_eq!(
            address_faults.ask(subject, pool, Some(block(1)), at(101)),
            Verdict::Passes
        );
    }
    assert_eq!(
        address_faults
            .observe(&id("f"), at(101))
            .expect("it is known")
            .progress
            .matched,
        0
    );
    assert_eq!(
        address_faults.ask(&blue, &pool(), Some(block(1)), at(101)),
        Verdict::Unrecorded
    );
}

#[test]
fn skip_and_count_say_which_claims_are_hit_also_after_a_restart() {
    let effect = json!({ "exhausted": {} });
    let budget = json!({ "skip": 1, "count": 1 });
    let mut first = address_faults(&effect, &budget);
    assert_eq!(
        ["a", "b", "c"].map(|name| ask(&mut first, name, 101) == Verdict::Passes),
        [true, false, true]
    );
    record(&mut first, "f", 101);
    let mut second = AddressFaults::new(Seed::new("s"));
    put(
        &mut second,
        "f",
        described(&json!({}), &effect, &budget),
        read_back(&first, "f", 102),
        110,
    );
    for address_faults in [&mut first, &mut second] {
        let told = |name: &str| Subject {
            was_told: true,
            ..claim(name)
        };
        let passes =
            ["a", "b", "c"].map(|name| address_faults.lets_pass(&told(name), &pool(), block(1), at(111)));
        assert_eq!(passes, [true, false, true]);
        assert_eq!(
            address_faults
                .observe(&id("f"), at(111))
                .expect("it is known")
                .progress
                .phase,
            FaultPhase::Exhausted
        );
    }
}

#[test]
fn each_window_decides_again_and_what_is_between_them_is_healed() {
    let schedule = json!({ "count": 2, "schedule": { "every": "60s", "for": "10s" } });
    let mut address_faults = address_faults(&json!({ "exhausted": {} }), &schedule);
    ask(&mut address_faults, "a", 101);
    record(&mut address_faults, "f", 101);
    assert_eq!(ask(&mut address_faults, "a", 109), held(Why::Exhausted, None));
    // Also before anybody has noticed that the window is over.
    assert_eq!(ask(&mut address_faults, "a", 110), Verdict::Passes);
    assert_eq!(
        address_faults
            .observe(&id("f"), at(110))
            .expect("it is known")
            .next,
        Some(at(160))
    );
    assert!(address_faults.tick(&id("f"), at(110), |_, _| Presence::Waiting));
    assert!(address_faults.tick(&id("f"), at(160), |_, _| Presence::Waiting));
    assert_eq!(ask(&mut address_faults, "b", 161), Verdict::Unrecorded);
    let seen = address_faults
        .observe(&id("f"), at(161))
        .expect("it is known")
        .progress;
    assert_eq!(
        (seen.windows, seen.hits, seen.phase),
        (2, 2, FaultPhase::Exhausted)
    );
}

#[test]
fn a_fault_that_cannot_hit_any_more_begins_no_window_so_that_a_restart_does_not_show() {
    let schedule = json!({ "every": "60s", "for": "10s" });
    let used_up = json!({ "count": 1, "schedule": schedule });
    let over = json!({ "for": "30s", "schedule": schedule });
    for budget in [used_up, over] {
        let effect = json!({ "exhausted": {} });
        let mut first = address_faults(&effect, &budget);
        ask(&mut first, "a", 101);
        record(&mut first, "f", 101);
        let mut second = AddressFaults::new(Seed::new("s"));
        put(
            &mut second,
            "f",
            described(&json!({}), &effect, &budget),
            read_back(&first, "f", 102),
            162,
        );
        first.tick(&id("f"), at(162), |_, _| Presence::Waiting);
        for address_faults in [&mut first, &mut second] {
            let seen = address_faults.observe(&id("f"), at(162)).expect("it is known");
            assert_eq!(
                (seen.progress.windows, seen.hits, seen.next),
                (1, BTreeMap::new(), None),
                "{budget}"
            );
            assert!(!address_faults.tick(&id("f"), at(163), |_, _| Presence::Waiting));
            assert_eq!(ask(address_faults, "a", 163), Verdict::Passes);
        }
    }
}

#[test]
fn a_paused_fault_holds_the_claims_for_which_its_list_has_no_room_also_after_a_restart() {
    let effect = json!({ "exhausted": {} });
    let mut first = address_faults(&effect, &json!({}));
    let names: Vec<_> = (0..=AFFECTED_MAX).map(|index| format!("c-{index:03}")).collect();
    assert!(
        names
            .iter()
            .all(|name| ask(&mut first, name, 101) == Verdict::Unrecorded)
    );
    record(&mut first, "f", 101);
    let history = read_back(&first, "f", 102);
    assert_eq!(history.claims.len(), AFFECTED_MAX);
    let mut second = AddressFaults::new(Seed::new("s"));
    let paused = Described {
        paused: true,
        ..described(&json!({}), &effect, &json!({}))
    };
    put(&mut second, "f", paused, history.clone(), 110);
    let last = Subject {
        was_told: true,
        ..claim(&names[AFFECTED_MAX])
    };
    assert!(!second.lets_pass(&last, &pool(), block(1), at(111)));
    assert_eq!(
        second.ask(&last, &pool(), Some(block(1)), at(111)),
        Verdict::Unrecorded
    );
    record(&mut second, "f", 111);
    assert_eq!(
        second.ask(&last, &pool(), Some(block(1)), at(112)),
        held(Why::Exhausted, None)
    );
    assert_eq!(ask(&mut second, "new", 112), Verdict::Passes);
    let Progress { matched, hits, .. } = second.observe(&id("f"), at(112)).expect("it is known").progress;
    assert_eq!(
        (matched, hits),
        (history.matched, history.hits),
        "nothing is counted twice"
    );
}

#[test]
fn a_paused_fault_decides_about_nothing_new() {
    let mut address_faults = address_faults(&json!({ "exhausted": {} }), &json!({}));
    ask(&mut address_faults, "a", 101);
    record(&mut address_faults, "f", 101);
    assert_eq!(ask(&mut address_faults, "c", 101), Verdict::Unrecorded);
    let paused = Described {
        paused: true,
        ..described(&json!({}), &json!({ "exhausted": {} }), &json!({}))
    };
    assert!(put(&mut address_faults, "f", paused, History::default(), 102));
    // What it decided before is written with the pause.
    assert_eq!(ask(&mut address_faults, "c", 103), Verdict::Unrecorded);
    assert_eq!(record(&mut address_faults, "f", 103), ["c"]);
    let is_held = held(Why::Exhausted, None);
    let answers = ["a", "b", "c"].map(|name| ask(&mut address_faults, name, 103));
    assert_eq!(answers, [is_held.clone(), Verdict::Passes, is_held]);
    let Progress { matched, hits, .. } = address_faults
        .observe(&id("f"), at(103))
        .expect("it is known")
        .progress;
    assert_eq!((matched, hits), (2, 2));
}

/// A claim `c` of a namespace, and the pool that it uses.
fn of_namespace(number: usize) -> (Subject, PoolKey) {
    let namespace = format!("ns-{number}");
    let subject = Subject {
        owner: Owner::new(&namespace, "c"),
        ..claim("c")
    };
    (subject, PoolKey { namespace, ..pool() })
}

/// How many Faults are looked at while each pool of so many namespaces asks what it may hand out. Each namespace has Faults of
/// all effects, as ClusterFaults make them.
fn looked_at(namespaces: usize) -> usize {
    let mut address_faults = AddressFaults::new(Seed::new("s"));
    let effects = ["conflict", "exhausted", "lateRelease", "slow"];
    for number in 0..namespaces {
        let (subject, pool) = of_namespace(number);
        for effect in effects {
            let settings = match effect {
                "conflict" | "exhausted" => json!({}),
                _ => json!({ "duration": "1h" }),
            };
            let described = described(&json!({}), &json!({ effect: settings }), &json!({}));
            let id = FaultId {
                namespace: pool.namespace.clone(),
                name: effect.to_owned(),
            };
            address_faults.put(&id, described, History::default(), at(100));
        }
        address_faults.ask(&subject, &pool, Some(block(1)), at(101));
        address_faults.release(&subject, &pool, Some(block(2)), at(101), at(101));
    }
    address_faults.looked_at.set(0);
    for number in 0..namespaces {
        let (subject, pool) = of_namespace(number);
        assert_eq!(address_faults.quarantined(&pool, at(102)), [block(1)].into());
        assert_eq!(address_faults.late(&pool, at(102)).len(), 1);
        address_faults.lets_pass(&subject, &pool, block(3), at(102));
    }
    address_faults.looked_at.get()
}

#[test]
fn what_a_pool_asks_costs_the_same_however_many_namespaces_have_faults() {
    let few = looked_at(50);
    let many = looked_at(200);
    assert!(
        many < 6 * few,
        "{few} Faults are looked at for 50 pools, and {many} for 200"
    );
}

proptest::proptest! {
    /// Whatever happens, the addresses that are kept are those that a walk over all Faults finds.
    #[test]
    fn a_pool_finds_all_faults_that_keep_its_addresses(
        steps in proptest::collection::vec((0..7_u8, 0..3_usize, 0..4_usize, 0..3_u8), 1..60)
    ) {
        let mut address_faults = AddressFaults::new(Seed::new("s"));
        for (second, (step, namespace, name, last)) in steps.into_iter().enumerate() {
            let now = at(100 + 5 * second as i64);
            let (subject, pool) = of_namespace(namespace);
            let name = ["conflict", "exhausted", "lateRelease", "windows"][name];
            let id = FaultId { namespace: pool.namespace.clone(), name: name.to_owned() };
            let subject = Subject { uid: format!("uid-{last}").into(), created: now, ..subject };
            match step {
                0 | 1 => {
                    let (effect, budget) = match name {
                        "exhausted" => (json!({ "exhausted": {} }), json!({})),
                        "lateRelease" => (json!({ "lateRelease": { "duration": "30s" } }), json!({ "for": "60s" })),
                        "windows" => (json!({ "conflict": {} }), json!({ "schedule": { "every": "40s", "for": "20s" } })),
                        _ => (json!({ "conflict": {} }), json!({ "count": last + 1 })),
                    };
                    address_faults.put(&id, described(&json!({}), &effect, &budget), History::default(), now);
                }
                2 => drop(address_faults.remove(&id)),
                3 => drop(address_faults.tick(&id, now, |_, _| Presence::Gone)),
                4 => drop(address_faults.ask(&subject, &pool, Some(block(last)), now)),
                5 => drop(address_faults.release(&subject, &pool, Some(block(last)), now, now)),
                _ => address_faults.left(&subject.owner, &subject.uid),
            }
            for number in 0..3 {
                let (_, pool) = of_namespace(number);
                let keeps = |state: &&State| state.fault.effect.keeps_addresses();
                let faults = address_faults.faults.iter().filter(|(_, state)| keeps(state));
                let kept = faults.filter(|(_, state)| state.hits.values().any(|hit| hit.pool == pool));
                let kept: BTreeSet<_> = kept.map(|(id, _)| id.clone()).collect();
                let known = address_faults.keeping.get(&pool).cloned().unwrap_or_default();
                proptest::prop_assert_eq!(known, kept, "{}", pool);
            }
        }
        // Namespaces that are gone leave nothing behind.
        address_faults.ids().iter().for_each(|id| assert!(address_faults.remove(id)));
        proptest::prop_assert!(address_faults.keeping.is_empty() && address_faults.changed.is_empty());
    }
}

#[test]
fn the_first_fault_by_name_that_hits_decides() {
    let mut address_faults = address_faults(&json!({ "exhausted": {} }), &json!({ "skip": 5 }));
    let slow = described(&json!({}), &json!({ "slow": { "duration": "1h" } }), &json!({}));
    put(&mut address_faults, "g", slow, History::default(), 100);
    put(
        &mut address_faults,
        "h",
        described(&json!({}), &json!({ "exhausted": {} }), &json!({})),
        History::default(),
        100,
    );
    assert_eq!(ask(&mut address_faults, "a", 101), Verdict::Unrecorded);
    record(&mut address_faults, "g", 101);
    let hold = Hold {
        fault: "g".into(),
        why: Why::Slow,
        until: Some(at(3700)),
    };
    assert_eq!(ask(&mut address_faults, "a", 102), Verdict::Held(hold));
    let matched = |name: &str| {
        address_faults
            .observe(&id(name), at(102))
            .expect("it is known")
            .progress
            .matched
    };
    assert_eq!([matched("f"), matched("g"), matched("h")], [1, 1, 0]);
}

#[test]
fn a_draw_depends_on_the_names_alone() {
    let budget = json!({ "probability": "0.5" });
    let hits = |order: &mut dyn Iterator<Item = usize>| {
        let mut address_faults = address_faults(&json!({ "exhausted": {} }), &budget);
        let hit =
            order.filter(|index| ask(&mut address_faults, &format!("c-{index}"), 101) != Verdict::Passes);
        hit.collect::<BTreeSet<_>>()
    };
    let forwards = hits(&mut (0..64));
    assert_eq!(forwards, hits(&mut (0..64).rev()));
    assert!((16..48).contains(&forwards.len()), "{forwards:?}");
}

#[test]
fn a_fault_of_conflicts_keeps_at_most_a_hundred_addresses() {
    let mut address_faults = address_faults(&json!({ "conflict": {} }), &json!({}));
    let claims = (0..=AFFECTED_MAX).map(|index| claim(&format!("c-{index}")));
    let verdicts: Vec<_> = claims
        .map(|claim| address_faults.ask(&claim, &pool(), Some(block(1)), at(101)))
        .collect();
    assert_eq!(
        verdicts
            .iter()
            .filter(|verdict| **verdict == Verdict::Unrecorded)
            .count(),
        AFFECTED_MAX
    );
    assert_eq!(verdicts.last(), Some(&Verdict::Passes));
}
