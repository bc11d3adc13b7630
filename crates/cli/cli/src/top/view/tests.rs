use std::sync::Arc;

use nephele_cloud::JournalLine;
use nephele_page::{
    CloudView, ClusterView, FaultView, Leak, Limit, MachineView, Model, PoolView, Role, ScenarioView, State,
    Wait,
};
use ratatui::style::Modifier;

use super::*;
use crate::top::text;

/// 2026-03-04T05:06:07Z.
fn now() -> Timestamp {
    "2026-03-04T05:06:07Z".parse().expect("a time")
}

fn machine(name: &str, zone: &str, role: Role, state: State) -> Arc<MachineView> {
    Arc::new(MachineView {
        key: Key::new("team", name),
        cluster: "a".to_owned(),
        role,
        state,
        zone: zone.to_owned(),
        ..MachineView::default()
    })
}

/// A cluster with a machine in each state, and one of everything else.
fn sight() -> Sight {
    let silent = MachineView {
        faults: vec!["silent".to_owned()],
        ..(*machine("a-7", "north-1b", Role::Worker, State::Running)).clone()
    };
    let machines = [
        machine("a-0", "north-1a", Role::ControlPlane, State::Running),
        machine("a-1", "north-1b", Role::ControlPlane, State::Starting),
        machine("a-2", "north-1a", Role::Worker, State::Waiting),
        machine("a-3", "north-1a", Role::Worker, State::NotReady),
        machine("a-4", "north-1a", Role::Worker, State::Failed),
        machine("a-5", "north-1a", Role::Pool, State::Gone),
        machine("a-6", "north-1b", Role::Pool, State::Deleting),
        Arc::new(silent),
    ];
    let cluster = ClusterView {
        phase: "Provisioned".to_owned(),
        is_available: true,
        version: "v1.36.3".to_owned(),
        endpoint: "127.0.0.1:20000".to_owned(),
        in_service: 1,
        backends: 2,
        machines: 8,
        running: 2,
        ..ClusterView::default()
    };
    let cloud = CloudView {
        rate: "60".to_owned(),
        since: now().as_millisecond() - 10_000,
        time: now().as_millisecond(),
        per_hour: "0.2".to_owned(),
        total: "1.5".to_owned(),
        limits: vec![Limit {
            name: "instances".to_owned(),
            used: 8,
            limit: 8,
            waiting: 1,
        }],
        waiting: 1,
        leaked: 1,
        ..CloudView::default()
    };
    let fault = FaultView {
        effect: "notReady".to_owned(),
        phase: "Active".to_owned(),
        hits: 1,
        affected: 1,
        ends: Some(now().as_millisecond() + 41_001),
        ..FaultView::default()
    };
    let wait = Wait {
        what_for: "quota",
        message: "quota of 8 instances is used up".to_owned(),
    };
    let leak = Leak {
        what: "instance old".to_owned(),
        place: "a, zone north-1a".to_owned(),
        fault: "leak".to_owned(),
    };
    let scenario = ScenarioView {
        phase: "Running".to_owned(),
        over: 2,
        steps: 5,
        said: "a zone dies".to_owned(),
        ..ScenarioView::default()
    };
    let pool = PoolView {
        addresses: "10.0.0.1-10.0.0.9".to_owned(),
        usage: "2 of 9 in use".to_owned(),
    };
    let record = JournalLine {
        time: now(),
        name: "a-1".to_owned(),
        operation: "CreateInstance".to_owned(),
        outcome: "Accepted".to_owned(),
        ..JournalLine::default()
    };
    let model = Model {
        zones: ["north-1a", "north-1b", ""].map(str::to_owned).into(),
        clouds: [(Key::new("team", "north"), cloud)].into(),
        clusters: [(Key::new("team", "a"), cluster)].into(),
        machines: machines.into_iter().map(|one| (one.key.clone(), one)).collect(),
        waits: [(Key::new("team", "a-2"), wait)].into(),
        leaks: [("old".to_owned(), leak)].into(),
        faults: [(Key::new("team", "silent"), fault)].into(),
        scenarios: [(Key::new("team", "story"), scenario)].into(),
        pools: [(Key::new("team", "v4"), pool)].into(),
    };
    Sight {
        model: Arc::new(model),
        journal: vec![Arc::new(record)],
    }
}

fn drawn(view: &mut View, sight: &Sight, columns: u16, lines: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, lines));
    let area = buffer.area;
    view.render(sight, now(), area, &mut buffer);
    buffer
}

