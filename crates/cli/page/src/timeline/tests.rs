use proptest::prelude::*;
use serde_json::{Value, json};

use super::{window::AskedError, *};
use crate::model::tests::objects;

/// 2026-03-04T05:06:00Z, and milliseconds after it.
fn at(milliseconds: i64) -> i64 {
    1_772_600_760_000 + milliseconds
}

fn record(milliseconds: i64, kind: &str, name: &str, more: Value) -> Arc<JournalLine> {
    let cluster = if matches!(kind, "Machine" | "LoadBalancer") {
        "a"
    } else {
        ""
    };
    let time = jiff::Timestamp::from_millisecond(at(milliseconds)).expect("a time");
    let mut line = json!({ "sequence": 1, "time": time.to_string(), "namespace": "team", "cluster": cluster,
                           "kind": kind, "name": name });
    let Value::Object(more) = more else {
        panic!("no fields: {more}")
    };
    line.as_object_mut().expect("fields").extend(more);
    Arc::new(serde_json::from_value(line).expect("a record"))
}

/// A machine `old` that is gone, a Fault that hit it, and a machine that exists, `a-0`, of which no record is known.
fn story() -> Objects {
    let operation = |name: &str, outcome: &str| json!({ "operation": name, "outcome": outcome });
    let stage = |stage: &str| json!({ "event": "StageReached", "message": stage });
    let mut objects = objects();
    objects.faults.clear();
    let cloud = Arc::make_mut(&mut objects.clouds[0]);
    cloud.metadata.creation_timestamp =
        Some(serde_json::from_value(json!("2026-03-04T05:00:00Z")).expect("a time"));
    objects.journal = vec![
        record(0, "Fault", "silent", operation("PutFault", "Accepted")),
        record(
            1_000,
            "Machine",
            "old",
            operation("CreateInstance", "QuotaExceeded"),
        ),
        record(2_000, "Machine", "old", operation("CreateInstance", "Accepted")),
        record(3_000, "Machine", "old", stage("vm")),
        record(4_000, "Machine", "old", stage("node")),
        record(
            5_000,
            "Machine",
            "old",
            json!({ "event": "Afflicted", "message": "notReady", "faults": ["silent"] }),
        ),
        record(
            6_000,
            "Machine",
            "old",
            json!({ "event": "Healed", "faults": ["silent"] }),
        ),
        record(
            6_000,
            "Fault",
            "silent",
            json!({ "event": "FaultEnded", "faults": ["silent"] }),
        ),
        record(7_000, "Machine", "old", operation("DeleteInstance", "Accepted")),
        record(8_000, "Machine", "old", json!({ "event": "Deleted" })),
    ];
    objects
}

fn asked(query: &str) -> Asked {
    Asked::of(query).expect("a query")
}

/// The spans of a lane: their states, with from when until when after the beginning of the story.
fn spans(timeline: &Timeline, name: &str) -> Vec<(&'static str, i64, i64)> {
    let lane = timeline.lanes.iter().find(|lane| lane.id.name == name);
    let spans = lane.expect("it has a lane").spans.iter();
    spans
        .map(|span| (span.state, span.from - at(0), span.until - at(0)))
        .collect()
}

#[test]
fn a_machine_that_is_gone_has_its_whole_story() {
    let timeline = Timeline::new(&story(), &asked("last=10s"), at(10_000));
    assert_eq!(
        spans(&timeline, "old"),
        [
            ("starting", 2_000, 4_000),
            ("running", 4_000, 7_000),
            ("deleting", 7_000, 8_000),
            ("affected", 5_000, 6_000),
        ]
    );
    assert_eq!(spans(&timeline, "silent"), [("in force", 0, 6_000)]);
    let names: Vec<_> = timeline
        .lanes
        .iter()
        .map(|lane| (lane.id.kind, lane.href.clone()))
        .collect();
    assert_eq!(names[0], (LaneKind::Cloud, Some("/cloud/team/north".to_owned())));
    assert_eq!(names[1], (LaneKind::Fault, None), "it does not exist any more");
    let band = Span {
        from: at(0),
        until: at(6_000),
        state: "in force",
    };
    assert_eq!(timeline.bands, [("team".to_owned(), vec![band])].into());
}

