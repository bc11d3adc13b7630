use serde_json::{Value, json};

use super::*;

fn read(steps: &Value) -> ScenarioSpec {
    serde_json::from_value(json!({ "steps": steps })).expect("a spec")
}

fn say(text: &str) -> Value {
    json!({ "say": text })
}

#[test]
fn steps_of_branches_and_rounds_have_the_names_of_their_paths() {
    let spec = read(&json!([
        { "name": "up", "say": "up" },
        { "name": "zones", "parallel": [
            { "name": "first", "forEach": ["north-1a", "v1.36.3"], "steps": [
                { "name": "lose", "say": "$(item) is number $(index), not $$(item)" }, say("b"),
            ] },
            { "steps": [say("$(index)")] },
        ] },
        { "repeat": 2, "steps": [say("$(index) $(item)")] },
        { "name": "each", "forEach": ["x"], "steps": [{ "name": "of-$(item)", "pause": "1s" }] },
        say("done"),
    ]));
    let list = expanded(&spec).expect("a list");
    let told = |step: &FlatStep| {
        let StepAction { say, pause, .. } = &step.action;
        (
            step.name.clone(),
            step.field.clone(),
            step.after.clone(),
            step.is_repeated,
            format!("{say}{pause}"),
        )
    };
    let told: Vec<_> = list.iter().map(told).collect();
    let of = |name: &str, field: &str, after: &[usize], is_repeated: bool, text: &str| {
        (
            name.to_owned(),
            field.to_owned(),
            after.to_vec(),
            is_repeated,
            text.to_owned(),
        )
    };
    let lose = "steps[1].parallel[0].steps[0]";
    let second = "steps[1].parallel[0].steps[1]";
    let expected = [
        of("up", "steps[0]", &[], false, "up"),
        of(
            "zones/first/north-1a/lose",
            lose,
            &[0],
            true,
            "north-1a is number 1, not $(item)",
        ),
        of("zones/first/north-1a/step-2", second, &[1], true, "b"),
        of(
            "zones/first/v1.36.3/lose",
            lose,
            &[2],
            true,
            "v1.36.3 is number 2, not $(item)",
        ),
        of("zones/first/v1.36.3/step-2", second, &[3], true, "b"),
        of(
            "zones/branch-2/step-1",
            "steps[1].parallel[1].steps[0]",
            &[0],
            false,
            "$(index)",
        ),
        of("step-3/1/step-1", "steps[2].steps[0]", &[4, 5], true, "1 $(item)"),
        of("step-3/2/step-1", "steps[2].steps[0]", &[6], true, "2 $(item)"),
        of("each/x/of-x", "steps[3].steps[0]", &[7], true, "1s"),
        of("step-5", "steps[4]", &[8], false, "done"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_name_is_not_longer_than_the_status_takes() {
    let long = "n".repeat(63);
    let item = "i".repeat(63);
    let spec = read(&json!([{ "name": long, "parallel": [
        { "name": long, "forEach": [item], "steps": [{ "name": "$(item)".repeat(9), "say": "a" }] },
        { "steps": [say("b")] },
    ] }]));
    let name = &expanded(&spec).expect("a list")[0].name;
    assert_eq!(*name, format!("{long}/{long}/{item}/{item}"));
    assert_eq!(name.len(), STEP_NAME_MAX);
}

#[test]
fn a_wrong_structure_names_its_field() {
    let many = |steps: usize, times: i64| json!([{ "repeat": times, "steps": vec![say("a"); steps] }]);
    let branch = json!({ "steps": [say("a")] });
    for (steps, message) in [
        (
            json!([]),
            "spec.steps: must be 1 to 100 steps, with those of each branch and each round, not 0",
        ),
        (
            many(2, 51),
            "spec.steps: must be 1 to 100 steps, with those of each branch and each round, not 102",
        ),
        (
            json!([say("a"), { "parallel": [{ "repeat": 50, "steps": [say("a"), say("b")] }, branch] }]),
            "spec.steps: must be 1 to 100 steps, with those of each branch and each round, not 102",
        ),
        (many(1, 0), "spec.steps[0].repeat: 0 must be 1 or more"),
        (many(1, -1), "spec.steps[0].repeat: -1 must be 1 or more"),
        (many(21, 1), "spec.steps[0].steps: must be 1 to 20 steps, not 21"),
        (
            json!([{ "steps": [say("a")] }]),
            "spec.steps[0]: must have repeat or forEach with steps",
        ),
        (
            json!([{ "repeat": 2 }]),
            "spec.steps[0].steps: must be the steps to run several times",
        ),
        (
            json!([{ "forEach": ["a"], "say": "a" }]),
            "spec.steps[0].steps: must be the steps to run several times",
        ),
        (
            json!([{ "repeat": 2, "forEach": ["a"], "steps": [say("a")] }]),
            "spec.steps[0]: must have only one of repeat and forEach",
        ),
        (
            json!([{ "parallel": [branch, { "repeat": 2, "forEach": ["a"], "steps": [say("a")] }] }]),
            "spec.steps[0].parallel[1]: must have only one of repeat and forEach",
        ),
        (
            json!([{ "say": "a", "repeat": 2, "steps": [say("a")] }]),
            "spec.steps[0]: must have only one of an action, parallel and steps",
        ),
        (
            json!([{ "parallel": [branch, branch], "repeat": 2, "steps": [say("a")] }]),
            "spec.steps[0]: must have only one of an action, parallel and steps",
        ),
        (
            json!([{ "parallel": [branch] }]),
            "spec.steps[0].parallel: must be 2 to 10 branches, not 1",
        ),
        (
            json!([{ "parallel": vec![branch.clone(); 11] }]),
            "spec.steps[0].parallel: must be 2 to 10 branches, not 11",
        ),
        (
            json!([{ "parallel": [branch, { "name": "branch-1", "steps": [say("a")] }] }]),
            "spec.steps[0].parallel[1].name: \"branch-1\" must be another name; an earlier branch has this one",
        ),
        (
            json!([{ "parallel": [branch, { "name": "b" }] }]),
            "spec.steps[0].parallel[1].steps: must be 1 to 20 steps, not 0",
        ),
        (
            json!([{ "forEach": ["a", "b", "a"], "steps": [say("a")] }]),
            "spec.steps[0].forEach[2]: \"a\" must be another value; an earlier one is the same",
        ),
    ] {
        assert_eq!(expanded(&read(&steps)).expect_err(message).to_string(), message);
    }
    let limit = many(20, 5);
    assert_eq!(expanded(&read(&limit)).expect("a list").len(), STEPS_MAX);
    // Nothing is made before it is counted.
    let message = expanded(&read(&many(20, i64::from(i32::MAX))))
        .expect_err("too many")
        .to_string();
    assert!(
        message.starts_with("spec.steps: must be 1 to 100 steps"),
        "{message}"
    );
}

#[test]
fn the_action_of_each_step_is_known_wherever_it_is() {
    let sight = json!({ "cluster": "demo", "condition": "Available", "within": "1s", "during": "1s" });
    let spec = read(&json!([
        { "wait": sight },
        { "repeat": 2, "steps": [say("a"), { "expect": sight }] },
        { "parallel": [{ "steps": [{ "never": sight }] }, { "steps": [say("a")] }] },
    ]));
    assert_eq!(
        actions(&spec),
        ["wait", "say", "expect", "say", "expect", "never", "say"]
    );
    assert_eq!(actions(&read(&json!([]))), [""; 0]);
}

/// A round has all its texts again.
#[test]
fn texts_of_all_rounds_are_bounded_before_they_are_made() {
    let apply = |bytes: usize| json!({ "apply": { "manifests": "x".repeat(bytes) } });
    let message =
        "spec.steps: must have at most 1048576 bytes of texts, with those of each branch and each round";
    for (steps, is_read) in [
        (json!([{ "repeat": 100, "steps": [apply(10_000)] }]), true),
        (json!([{ "repeat": 100, "steps": [apply(10_500)] }]), false),
        (
            json!([{ "parallel": [{ "repeat": 50, "steps": [apply(10_500)] }, { "repeat": 49, "steps": [apply(10_700)] }] }]),
            false,
        ),
        (json!(vec![apply(60_000); 17]), true),
        (json!(vec![apply(60_000); 18]), false),
    ] {
        let list = expanded(&read(&steps)).map(|list| list.len());
        assert_eq!(list.is_ok(), is_read);
        if let Err(error) = list {
            assert_eq!(error.to_string(), message);
        }
    }
}
