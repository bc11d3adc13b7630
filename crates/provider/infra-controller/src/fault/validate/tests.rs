use std::collections::BTreeSet;

use nephele_model::{
    BootstrapPhase, Budget, Caller, EtcdAlarm, FailureReason, Market, Matches, Odds, Requirement, Schedule,
    Selector, Stage, Verb,
};
use serde_json::{Value, json};

use super::*;

fn read(spec: Value) -> Result<Fault, Mistake> {
    validate(&serde_json::from_value(spec).expect("readable"))
}

fn fail() -> Value {
    json!({ "fail": { "reason": "Throttled" } })
}

#[test]
fn a_fault_without_a_budget_hits_everything_that_changes_something() {
    let effect = Effect::Fail {
        reason: FailureReason::Throttled,
        message: String::new(),
        retry_after: Duration::from_secs(5),
    };
    let all = Fault {
        matches: Matches::default(),
        effect,
        budget: Budget::default(),
    };
    assert_eq!(read(json!({ "effect": fail() })), Ok(all));
}

#[test]
fn every_field_has_its_meaning() {
    let spec = json!({
        "match": {
            "operations": ["DeleteInstance", "CreateInstance"],
            "callers": ["machinePool", "machine"],
            "names": ["m"],
            "zones": ["north-1a"],
            "regions": ["north-1"],
            "instanceTypes": ["large"],
            "markets": ["Spot"],
            "clusterSelector": { "matchLabels": { "team": "blue" } },
            "machineSelector": { "matchExpressions": [
                { "key": "a", "operator": "In", "values": ["x", "y"] },
                { "key": "b", "operator": "NotIn", "values": ["x"] },
                { "key": "c", "operator": "Exists" },
                { "key": "d", "operator": "DoesNotExist", "values": [] },
            ] },
        },
        "effect": { "delay": { "duration": "1m", "jitter": "0.5" } },
        "budget": {
            "probability": "0.25", "skip": 2, "count": 5, "for": "90s",
            "schedule": { "every": "10m", "for": "1m", "offset": "30s" },
        },
    });
    let set = |values: &[&str]| {
        values
            .iter()
            .map(|value| (*value).to_owned())
            .collect::<BTreeSet<_>>()
    };
    let expected = Fault {
        matches: Matches {
            operations: BTreeSet::from([Verb::CreateInstance, Verb::DeleteInstance]),
            callers: BTreeSet::from([Caller::Machine, Caller::MachinePool]),
            names: set(&["m"]),
            pools: BTreeSet::new(),
            zones: set(&["north-1a"]),
            regions: set(&["north-1"]),
            instance_types: set(&["large"]),
            markets: BTreeSet::from([Market::Spot]),
            cluster: Selector(vec![Requirement::In("team".into(), set(&["blue"]))]),
            instance: Selector(vec![
                Requirement::In("a".into(), set(&["x", "y"])),
                Requirement::NotIn("b".into(), set(&["x"])),
                Requirement::Exists("c".into()),
                Requirement::DoesNotExist("d".into()),
            ]),
        },
        effect: Effect::Delay(Latency::Jittered {
            base: Duration::from_secs(60),
            fraction: 0.5,
        }),
        budget: Budget {
            probability: Odds::new(0.25),
            skip: 2,
            count: Some(5),
            lasts: Some(Duration::from_secs(90)),
            schedule: Some(Schedule {
                every: Duration::from_secs(600),
                lasts: Duration::from_secs(60),
                offset: Duration::from_secs(30),
            }),
        },
    };
    assert_eq!(read(spec), Ok(expected));
}