#[test]
fn what_exists_has_a_lane_though_the_journal_forgot_it() {
    let mut objects = story();
    let machine = Arc::make_mut(&mut objects.machines[0]);
    machine.metadata.creation_timestamp =
        Some(serde_json::from_value(json!("2026-03-04T05:06:01Z")).expect("a time"));
    let timeline = Timeline::new(&objects, &asked("last=10s"), at(10_000));
    assert_eq!(spans(&timeline, "a-0"), [("running", 1_000, 10_000)]);
    let lane = timeline.lanes.iter().find(|lane| lane.id.name == "a-0");
    assert_eq!(
        lane.expect("it is there").href.as_deref(),
        Some("/machine/team/a-0")
    );
}

#[test]
fn a_cluster_starts_until_its_load_balancer_has_a_backend() {
    let mut objects = story();
    objects.journal = vec![
        record(
            1_000,
            "LoadBalancer",
            "",
            json!({ "operation": "CreateLoadBalancer", "outcome": "Accepted" }),
        ),
        record(
            2_000,
            "LoadBalancer",
            "",
            json!({ "event": "BackendInService", "message": "machine a-0" }),
        ),
    ];
    let timeline = Timeline::new(&objects, &asked("last=10s"), at(10_000));
    assert_eq!(
        spans(&timeline, "a"),
        [("starting", 1_000, 2_000), ("running", 2_000, 10_000)]
    );
}

#[test]
fn a_machine_waits_from_its_object_to_its_instance() {
    let mut objects = story();
    objects.journal.push(record(
        9_000,
        "Machine",
        "a-0",
        json!({ "operation": "CreateInstance", "outcome": "Accepted" }),
    ));
    let machine = Arc::make_mut(&mut objects.machines[0]);
    machine.metadata.creation_timestamp =
        Some(serde_json::from_value(json!("2026-03-04T05:06:01Z")).expect("a time"));
    let timeline = Timeline::new(&objects, &asked("last=10s"), at(10_000));
    assert_eq!(
        spans(&timeline, "a-0"),
        [("waiting", 1_000, 9_000), ("starting", 9_000, 10_000)]
    );
}

#[test]
fn windows_of_a_schedule_decide_when_a_fault_is_in_force() {
    let mut objects = story();
    let window = |event: &str| json!({ "event": event, "faults": ["flapping"] });
    objects.journal = vec![
        record(
            0,
            "Fault",
            "flapping",
            json!({ "operation": "PutFault", "outcome": "Accepted" }),
        ),
        record(2_000, "Fault", "flapping", window("FaultWindowBegan")),
        record(3_000, "Fault", "flapping", window("FaultWindowEnded")),
        record(
            3_500,
            "Fault",
            "flapping",
            json!({ "operation": "PutFault", "outcome": "Accepted" }),
        ),
        record(5_000, "Fault", "flapping", window("FaultWindowBegan")),
        record(
            6_000,
            "Fault",
            "flapping",
            json!({ "operation": "DeleteFault", "outcome": "Accepted" }),
        ),
    ];
    let timeline = Timeline::new(&objects, &asked("last=10s"), at(10_000));
    assert_eq!(
        spans(&timeline, "flapping"),
        [("in force", 2_000, 3_000), ("in force", 5_000, 6_000)]
    );
}

#[test]
fn an_instance_that_leaked_has_a_lane_until_it_is_deleted() {
    let mut objects = story();
    let leaked = json!({ "event": "Leaked", "faults": ["leak"] });
    objects.journal = vec![
        record(
            0,
            "Machine",
            "lost",
            json!({ "operation": "CreateInstance", "outcome": "Accepted" }),
        ),
        record(
            1_000,
            "Machine",
            "lost",
            json!({ "operation": "DeleteInstance", "outcome": "Accepted" }),
        ),
        record(2_000, "Machine", "lost", leaked),
    ];
    let timeline = |objects: &Objects| Timeline::new(objects, &asked("last=10s"), at(10_000));
    assert_eq!(
        spans(&timeline(&objects), "lost"),
        [
            ("starting", 0, 1_000),
            ("deleting", 1_000, 2_000),
            ("leaked", 2_000, 10_000)
        ]
    );
    objects.journal.push(record(
        3_000,
        "Machine",
        "lost",
        json!({ "event": "LeakedDeleted" }),
    ));
    assert_eq!(
        spans(&timeline(&objects), "lost"),
        [("starting", 0, 1_000), ("deleting", 1_000, 3_000)]
    );
}