#[test]
fn everything_stands_on_the_screen() {
    let expected = "\
Nephele  1 cluster  8 machines, 2 running  1 waiting
team/north  05:16:07  × 60  instances 8/8  0.2 an hour, 1.5 so far  1 waiting  1 leaked

team/a  Available  v1.36.3  2 of 8 running  1 of 2 backends in service  127.0.0.1:20000
  north-1a    ⬢  □… □? ■! △×
  north-1b    ⬡  △- ■↯
⬢ control plane ■ worker ▲ pool, full: runs  … waits ? not ready ! failed × gone - deleting ↯ Fault
Faults
  team/silent  notReady  Active  1 hit, 1 affected  42s left
Waiting
  team/a-2  quota  quota of 8 instances is used up
Lost property
  instance old  a, zone north-1a  Fault leak
Pools
  team/v4  10.0.0.1-10.0.0.9  2 of 9 in use
Scenarios
  team/story  Running  2 of 5 steps  a zone dies
Journal
  05:06:07  CreateInstance  a-1  Accepted
arrows: select a machine   q: leave
";
    assert_eq!(text(&drawn(&mut View::with_keys(), &sight(), 110, 40)), expected);
}

/// The label of the selected machine, after some keys.
fn selected(view: &mut View, keys: &[KeyCode]) -> String {
    let sight = sight();
    drawn(view, &sight, 110, 40);
    for key in keys {
        assert!(!view.press(KeyEvent::from(*key), &sight), "{key:?} leaves");
    }
    let buffer = drawn(view, &sight, 110, 40);
    let marked = buffer.content().iter();
    let marked = marked
        .filter(|cell| cell.modifier.contains(Modifier::REVERSED))
        .count();
    let label = text(&buffer).lines().last().expect("a line").to_owned();
    format!("{marked} {label}")
}

#[test]
fn arrows_select_machines_and_the_last_line_says_which() {
    let mut view = View::with_keys();
    let first = "2 control plane a-0, zone north-1a, running";
    assert_eq!(selected(&mut view, &[KeyCode::Right]), first);
    let third = "2 worker a-3, zone north-1a, not ready";
    assert_eq!(selected(&mut view, &[KeyCode::Right, KeyCode::Right]), third);
    let below = "2 worker a-7, zone north-1b, running, Fault silent";
    assert_eq!(selected(&mut view, &[KeyCode::Down]), below);
    assert_eq!(
        selected(&mut view, &[KeyCode::Down]),
        below,
        "there is no line below"
    );
    assert_eq!(selected(&mut view, &[KeyCode::Up]), third);
    assert_eq!(
        selected(&mut view, &[KeyCode::Left, KeyCode::Left, KeyCode::Left]),
        first
    );
    assert_eq!(selected(&mut view, &[KeyCode::Esc]), format!("0 {KEYS}"));
    let sight = sight();
    assert!(
        view.press(KeyEvent::from(KeyCode::Esc), &sight),
        "nothing is selected"
    );
    assert!(view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), &sight));
}

#[test]
fn a_small_terminal_shows_the_selected_machine() {
    let mut sight = sight();
    let model = Arc::make_mut(&mut sight.model);
    for number in 0..40 {
        let name = format!("b-{number:02}");
        model
            .clusters
            .insert(Key::new("team", &name), ClusterView::default());
        let mut one = (*machine(&name, "north-1a", Role::Worker, State::Running)).clone();
        one.cluster.clone_from(&name);
        model.machines.insert(one.key.clone(), Arc::new(one));
    }
    let mut view = View::with_keys();
    for _ in 0..100 {
        drawn(&mut view, &sight, 40, 12);
        view.press(KeyEvent::from(KeyCode::Right), &sight);
    }
    let shown = text(&drawn(&mut view, &sight, 40, 12));
    assert!(
        shown.contains("team/b-39") && shown.ends_with("worker b-39, zone north-1a, running\n"),
        "{shown}"
    );
    for size in [(0, 0), (1, 1), (3, 200), (200, 3)] {
        drawn(&mut view, &sight, size.0, size.1);
    }
}

#[test]
fn nothing_that_a_terminal_would_obey_is_drawn() {
    let mut sight = sight();
    let model = Arc::make_mut(&mut sight.model);
    let mut wait = model.waits.values().next().expect("it waits").clone();
    wait.message = "\u{1b}[2Jgone\r\u{7}\nsecond".to_owned();
    model.waits.insert(Key::new("team", "a-2"), wait);
    let shown = text(&drawn(&mut View::with_keys(), &sight, 110, 40));
    assert!(shown.contains("[2Jgone"), "{shown}");
    assert!(!shown.replace('\n', "").contains(char::is_control), "{shown:?}");
}