#[test]
fn every_effect_on_machines_has_its_visible_effect() {
    let effect = |effect: Value| read(json!({ "effect": effect })).expect("valid").effect;
    let affect = |visible_effect: VisibleEffect| Effect::Affect(active_effect_of(&visible_effect));
    assert_eq!(effect(json!({ "notReady": {} })), affect(VisibleEffect::NotReady));
    assert_eq!(effect(json!({ "freeze": {} })), affect(VisibleEffect::Frozen));
    assert_eq!(effect(json!({ "vanish": {} })), affect(VisibleEffect::Vanished));
    assert_eq!(effect(json!({ "leak": {} })), Effect::Leak);
    let of_balancers = json!({ "match": { "operations": ["DeleteLoadBalancer"] }, "effect": { "leak": {} } });
    let read_back = read(of_balancers).expect("valid");
    assert_eq!(
        read_back.matches.operations,
        BTreeSet::from([Verb::DeleteLoadBalancer])
    );
    for (settings, millis) in [
        (json!({}), 5000),
        (json!({ "retryAfter": "1s" }), 1000),
        (json!({ "retryAfter": "1ms" }), 100),
    ] {
        let twice = Effect::Duplicate {
            retry_after: Duration::from_millis(millis),
        };
        assert_eq!(effect(json!({ "duplicate": settings })), twice);
    }
    for (settings, fraction) in [
        (json!({ "duration": "3s" }), 0.0),
        (json!({ "duration": "3s", "jitter": "0.5" }), 0.5),
    ] {
        let late = Effect::Lag(Latency::Jittered {
            base: Duration::from_secs(3),
            fraction,
        });
        assert_eq!(effect(json!({ "lag": settings })), late);
    }
    for (settings, seconds) in [(json!({}), 120), (json!({ "notice": "30s" }), 30)] {
        let told = affect(VisibleEffect::SpotReclaim(Duration::from_secs(seconds)));
        assert_eq!(effect(json!({ "spotReclaim": settings })), told);
    }
    for (settings, seconds) in [
        (json!({ "nameSuffix": "-2" }), 30),
        (json!({ "nameSuffix": "-2", "downFor": "5s" }), 5),
        (json!({ "nameSuffix": "-2", "downFor": "0s" }), 0),
    ] {
        let down_for = Duration::from_secs(seconds);
        let name = OtherName::new("-2");
        let reboots = affect(VisibleEffect::Rebooting { down_for, name });
        assert_eq!(effect(json!({ "nodeRebootsAs": settings })), reboots);
    }
    assert_eq!(
        effect(json!({ "etcd": { "noLeader": {} } })),
        affect(VisibleEffect::EtcdWithoutLeader)
    );
    let slow = VisibleEffect::EtcdSlow {
        base: Duration::from_secs(3),
        jitter_per_million: 500_000,
    };
    assert_eq!(
        effect(json!({ "etcd": { "slow": { "duration": "3s", "jitter": "0.5" } } })),
        affect(slow)
    );
    assert_eq!(
        effect(json!({ "etcd": { "hiddenMember": {} } })),
        affect(VisibleEffect::EtcdMemberHidden)
    );
    for (expiry, seconds) in [
        (json!({ "expiresIn": "72h" }), 259_200),
        (json!({ "expiresIn": "0s" }), 0),
        (json!({ "expired": {} }), 0),
    ] {
        let early = EarlyExpiry::new(Duration::from_secs(seconds));
        assert_eq!(
            effect(json!({ "certificate": expiry })),
            affect(VisibleEffect::Certificate(early))
        );
    }
    let reset = |per_million| LoadBalancerEffect::Reset {
        after: Duration::from_secs(5),
        per_million,
    };
    for (request_effect, expected) in [
        (json!({ "noBackends": {} }), LoadBalancerEffect::NoBackends),
        (json!({ "wrongBackends": {} }), LoadBalancerEffect::WrongBackends),
        (json!({ "reset": { "after": "5s" } }), reset(1_000_000)),
        (
            json!({ "reset": { "after": "5s", "probability": "0.1" } }),
            reset(100_000),
        ),
    ] {
        let expected = affect(VisibleEffect::LoadBalancer(expected));
        assert_eq!(effect(json!({ "loadBalancer": request_effect })), expected);
    }
    assert_eq!(
        effect(json!({ "wrongProviderID": {} })),
        affect(VisibleEffect::WrongProviderId)
    );
    let flap = Flap::new(Duration::from_secs(10), Duration::from_secs(30));
    assert_eq!(
        effect(json!({ "flap": { "up": "30s", "down": "10s" } })),
        affect(VisibleEffect::Flapping(flap))
    );
    for (name, alarm) in ["NoSpace", "Corrupt"].into_iter().zip(EtcdAlarm::ALL) {
        assert_eq!(
            effect(json!({ "etcd": { "alarm": name } })),
            affect(VisibleEffect::EtcdAlarm(alarm))
        );
    }
    for (name, stage) in ["vm", "node", "etcd", "apiServer"].into_iter().zip(Stage::ALL) {
        assert_eq!(
            effect(json!({ "hold": { "stage": name } })),
            affect(VisibleEffect::Held(stage))
        );
    }
    let phases = ["preflight", "kubelet-start", "etcd-join", "wait-control-plane"];
    for (name, phase) in phases.into_iter().zip(BootstrapPhase::ALL) {
        let failed = affect(VisibleEffect::BootstrapFailed(phase));
        assert_eq!(effect(json!({ "bootstrap": { "failedPhase": name } })), failed);
    }
    let five = Duration::from_secs(300);
    for (settings, skew) in [
        (json!({ "ahead": "5m" }), ClockSkew::Ahead(five)),
        (json!({ "behind": "5m" }), ClockSkew::Behind(five)),
    ] {
        assert_eq!(
            effect(json!({ "clockSkew": settings })),
            affect(VisibleEffect::ClockSkew(skew))
        );
    }
    let pressure = NodeCondition {
        kind: "DiskPressure".into(),
        status: "True".into(),
        reason: "SimulatedFault".into(),
        message: String::new(),
    };
    assert_eq!(
        effect(json!({ "nodeCondition": { "type": "DiskPressure", "status": "True" } })),
        affect(VisibleEffect::NodeCondition(pressure))
    );
    let outage = Effect::Outage {
        active_effect: active_effect_of(&VisibleEffect::Frozen),
        retry_after: Duration::from_secs(5),
    };
    assert_eq!(effect(json!({ "outage": {} })), outage);
}

