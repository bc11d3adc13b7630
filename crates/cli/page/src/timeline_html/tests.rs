use std::sync::Arc;

use nephele_cloud::JournalLine;
use serde_json::json;

use super::*;
use crate::model::tests::objects;

/// The timeline of the ten seconds in which a hit was refused.
fn timeline(query: &str) -> (Timeline, Asked) {
    let mut objects = objects();
    let line = json!({ "sequence": 1, "time": "2026-03-04T05:06:07Z", "namespace": "team", "cluster": "a", "kind": "Machine",
                       "name": "<i>", "operation": "CreateInstance", "outcome": "Throttled", "hit": true, "faults": ["f"],
                       "message": "</title><script>alert(1)</script>" });
    objects.journal = vec![Arc::new(
        serde_json::from_value::<JournalLine>(line).expect("a record"),
    )];
    let asked = Asked::of(query).expect("a query");
    (Timeline::new(&objects, &asked, 1_772_600_770_000), asked)
}

#[test]
fn texts_of_objects_are_inert_in_the_page_and_in_the_picture() {
    let (timeline, asked) = timeline("last=10s&lane=machine/team/a/%3Ci%3E");
    for text in [
        page(&timeline, &asked, Whose::Visit).into_string(),
        picture(&timeline),
    ] {
        assert!(text.contains("↯") && text.contains("&lt;script&gt;"), "{text}");
        assert!(!text.contains("<i>") && !text.contains("<script>alert"), "{text}");
    }
}

#[test]
fn a_lane_is_told_in_words_too() {
    let (timeline, _) = timeline("last=10s");
    let lane = timeline
        .lanes
        .iter()
        .find(|lane| lane.id.name == "<i>")
        .expect("it has a lane");
    assert_eq!(told(lane, timeline.window), "1 hit of a Fault");
}

#[test]
fn beside_a_window_are_others_of_its_middle() {
    let window = Window {
        from: 0,
        until: 8_000,
        is_live: false,
    };
    let span = |shown: &Shown| match shown {
        Shown::Between(from, until) => (from.as_millisecond(), until.as_millisecond()),
        _ => (0, 0),
    };
    let spans: Vec<_> = moves(window)
        .iter()
        .map(|(word, shown)| (*word, span(shown)))
        .collect();
    assert_eq!(
        spans,
        [
            ("earlier", (-4_000, 4_000)),
            ("later", (4_000, 12_000)),
            ("closer", (2_000, 6_000)),
            ("wider", (-4_000, 12_000)),
        ]
    );
}