#[test]
fn the_records_are_those_of_the_window_and_the_lane() {
    let words = |query: &str| {
        let timeline = Timeline::new(&story(), &asked(query), at(10_000));
        let records = timeline.records.iter();
        records
            .map(|line| format!("{}{}", line.operation, line.event))
            .collect::<Vec<_>>()
    };
    let between = "from=2026-03-04T05:06:04Z&until=2026-03-04T05:06:06Z";
    assert_eq!(
        words(between),
        ["StageReached", "Afflicted", "Healed", "FaultEnded"]
    );
    assert_eq!(words("last=10s&cluster=team/other"), ["PutFault", "FaultEnded"]);
    assert_eq!(words("last=10s&namespace=other"), [""; 0]);
    assert_eq!(
        words("last=10s&lane=fault/team//silent"),
        ["PutFault", "Afflicted", "Healed", "FaultEnded"],
        "with what it did"
    );
}

#[test]
fn a_screen_has_a_bound_of_lanes_and_of_marks_in_a_lane() {
    let mut objects = story();
    objects.journal = (0..4_000)
        .map(|number| {
            record(
                number,
                "Machine",
                "busy",
                json!({ "operation": "DescribeInstance", "outcome": "Throttled" }),
            )
        })
        .collect();
    for number in 0..300 {
        objects.journal.push(record(
            5_000,
            "Machine",
            &format!("m-{number}"),
            json!({ "event": "Deleted" }),
        ));
    }
    let timeline = Timeline::new(&objects, &asked("last=10s"), at(10_000));
    assert_eq!(
        (timeline.lanes.len(), timeline.lanes_left_out),
        (LANES_MAX, 302 - LANES_MAX)
    );
    let busy = timeline
        .lanes
        .iter()
        .find(|lane| lane.id.name == "busy")
        .expect("it has a lane");
    assert_eq!(busy.marks.len(), 200, "4 of 10 s, in 500 parts");
}

#[test]
fn faults_that_flap_share_their_bands_where_these_would_touch() {
    let mut objects = story();
    let window = |number: i64, event: &str| {
        let name = format!("flapping-{}", number % 7);
        record(number, "Fault", &name, json!({ "event": event }))
    };
    objects.journal = (0..4_000)
        .map(|number| {
            window(
                number * 2,
                if number / 7 % 2 == 0 {
                    "FaultWindowBegan"
                } else {
                    "FaultWindowEnded"
                },
            )
        })
        .collect();
    let bands = |journal: Vec<Arc<JournalLine>>| {
        let objects = Objects {
            journal,
            ..objects.clone()
        };
        Timeline::new(&objects, &asked("last=10s"), at(10_000)).bands["team"].clone()
    };
    let all = bands(objects.journal.clone());
    assert_eq!(all.len(), 1, "{all:?}");
    // Two windows of a second, four seconds apart.
    let apart = [
        (1_000, "FaultWindowBegan"),
        (2_000, "FaultWindowEnded"),
        (6_000, "FaultWindowBegan"),
        (7_000, "FaultWindowEnded"),
    ];
    let apart = apart.map(|(time, event)| record(time, "Fault", "flapping", json!({ "event": event })));
    let spans: Vec<_> = bands(apart.to_vec())
        .iter()
        .map(|span| (span.from - at(0), span.until - at(0)))
        .collect();
    assert_eq!(spans, [(1_000, 2_000), (6_000, 7_000)]);
}