#[test]
fn every_trouble_of_api_servers_is_read() {
    let request_effect = |api_server: Value| match read(json!({ "effect": { "apiServer": api_server } })) {
        Ok(Fault {
            effect: Effect::Affect(active_effect),
            ..
        }) => active_effect,
        other => panic!("{other:?}"),
    };
    let visible_effect = |verbs: &[&str], resources: &[&str], kind| {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let request_effect = ApiServerRequestEffect {
            verbs: owned(verbs),
            resources: owned(resources),
            kind,
        };
        active_effect_of(&VisibleEffect::ApiServer(request_effect))
    };
    use ApiServerRequestEffectKind::{Cut, Down, Error, Latency, Stale};
    assert_eq!(
        request_effect(json!({ "down": {} })),
        visible_effect(&[], &[], Down)
    );
    assert_eq!(
        request_effect(
            json!({ "error": { "code": 503, "probability": "0.25" }, "verbs": ["list"], "resources": ["nodes"] })
        ),
        visible_effect(
            &["list"],
            &["nodes"],
            Error {
                code: 503,
                per_million: 250_000
            }
        )
    );
    assert_eq!(
        request_effect(json!({ "latency": { "duration": "2s", "jitter": "1" } })),
        visible_effect(
            &[],
            &[],
            Latency {
                base: Duration::from_secs(2),
                jitter_per_million: 1_000_000
            }
        )
    );
    assert_eq!(
        request_effect(json!({ "cutWatches": { "after": "1m" } })),
        visible_effect(
            &["watch"],
            &[],
            Cut {
                after: Duration::from_secs(60)
            }
        )
    );
    assert_eq!(
        request_effect(json!({ "staleReads": {} })),
        visible_effect(&["get", "list", "watch"], &[], Stale)
    );
    assert_eq!(
        request_effect(json!({ "staleReads": {}, "verbs": ["list"], "resources": ["nodes"] })),
        visible_effect(&["list"], &["nodes"], Stale)
    );
}

#[test]
fn a_mistake_names_the_field_the_value_and_what_would_be_right() {
    let told = |spec: Value| read(spec).expect_err("a mistake").to_string();
    let mistakes = [
        (json!({}), r#"spec.effect: "{}" is not exactly one effect"#),
        (
            json!({ "effect": { "addresses": { "exhausted": {} } } }),
            r#"spec.effect: "addresses" is not for a fault of machines or API servers"#,
        ),
        (
            json!({ "match": { "operations": ["CreateInstance", "DescribeInstance"] }, "effect": { "lag": { "duration": "1s" } } }),
            r#"spec.match.operations: "DescribeInstance" is not an operation that changes something"#,
        ),
        (
            json!({ "effect": { "duplicate": {} }, "budget": { "count": 101 } }),
            r#"spec.budget.count: "101" is not at most 100, for a fault of machines or API servers"#,
        ),
        (
            json!({ "effect": { "leak": {} }, "budget": { "count": 101 } }),
            r#"spec.budget.count: "101" is not at most 100, for a fault of machines or API servers"#,
        ),
        (
            json!({ "effect": { "freeze": {} }, "match": { "operations": ["CreateInstance"] } }),
            r#"spec.match.operations: "CreateInstance" is not for a fault of machines or API servers"#,
        ),
        (
            json!({ "effect": { "leak": {} }, "match": { "operations": ["DeleteLoadBalancer", "CreateInstance"] } }),
            r#"spec.match.operations: "CreateInstance" is not DeleteInstance or DeleteLoadBalancer"#,
        ),
        (
            json!({ "effect": { "outage": {} }, "match": { "callers": ["machine"] } }),
            r#"spec.match.callers: "machine" is not for a fault of machines or API servers"#,
        ),
        (
            json!({ "effect": fail(), "match": { "pools": ["p"] } }),
            r#"spec.match.pools: "p" is not for a fault of machines or API servers"#,
        ),
        (
            json!({ "effect": { "vanish": {} }, "budget": { "count": 101 } }),
            r#"spec.budget.count: "101" is not at most 100, for a fault of machines or API servers"#,
        ),
        (
            json!({ "effect": fail(), "budget": { "skip": -1 } }),
            r#"spec.budget.skip: "-1" is not a number from 0 on"#,
        ),
        (
            json!({ "effect": fail(), "budget": { "schedule": { "every": "10s", "for": "9.5s" } } }),
            r#"spec.budget.schedule.for: "9.5s" is not at least 1s, and 1s shorter than every"#,
        ),
    ];
    for (spec, message) in mistakes {
        assert_eq!(told(spec), message);
    }
}
