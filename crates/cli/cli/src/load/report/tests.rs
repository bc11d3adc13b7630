use std::time::Duration;

use serde_json::json;

use super::{content::METHOD, *};
use crate::load::{
    controllers::{ControllerUse, UsePoint},
    record::{ClusterStep, MachineStep, Observation, Record, Seen},
};

fn settings() -> Settings {
    Settings {
        started: "2026-03-04T05:06:07Z".parse().expect("a time"),
        nephele: "0.1.0".to_owned(),
        management: "v1.36.3".to_owned(),
        namespace: "team".to_owned(),
        flavor: "topology".to_owned(),
        clusters: 2,
        control_plane: 1,
        workers: 3,
        kubernetes_version: "v1.36.3".to_owned(),
        parallel: 10,
    }
}

fn record() -> Record {
    let mut record = Record::default();
    let mut see = |milliseconds, what| {
        record.apply(Observation {
            at: Duration::from_millis(milliseconds),
            what,
        });
    };
    for (name, sent, at) in [("a", 0, 4_000), ("b", 500, 8_500)] {
        let steps = [ClusterStep::InfrastructureProvisioned, ClusterStep::Available].into();
        see(
            sent,
            Seen::Sent {
                cluster: name.to_owned(),
            },
        );
        see(
            at,
            Seen::Cluster {
                name: name.to_owned(),
                steps,
                obstacle: String::new(),
            },
        );
    }
    see(
        1_000,
        Seen::Machine {
            name: "a-1".to_owned(),
            steps: [].into(),
        },
    );
    see(
        3_000,
        Seen::Machine {
            name: "a-1".to_owned(),
            steps: [MachineStep::Running].into(),
        },
    );
    record
}

fn report() -> Report {
    let mut report = Report::new(settings(), &record(), Duration::from_secs(9), None);
    report.controllers.push(ControllerUse {
        name: "capi-controller-manager".to_owned(),
        cpu_seconds: 3.25,
        cores_mean: 0.5,
        resident_mib_before: 40.0,
        resident_mib_max: 71.5,
        points: vec![UsePoint {
            at: 5.0,
            cores: 0.5,
            resident_mib: 71.5,
        }],
    });
    report.notes.push("A note.".to_owned());
    report.outcome.deletion_seconds = Some(2.5);
    report
}

#[test]
fn json_has_the_documented_fields() {
    let row = |of: &str, name: &str, count: u32, p50: f64, max: f64| json!({"of": of, "name": name, "count": count, "p50": p50, "p90": max, "p99": max, "max": max});
    let cluster = |name: &str, created: f64, at: f64| {
        let reached = json!({"infrastructureProvisioned": at, "available": at});
        json!({"name": name, "created": created, "reached": reached})
    };
    let expected = json!({
        "settings": {
            "started": "2026-03-04T05:06:07Z", "nephele": "0.1.0", "management": "v1.36.3", "namespace": "team",
            "flavor": "topology", "clusters": 2, "controlPlane": 1, "workers": 3, "kubernetesVersion": "v1.36.3",
            "parallel": 10,
        },
        "outcome": {"available": 2, "seconds": 8.5, "deletionSeconds": 2.5},
        "method": METHOD,
        "steps": [
            row("Cluster", "infrastructure provisioned", 2, 4.0, 8.0),
            row("Cluster", "available", 2, 4.0, 8.0),
            row("Machine", "running", 1, 2.0, 2.0),
        ],
        "controllers": [{
            "name": "capi-controller-manager", "cpuSeconds": 3.25, "coresMean": 0.5, "residentMibBefore": 40.0,
            "residentMibMax": 71.5, "points": [{"at": 5.0, "cores": 0.5, "residentMib": 71.5}],
        }],
        "notes": ["A note."],
        "clusters": [cluster("a", 0.0, 4.0), cluster("b", 0.5, 8.5)],
    });
    assert_eq!(serde_json::to_value(report()).expect("JSON"), expected);
}

#[test]
fn text_has_tables_of_steps_and_controllers() {
    let expected = format!(
        "2 of 2 clusters available after 8.5 s\n\n\
         SECONDS UNTIL                        COUNT   P50   P90   P99   MAX\n\
         Cluster infrastructure provisioned   2       4.0   8.0   8.0   8.0\n\
         Cluster available                    2       4.0   8.0   8.0   8.0\n\
         Machine running                      1       2.0   2.0   2.0   2.0\n\n\
         CONTROLLER                CPU SECONDS   CORES   MIB BEFORE   MIB MAX\n\
         capi-controller-manager   3.2           0.50    40.0         71.5\n\n\
         {METHOD}\nA note.\n"
    );
    assert_eq!(text(&report()), expected);
}

/// Names and messages come from the management cluster and from the command line.
#[test]
fn page_escapes_everything_and_loads_nothing() {
    let hostile = "<script>alert(\"1\")</script>&'";
    let mut report = report();
    for text in [
        &mut report.settings.namespace,
        &mut report.settings.management,
        &mut report.settings.flavor,
        &mut report.settings.kubernetes_version,
        &mut report.controllers[0].name,
        &mut report.notes[0],
    ] {
        hostile.clone_into(text);
    }
    report.outcome.failure = Some(hostile.to_owned());
    report.controllers.push(report.controllers[0].clone());
    let page = page(&report);
    assert!(
        !page.contains("<script") && !page.contains("alert(\"1\")"),
        "{page}"
    );
    let escaped = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;";
    // Five texts, the name of each controller in the table and in both legends, and the note.
    assert_eq!(page.matches(escaped).count(), 4 + 1 + 2 * 3 + 1, "{page}");
    for asset in ["http:", "https:", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(asset), "{asset}");
    }
}

#[test]
fn page_has_charts_for_what_was_seen() {
    let charts = |report: &Report| page(report).matches("<svg").count();
    assert_eq!(charts(&report()), 4);
    assert_eq!(
        charts(&Report {
            controllers: Vec::new(),
            ..report()
        }),
        2
    );
    let nothing = Report::new(
        settings(),
        &Record::default(),
        Duration::from_secs(1),
        Some("x".to_owned()),
    );
    assert!(!page(&nothing).contains("NaN"));
}

#[test]
fn reasons_are_few_and_in_one_line() {
    let missing: Vec<_> = (0..7)
        .map(|number| (format!("c{number}"), "two\n  lines".to_owned()))
        .collect();
    let expected = "c0: two lines; c1: two lines; c2: two lines; c3: two lines; c4: two lines; and 2 more";
    assert_eq!(reasons(&missing), expected);
}
