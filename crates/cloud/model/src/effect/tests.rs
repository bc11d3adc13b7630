use serde_json::json;

use super::*;

fn read(effect: &Value) -> Result<FaultEffect, String> {
    serde_path_to_error::deserialize(effect).map_err(|error| error.to_string())
}

#[test]
fn an_effect_is_written_as_its_user_wrote_it() {
    for effect in [
        json!({ "fail": { "reason": "LostAnswer", "message": "no room", "retryAfter": "1.5s" } }),
        json!({ "fail": { "reason": "Timeout" } }),
        json!({ "delay": { "duration": "1m30s", "jitter": ".50" } }),
        json!({ "outage": {} }),
        json!({ "outage": { "retryAfter": "1s" } }),
        json!({ "notReady": {} }),
        json!({ "nodeCondition": { "type": "DiskPressure", "status": "True" } }),
        json!({ "nodeCondition": { "type": "A", "status": "Unknown", "reason": "B", "message": "c" } }),
        json!({ "freeze": {} }),
        json!({ "vanish": {} }),
        json!({ "hold": { "stage": "apiServer" } }),
        json!({ "apiServer": { "down": {} } }),
        json!({ "apiServer": { "error": { "code": 503, "probability": "0.5" }, "verbs": ["list"] } }),
        json!({ "apiServer": { "latency": { "duration": "1s" }, "resources": ["nodes"] } }),
        json!({ "apiServer": { "cutWatches": { "after": "1m" } } }),
        json!({ "apiServer": { "staleReads": {}, "verbs": ["get", "watch"] } }),
        json!({ "etcd": { "alarm": "NoSpace" } }),
        json!({ "etcd": { "noLeader": {} } }),
        json!({ "etcd": { "slow": { "duration": "2s", "jitter": "1" } } }),
        json!({ "etcd": { "hiddenMember": {} } }),
        json!({ "certificate": { "expiresIn": "72h" } }),
        json!({ "certificate": { "expired": {} } }),
        json!({ "loadBalancer": { "noBackends": {} } }),
        json!({ "loadBalancer": { "wrongBackends": {} } }),
        json!({ "loadBalancer": { "reset": { "after": "5s", "probability": "0.1" } } }),
        json!({ "wrongProviderID": {} }),
        json!({ "flap": { "up": "30s", "down": "1s" } }),
        json!({ "leak": {} }),
        json!({ "spotReclaim": {} }),
        json!({ "spotReclaim": { "notice": "30s" } }),
        json!({ "bootstrap": { "failedPhase": "wait-control-plane" } }),
        json!({ "clockSkew": { "ahead": "5m" } }),
        json!({ "clockSkew": { "behind": "5m" } }),
        json!({ "lag": { "duration": "3s" } }),
        json!({ "duplicate": { "retryAfter": "1ms" } }),
        json!({ "addresses": { "slow": { "duration": "1m" } } }),
        json!({ "addresses": { "exhausted": {} } }),
        json!({ "addresses": { "conflict": {} } }),
        json!({ "addresses": { "lateRelease": { "duration": "90s" } } }),
        json!({ "nodeRebootsAs": { "nameSuffix": "-2", "downFor": "0s" } }),
    ] {
        let written = read(&effect).map(|effect| serde_json::to_value(effect).expect("it is written"));
        assert_eq!(written, Ok(effect));
    }
}

