use serde_json::json;

use super::{super::path_element::PathElement, *};

fn entry(manager: &str, operation: &str, time: Option<&str>) -> Value {
    let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
                           "fieldsV1": {"f:a": {}}});
    if let Some(time) = time {
        entry["time"] = time.into();
    }
    entry
}

fn names(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect()
}

#[test]
fn appliers_come_first_then_the_oldest() {
    let early = Some("2020-01-01T00:00:00Z");
    let late = Some("2020-01-02T00:00:00Z");
    let sent = json!([
        entry("d", "Update", late),
        entry("c", "Update", early),
        entry("b", "Apply", late),
        entry("e", "Apply", None),
        entry("a", "Apply", late),
    ]);
    let written = Managers::read(&sent).unwrap().write().unwrap();
    assert_eq!(names(&written), ["e", "a", "b", "c", "d"]);
    assert_eq!(written[1], entry("a", "Apply", late));
    assert_eq!(Managers::read(&written).unwrap().write(), Some(written));
}

#[test]
fn applier_stays_the_same_in_another_version_and_an_updater_does_not() {
    let id = |operation, version| ManagerId::new(operation, "m", version, "");
    assert_eq!(id(Operation::Apply, "a/v1"), id(Operation::Apply, "a/v2"));
    assert_ne!(id(Operation::Update, "a/v1"), id(Operation::Update, "a/v2"));
}

#[test]
fn time_is_read_with_any_offset_and_written_in_utc() {
    let sent = json!([entry("a", "Apply", Some("2020-01-01T02:00:00+02:00"))]);
    let written = Managers::read(&sent).unwrap().write().unwrap();
    assert_eq!(written[0]["time"], "2020-01-01T00:00:00Z");
    assert!(are_same_but_for_times(&sent, &json!([entry("a", "Apply", None)])));
    assert!(!are_same_but_for_times(
        &sent,
        &json!([entry("b", "Apply", None)])
    ));
}

#[test]
fn empty_lists_and_entries_are_a_reset() {
    for value in [json!([]), json!([{}]), json!([{"manager": null}])] {
        assert!(is_reset(&value), "{value}");
    }
    for value in [
        json!(null),
        json!([{}, {}]),
        json!([entry("a", "Apply", None)]),
        json!({}),
        json!([[]]),
    ] {
        assert!(!is_reset(&value), "{value}");
    }
}

#[test]
fn managers_without_fields_are_none() {
    let mut none = entry("a", "Apply", None);
    none["fieldsV1"] = json!({});
    assert_eq!(Managers::read(&json!([none])), Ok(Managers::default()));
    assert_eq!(Managers::of(Some(&json!([7]))), Managers::default());
    assert_eq!(Managers::default().write(), None);
}

/// Ten managers of updates at most, whatever they were before.
#[test]
fn oldest_updates_are_joined() {
    let time = |second: i64| Some(Timestamp::from_second(second).unwrap());
    let field = |name: String| FieldSet::of([&[PathElement::field(&name)][..]]);
    let mut managers = Managers::default();
    for index in 0..12 {
        let id = ManagerId::new(Operation::Update, &format!("m{index:02}"), "v1", "");
        let fields = field(format!("f{index}"));
        managers.put(
            id,
            Managed {
                api_version: "v1".to_owned(),
                time: time(index),
                fields,
            },
        );
    }
    managers.join_old_updates();
    let written = managers.write().unwrap();
    let expected = [
        "ancient-changes",
        "m03",
        "m04",
        "m05",
        "m06",
        "m07",
        "m08",
        "m09",
        "m10",
        "m11",
    ];
    assert_eq!(names(&written), expected);
    assert_eq!(
        written[0]["fieldsV1"],
        json!({"f:f0": {}, "f:f1": {}, "f:f2": {}})
    );
    assert_eq!(written[0]["time"], "1970-01-01T00:00:02Z");
    // One more: the bucket takes the oldest of the others.
    let id = ManagerId::new(Operation::Update, "m12", "v1", "");
    managers.put(
        id,
        Managed {
            api_version: "v1".to_owned(),
            time: time(12),
            fields: field("f12".to_owned()),
        },
    );
    managers.join_old_updates();
    assert_eq!(names(&managers.write().unwrap())[..2], ["ancient-changes", "m04"]);
    assert_eq!(managers.0.len(), 10);
}