#[test]
fn a_query_that_cannot_be_followed_says_why() {
    let refused = |query: &str| Asked::of(query).expect_err("it is refused").to_string();
    assert_eq!(
        refused("from=yesterday"),
        "\"yesterday\" is not a time such as 2026-03-04T05:06:07Z"
    );
    assert_eq!(
        refused("from=2026-03-04T05:06:07Z&until=2026-03-04T05:06:07Z"),
        "the time 2026-03-04T05:06:07Z is not before 2026-03-04T05:06:07Z"
    );
    assert_eq!(
        refused("from=2026-03-04T05:06:07Z&until="),
        "a window needs both from and until"
    );
    assert_eq!(
        refused("last=-5m"),
        "\"-5m\" is not a duration such as 5m, and not \"all\""
    );
    assert_eq!(
        Asked::of("cluster=a").expect_err("it is refused"),
        AskedError::Cluster("a".to_owned())
    );
    assert_eq!(
        refused("lane=pod/a/b/c"),
        "\"pod/a/b/c\" is not a lane of the timeline"
    );
}

proptest! {
    #[test]
    fn an_address_leads_to_what_was_asked_for(
        namespace in proptest::option::of("[a-z&=%+ ]{1,4}[a-z]"),
        cluster in proptest::option::of(("[a-z]{1,4}", "[a-z&%]{1,3}[a-z]")),
        kind in 0..LaneKind::ALL.len(),
        lane in proptest::option::of(("[a-z]{1,3}", "[a-z]{0,3}", "[a-z.-]{1,3}")),
        span in 0..4,
        from in -377_705_023_201_000_i64..253_402_207_200_000,
    ) {
        let time = |at: i64| jiff::Timestamp::from_millisecond(at).expect("in the range of times");
        let namespace = namespace.map(|namespace| namespace.trim().to_owned());
        let asked = Asked {
            namespace,
            cluster: cluster.map(|(namespace, name)| Key::new(&namespace, &name)),
            span: match span {
                0 => None,
                1 => Some(window::Shown::All),
                2 => Some(window::Shown::Last(90_000, "1m30s".to_owned())),
                _ => Some(window::Shown::Between(time(from - 1), time(from))),
            },
            lane: lane.map(|(namespace, cluster, name)| LaneId { namespace, cluster, kind: LaneKind::ALL[kind], name }),
        };
        prop_assert_eq!(Asked::of(&asked.query()), Ok(asked));
    }

    /// Bands are few, and say of each time whether a Fault was in force, to a hundredth of the window.
    #[test]
    fn bands_are_few_and_cover_what_they_stand_for(spans in proptest::collection::vec((0..10_000_i64, 0..3_000_i64), 0..400)) {
        let window = Window { from: 0, until: 10_000, is_live: false };
        let span = |(from, length): (i64, i64)| Span { from, until: (from + length).min(10_000), state: "in force" };
        let spans: Vec<_> = spans.into_iter().map(span).collect();
        let bands = merged(spans.clone(), window);
        prop_assert!(i64::try_from(bands.len()).expect("few") <= BANDS_MAX);
        for span in &spans {
            prop_assert!(bands.iter().any(|band| band.from <= span.from && span.until <= band.until));
        }
        for pair in bands.windows(2) {
            prop_assert!(pair[1].from - pair[0].until > 100, "{pair:?}");
        }
    }

    /// Whatever an address says, nothing panics, and each span lies in the window.
    #[test]
    fn each_span_lies_in_its_window(from in any::<i64>(), length in any::<i64>(), last in any::<i64>(), now in any::<i64>()) {
        let now = now.clamp(-377_705_023_201_000, 253_402_207_200_000);
        let time = |at: i64| jiff::Timestamp::from_millisecond(at.clamp(-377_705_023_201_000, 253_402_207_200_000));
        let spans = [
            window::Shown::Last(last.saturating_abs().max(1), String::new()),
            window::Shown::All,
            window::Shown::Between(time(from).expect("a time"), time(from.saturating_add(length)).expect("a time")),
        ];
        for span in spans {
            let asked = Asked { span: Some(span), ..Asked::default() };
            let timeline = Timeline::new(&story(), &asked, now);
            let Timeline { window, lanes, .. } = &timeline;
            let (times, _) = window.times();
            prop_assert!(times.len() <= 10, "{} times", times.len());
            for span in lanes.iter().flat_map(|lane| &lane.spans) {
                prop_assert!(window.from <= span.from && span.from <= span.until && span.until <= window.until);
            }
            let _ = crate::timeline_html::page(&timeline, &asked, crate::html::Whose::Command);
        }
    }
}