#[test]
fn a_mistake_names_the_field_the_value_and_what_would_be_right() {
    let one_of = "not exactly one of down, error, latency, cutWatches and staleReads";
    for (effect, message) in [
        (
            json!({ "fail": { "reason": "Tired" } }),
            "fail.reason: unknown variant `Tired`, expected one of ",
        ),
        (
            json!({ "fail": { "reason": "Timeout", "retryAfter": "soon" } }),
            r#"fail.retryAfter: "soon" is not a duration such as 90s"#,
        ),
        (
            json!({ "delay": { "duration": "" } }),
            r#"delay.duration: "" is not a duration such as 90s"#,
        ),
        (json!({ "delay": {} }), "delay: missing field `duration`"),
        (
            json!({ "lag": { "duration": "1s", "jitter": "1.5" } }),
            r#"lag.jitter: "1.5" is not a fraction from 0 to 1"#,
        ),
        (
            json!({ "duplicate": { "retryAfter": "-1s" } }),
            r#"duplicate.retryAfter: "-1s" is not a duration such as 90s"#,
        ),
        (
            json!({ "apiServer": { "down": {}, "cutWatches": { "after": "5s" } } }),
            one_of,
        ),
        (json!({ "apiServer": { "verbs": ["get"] } }), one_of),
        (
            json!({ "apiServer": { "staleReads": {}, "verbs": ["get", "create"] } }),
            r#"the verb "create" is not get, list or watch"#,
        ),
        (
            json!({ "apiServer": { "error": { "code": 418 } } }),
            "418 is not a status code of an error",
        ),
        (
            json!({ "apiServer": { "latency": { "duration": "late" } } }),
            r#""late" is not a duration such as 90s"#,
        ),
        (
            json!({ "bootstrap": { "failedPhase": "certs" } }),
            r#"bootstrap.failedPhase: "certs" is not a phase of kubeadm"#,
        ),
        (
            json!({ "clockSkew": { "behind": "-5m" } }),
            r#"clockSkew.behind: "-5m" is not a duration such as 90s"#,
        ),
        (
            json!({ "etcd": { "slow": { "duration": "1s", "jitter": "-1" } } }),
            r#"etcd.slow.jitter: "-1" is not a fraction from 0 to 1"#,
        ),
        (
            json!({ "etcd": { "alarm": "Fire" } }),
            "etcd.alarm: unknown variant `Fire`, expected ",
        ),
        (
            json!({ "certificate": { "expiresIn": "-1h" } }),
            r#"certificate.expiresIn: "-1h" is not a duration such as 90s"#,
        ),
        (
            json!({ "loadBalancer": { "reset": { "after": "5" } } }),
            r#"loadBalancer.reset.after: "5" is not a duration such as 90s"#,
        ),
        (
            json!({ "loadBalancer": { "reset": { "after": "5s", "probability": "2" } } }),
            r#"loadBalancer.reset.probability: "2" is not a fraction from 0 to 1"#,
        ),
        (
            json!({ "flap": { "up": "30s", "down": "999ms" } }),
            r#"flap.down: "999ms" is not at least 1s"#,
        ),
        (
            json!({ "hold": { "stage": "grub" } }),
            r#"hold.stage: "grub" is not a stage of a machine's start"#,
        ),
        (
            json!({ "spotReclaim": { "notice": "soon" } }),
            r#"spotReclaim.notice: "soon" is not a duration such as 90s"#,
        ),
        (
            json!({ "nodeRebootsAs": { "nameSuffix": "-" } }),
            r#"nodeRebootsAs.nameSuffix: "-" is not the end of the name of a Node"#,
        ),
        (
            json!({ "nodeRebootsAs": {} }),
            "nodeRebootsAs: missing field `nameSuffix`",
        ),
        (
            json!({ "nodeCondition": { "type": "Dead", "status": "Yes" } }),
            "nodeCondition.status: unknown variant `Yes`, expected one of `True`, `False`, `Unknown`",
        ),
        (
            json!({ "nodeCondition": { "type": "", "status": "True" } }),
            r#"nodeCondition.type: "" is not the type of a condition"#,
        ),
        (
            json!({ "addresses": { "lateRelease": { "duration": "-1s" } } }),
            r#"addresses.lateRelease.duration: "-1s" is not a duration such as 90s"#,
        ),
    ] {
        let told = read(&effect).expect_err("a mistake");
        assert!(told.contains(message), "{effect}: {told}");
    }
}

#[test]
fn exactly_one_effect_is_read() {
    let etcd = |effect: Value| json!({ "etcd": effect });
    for effect in [
        json!({}),
        json!({ "freeze": {}, "vanish": {} }),
        json!({ "sleep": {} }),
        etcd(json!({})),
        etcd(json!({ "alarm": "Corrupt", "hiddenMember": {} })),
        json!({ "certificate": { "expiresIn": "1h", "expired": {} } }),
        json!({ "loadBalancer": { "noBackends": {}, "wrongBackends": {} } }),
        json!({ "clockSkew": { "ahead": "1m", "behind": "1m" } }),
        json!({ "addresses": { "exhausted": {}, "conflict": {} } }),
    ] {
        assert!(read(&effect).is_err(), "{effect}");
    }
}
