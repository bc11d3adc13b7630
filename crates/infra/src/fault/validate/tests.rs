use nephele_api::cloud::v1alpha1::{
    BOOTSTRAP_PHASES, CALLERS, ETCD_ALARMS, FAIL_REASONS, HELD_STAGES, OPERATIONS,
};
use nephele_model::{Budget, Odds, Requirement, Schedule, Selector};
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
    let all = Fault { matches: Matches::default(), effect, budget: Budget::default() };
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
    let set = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<BTreeSet<_>>();
    let expected = Fault {
        matches: Matches {
            operations: BTreeSet::from([Verb::CreateInstance, Verb::DeleteInstance]),
            callers: set(&["machine", "machinePool"]),
            names: set(&["m"]),
            zones: set(&["north-1a"]),
            regions: set(&["north-1"]),
            instance_types: set(&["large"]),
            markets: BTreeSet::from([Market::Spot]),
            group: Selector(vec![Requirement::In("team".into(), set(&["blue"]))]),
            instance: Selector(vec![
                Requirement::In("a".into(), set(&["x", "y"])),
                Requirement::NotIn("b".into(), set(&["x"])),
                Requirement::Exists("c".into()),
                Requirement::DoesNotExist("d".into()),
            ]),
        },
        effect: Effect::Delay(Latency::Jittered { base: Duration::from_secs(60), fraction: 0.5 }),
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
fn every_effect_on_machines_has_its_symptom() {
    let effect = |effect: Value| read(json!({ "effect": effect })).expect("valid").effect;
    let afflict = |symptom: Symptom| Effect::Afflict(affliction_of(&symptom));
    assert_eq!(effect(json!({ "notReady": {} })), afflict(Symptom::NotReady));
    assert_eq!(effect(json!({ "freeze": {} })), afflict(Symptom::Frozen));
    assert_eq!(effect(json!({ "vanish": {} })), afflict(Symptom::Vanished));
    assert_eq!(effect(json!({ "leak": {} })), Effect::Leak);
    let of_balancers = json!({ "match": { "operations": ["DeleteLoadBalancer"] }, "effect": { "leak": {} } });
    let read_back = read(of_balancers).expect("valid");
    assert_eq!(read_back.matches.operations, BTreeSet::from([Verb::DeleteLoadBalancer]));
    for (settings, millis) in
        [(json!({}), 5000), (json!({ "retryAfter": "1s" }), 1000), (json!({ "retryAfter": "1ms" }), 100)]
    {
        let twice = Effect::Duplicate { retry_after: Duration::from_millis(millis) };
        assert_eq!(effect(json!({ "duplicate": settings })), twice);
    }
    for (settings, fraction) in
        [(json!({ "duration": "3s" }), 0.0), (json!({ "duration": "3s", "jitter": "0.5" }), 0.5)]
    {
        let late = Effect::Lag(Latency::Jittered { base: Duration::from_secs(3), fraction });
        assert_eq!(effect(json!({ "lag": settings })), late);
    }
    for (settings, seconds) in [(json!({}), 120), (json!({ "notice": "30s" }), 30)] {
        let told = afflict(Symptom::SpotReclaim(Duration::from_secs(seconds)));
        assert_eq!(effect(json!({ "spotReclaim": settings })), told);
    }
    for (settings, seconds) in [
        (json!({ "nameSuffix": "-2" }), 30),
        (json!({ "nameSuffix": "-2", "downFor": "5s" }), 5),
        (json!({ "nameSuffix": "-2", "downFor": "0s" }), 0),
    ] {
        let (down_for, name) = (Duration::from_secs(seconds), OtherName::new("-2"));
        let reboots = afflict(Symptom::Rebooting { down_for, name });
        assert_eq!(effect(json!({ "nodeRebootsAs": settings })), reboots);
    }
    assert_eq!(effect(json!({ "etcd": { "noLeader": {} } })), afflict(Symptom::EtcdWithoutLeader));
    let slow = Symptom::EtcdSlow { base: Duration::from_secs(3), jitter_per_million: 500_000 };
    assert_eq!(effect(json!({ "etcd": { "slow": { "duration": "3s", "jitter": "0.5" } } })), afflict(slow));
    assert_eq!(effect(json!({ "etcd": { "hiddenMember": {} } })), afflict(Symptom::EtcdMemberHidden));
    for (expiry, seconds) in [
        (json!({ "expiresIn": "72h" }), 259_200),
        (json!({ "expiresIn": "0s" }), 0),
        (json!({ "expired": {} }), 0),
    ] {
        let early = EarlyExpiry::new(Duration::from_secs(seconds));
        assert_eq!(effect(json!({ "certificate": expiry })), afflict(Symptom::Certificate(early)));
    }
    let reset = |per_million| LoadBalancerTrouble::Reset { after: Duration::from_secs(5), per_million };
    for (trouble, expected) in [
        (json!({ "noBackends": {} }), LoadBalancerTrouble::NoBackends),
        (json!({ "wrongBackends": {} }), LoadBalancerTrouble::WrongBackends),
        (json!({ "reset": { "after": "5s" } }), reset(1_000_000)),
        (json!({ "reset": { "after": "5s", "probability": "0.1" } }), reset(100_000)),
    ] {
        let expected = afflict(Symptom::LoadBalancer(expected));
        assert_eq!(effect(json!({ "loadBalancer": trouble })), expected);
    }
    assert_eq!(effect(json!({ "wrongProviderID": {} })), afflict(Symptom::WrongProviderId));
    let flap = Flap::new(Duration::from_secs(10), Duration::from_secs(30));
    assert_eq!(effect(json!({ "flap": { "up": "30s", "down": "10s" } })), afflict(Symptom::Flapping(flap)));
    for (name, alarm) in ETCD_ALARMS.into_iter().zip([EtcdAlarm::NoSpace, EtcdAlarm::Corrupt]) {
        assert_eq!(effect(json!({ "etcd": { "alarm": name } })), afflict(Symptom::EtcdAlarm(alarm)));
    }
    for (name, stage) in HELD_STAGES.into_iter().zip(Stage::ALL) {
        assert_eq!(effect(json!({ "hold": { "stage": name } })), afflict(Symptom::Held(stage)));
    }
    for (name, phase) in BOOTSTRAP_PHASES.into_iter().zip(BootstrapPhase::ALL) {
        let failed = afflict(Symptom::BootstrapFailed(phase));
        assert_eq!(effect(json!({ "bootstrap": { "failedPhase": name } })), failed);
    }
    let five = Duration::from_secs(300);
    for (settings, skew) in [
        (json!({ "ahead": "5m" }), ClockSkew::Ahead(five)),
        (json!({ "behind": "5m" }), ClockSkew::Behind(five)),
    ] {
        assert_eq!(effect(json!({ "clockSkew": settings })), afflict(Symptom::ClockSkew(skew)));
    }
    let pressure = NodeCondition {
        kind: "DiskPressure".into(),
        status: "True".into(),
        reason: "SimulatedFault".into(),
        message: String::new(),
    };
    assert_eq!(
        effect(json!({ "nodeCondition": { "type": "DiskPressure", "status": "True" } })),
        afflict(Symptom::NodeCondition(pressure))
    );
    let outage =
        Effect::Outage { affliction: affliction_of(&Symptom::Frozen), retry_after: Duration::from_secs(5) };
    assert_eq!(effect(json!({ "outage": {} })), outage);
}

#[test]
fn every_trouble_of_api_servers_is_read() {
    let trouble = |api_server: Value| match read(json!({ "effect": { "apiServer": api_server } })) {
        Ok(Fault { effect: Effect::Afflict(affliction), .. }) => affliction,
        other => panic!("{other:?}"),
    };
    let symptom = |verbs: &[&str], resources: &[&str], kind| {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let trouble = ApiServerTrouble { verbs: owned(verbs), resources: owned(resources), kind };
        affliction_of(&Symptom::ApiServer(trouble))
    };
    use ApiServerTroubleKind::{Cut, Down, Error, Latency, Stale};
    assert_eq!(trouble(json!({ "down": {} })), symptom(&[], &[], Down));
    assert_eq!(
        trouble(
            json!({ "error": { "code": 503, "probability": "0.25" }, "verbs": ["list"], "resources": ["nodes"] })
        ),
        symptom(&["list"], &["nodes"], Error { code: 503, per_million: 250_000 })
    );
    assert_eq!(
        trouble(json!({ "latency": { "duration": "2s", "jitter": "1" } })),
        symptom(&[], &[], Latency { base: Duration::from_secs(2), jitter_per_million: 1_000_000 })
    );
    assert_eq!(
        trouble(json!({ "cutWatches": { "after": "1m" } })),
        symptom(&["watch"], &[], Cut { after: Duration::from_secs(60) })
    );
    assert_eq!(trouble(json!({ "staleReads": {} })), symptom(&["get", "list", "watch"], &[], Stale));
    assert_eq!(
        trouble(json!({ "staleReads": {}, "verbs": ["list"], "resources": ["nodes"] })),
        symptom(&["list"], &["nodes"], Stale)
    );
}

/// The schema lists the same words as the cloud.
#[test]
fn every_operation_and_reason_of_the_schema_is_known() {
    assert_eq!(OPERATIONS.map(|name| operation(name).map(Verb::as_str)), OPERATIONS.map(Ok));
    assert_eq!(OPERATIONS.len(), Verb::ALL.len());
    assert_eq!(CALLERS.map(caller), CALLERS.map(|name| Ok(name.to_owned())));
    assert_eq!(CALLERS.len(), Caller::ALL.len());
    let reasons: BTreeSet<_> = FAIL_REASONS.iter().map(|reason| failure(reason).expect("known")).collect();
    assert_eq!(reasons.len(), FAIL_REASONS.len());
}

#[test]
fn a_mistake_names_the_field_the_value_and_what_would_be_right() {
    let told = |spec: Value| read(spec).expect_err("a mistake").to_string();
    let mistakes = [
        (json!({ "effect": {} }), r#"spec.effect: "{}" is not exactly one effect"#),
        (
            json!({ "effect": { "fail": { "reason": "Throttled" }, "delay": { "duration": "1s" } } }),
            r#"spec.effect: "more than one" is not exactly one effect"#,
        ),
        (
            json!({ "effect": { "fail": { "reason": "Tired" } } }),
            r#"spec.effect.fail.reason: "Tired" is not a reason"#,
        ),
        (
            json!({ "effect": { "fail": { "reason": "Timeout", "retryAfter": "soon" } } }),
            r#"spec.effect.fail.retryAfter: "soon" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "delay": { "duration": "" } } }),
            r#"spec.effect.delay.duration: "" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "delay": { "duration": "1s", "jitter": "2" } } }),
            r#"spec.effect.delay.jitter: "2" is not a fraction from 0 to 1"#,
        ),
        (
            json!({ "effect": { "lag": { "duration": "soon" } } }),
            r#"spec.effect.lag.duration: "soon" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "lag": { "duration": "1s", "jitter": "1.5" } } }),
            r#"spec.effect.lag.jitter: "1.5" is not a fraction from 0 to 1"#,
        ),
        (
            json!({ "match": { "operations": ["CreateInstance", "DescribeInstance"] }, "effect": { "lag": { "duration": "1s" } } }),
            r#"spec.match.operations: "DescribeInstance" is not an operation that changes something"#,
        ),
        (
            json!({ "effect": { "duplicate": { "retryAfter": "-1s" } } }),
            r#"spec.effect.duplicate.retryAfter: "-1s" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "duplicate": {} }, "budget": { "count": 101 } }),
            r#"spec.budget.count: "101" is not at most 100, for a fault of machines or API servers"#,
        ),
        (
            json!({ "effect": { "apiServer": { "down": {}, "cutWatches": { "after": "5s" } } } }),
            r#"spec.effect.apiServer: "" is not exactly one of down, error, latency, cutWatches and staleReads"#,
        ),
        (
            json!({ "effect": { "apiServer": { "staleReads": {}, "verbs": ["get", "create"] } } }),
            r#"spec.effect.apiServer.verbs: "create" is not get, list or watch"#,
        ),
        (
            json!({ "effect": { "bootstrap": { "failedPhase": "certs" } } }),
            r#"spec.effect.bootstrap.failedPhase: "certs" is not a phase of kubeadm"#,
        ),
        (
            json!({ "effect": { "clockSkew": { "ahead": "1m", "behind": "1m" } } }),
            r#"spec.effect.clockSkew: "both" is not exactly one of ahead and behind"#,
        ),
        (
            json!({ "effect": { "clockSkew": { "behind": "-5m" } } }),
            r#"spec.effect.clockSkew.behind: "-5m" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "apiServer": { "error": { "code": 418 } } } }),
            r#"spec.effect.apiServer.error.code: "418" is not a status code of an error"#,
        ),
        (
            json!({ "effect": { "apiServer": { "latency": { "duration": "late" } } } }),
            r#"spec.effect.apiServer.latency.duration: "late" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "etcd": {} } }),
            r#"spec.effect.etcd: "" is not exactly one of alarm, noLeader, slow and hiddenMember"#,
        ),
        (
            json!({ "effect": { "etcd": { "alarm": "Corrupt", "hiddenMember": {} } } }),
            r#"spec.effect.etcd: "" is not exactly one of alarm, noLeader, slow and hiddenMember"#,
        ),
        (
            json!({ "effect": { "etcd": { "slow": { "duration": "1s", "jitter": "-1" } } } }),
            r#"spec.effect.etcd.slow.jitter: "-1" is not a fraction from 0 to 1"#,
        ),
        (
            json!({ "effect": { "certificate": { "expiresIn": "1h", "expired": {} } } }),
            r#"spec.effect.certificate: "" is not exactly one of expiresIn and expired"#,
        ),
        (
            json!({ "effect": { "certificate": { "expiresIn": "-1h" } } }),
            r#"spec.effect.certificate.expiresIn: "-1h" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "loadBalancer": { "noBackends": {}, "wrongBackends": {} } } }),
            r#"spec.effect.loadBalancer: "" is not exactly one of noBackends, wrongBackends and reset"#,
        ),
        (
            json!({ "effect": { "loadBalancer": { "reset": { "after": "5" } } } }),
            r#"spec.effect.loadBalancer.reset.after: "5" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "loadBalancer": { "reset": { "after": "5s", "probability": "2" } } } }),
            r#"spec.effect.loadBalancer.reset.probability: "2" is not a fraction from 0 to 1"#,
        ),
        (
            json!({ "effect": { "flap": { "up": "30s", "down": "999ms" } } }),
            r#"spec.effect.flap.down: "999ms" is not at least 1s"#,
        ),
        (
            json!({ "effect": { "flap": { "up": "", "down": "1s" } } }),
            r#"spec.effect.flap.up: "" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "etcd": { "alarm": "Fire" } } }),
            r#"spec.effect.etcd.alarm: "Fire" is not an alarm of etcd"#,
        ),
        (
            json!({ "effect": { "hold": { "stage": "grub" } } }),
            r#"spec.effect.hold.stage: "grub" is not a stage of a machine's start"#,
        ),
        (
            json!({ "effect": { "leak": {} }, "budget": { "count": 101 } }),
            r#"spec.budget.count: "101" is not at most 100, for a fault of machines or API servers"#,
        ),
        (
            json!({ "effect": { "spotReclaim": { "notice": "soon" } } }),
            r#"spec.effect.spotReclaim.notice: "soon" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "nodeRebootsAs": { "nameSuffix": "-" } } }),
            r#"spec.effect.nodeRebootsAs.nameSuffix: "-" is not the end of the name of a Node"#,
        ),
        (
            json!({ "effect": { "nodeRebootsAs": {} } }),
            r#"spec.effect.nodeRebootsAs.nameSuffix: "" is not the end of the name of a Node"#,
        ),
        (
            json!({ "effect": { "nodeRebootsAs": { "nameSuffix": "-2", "downFor": "long" } } }),
            r#"spec.effect.nodeRebootsAs.downFor: "long" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": fail(), "match": { "markets": ["Futures"] } }),
            r#"spec.match.markets: "Futures" is not OnDemand or Spot"#,
        ),
        (
            json!({ "effect": { "outage": { "retryAfter": "soon" } } }),
            r#"spec.effect.outage.retryAfter: "soon" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": { "nodeCondition": { "type": "Dead", "status": "Yes" } } }),
            r#"spec.effect.nodeCondition.status: "Yes" is not True, False or Unknown"#,
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
            json!({ "effect": fail(), "match": { "callers": ["infra"] } }),
            r#"spec.match.callers: "infra" is not a caller of the cloud"#,
        ),
        (
            json!({ "effect": { "vanish": {} }, "budget": { "count": 101 } }),
            r#"spec.budget.count: "101" is not at most 100, for a fault of machines or API servers"#,
        ),
        (
            json!({ "effect": fail(), "match": { "operations": ["Reboot"] } }),
            r#"spec.match.operations: "Reboot" is not an operation of the cloud"#,
        ),
        (
            json!({ "effect": fail(), "match": { "machineSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } } }),
            r#"spec.match.machineSelector: "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\"}]}" is not a label selector"#,
        ),
        (
            json!({ "effect": fail(), "match": { "clusterSelector": "all" } }),
            r#"spec.match.clusterSelector: "\"all\"" is not a label selector"#,
        ),
        (
            json!({ "effect": fail(), "budget": { "probability": "30%" } }),
            r#"spec.budget.probability: "30%" is not a fraction from 0 to 1"#,
        ),
        (
            json!({ "effect": fail(), "budget": { "skip": -1 } }),
            r#"spec.budget.skip: "-1" is not a number from 0 on"#,
        ),
        (
            json!({ "effect": fail(), "budget": { "schedule": { "every": "often", "for": "1s" } } }),
            r#"spec.budget.schedule.every: "often" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": fail(), "budget": { "schedule": { "every": "10s", "for": "9.5s" } } }),
            r#"spec.budget.schedule.for: "9.5s" is not at least 1s, and 1s shorter than every"#,
        ),
        (
            json!({ "effect": fail(), "budget": { "schedule": { "every": "10s", "for": "1s", "offset": "-1s" } } }),
            r#"spec.budget.schedule.offset: "-1s" is not a duration such as 90s"#,
        ),
        (
            json!({ "effect": fail(), "budget": { "for": "ever" } }),
            r#"spec.budget.for: "ever" is not a duration such as 90s"#,
        ),
    ];
    for (spec, message) in mistakes {
        assert_eq!(told(spec), message);
    }
}
