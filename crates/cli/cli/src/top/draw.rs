//! What the terminal shows, line by line. Pure.
//!
//! ```text
//!  head       how many there are, the clouds
//!  clusters   a line for each cluster, and one for each of its zones with a sign for each machine
//!  rest       Faults, who waits, what leaked, pools, Scenarios, the last records
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_page::{CloudView, ClusterView, FaultView, Key, MachineView, Model, Role, Sight, State};
use ratatui::{
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

/// The most lines of each list below the clusters.
const LIST_MAX: usize = 4;
/// The most clouds above them.
const CLOUDS_MAX: usize = 3;
/// The records at the end.
const RECORDS: usize = 5;
/// The width of the names of zones.
const ZONE: usize = 14;
/// What each machine takes, in columns.
const CELL: usize = 3;

/// The lines of the clusters, and in which of them each machine stands, in their order.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) machines: Vec<(Key, usize)>,
}

/// How many there are, and the clouds.
pub(super) fn head(sight: &Sight, now: Timestamp) -> Vec<Line<'static>> {
    let Model {
        clusters,
        machines,
        waits,
        clouds,
        ..
    } = &*sight.model;
    let mut totals = vec![
        count(clusters.len(), "cluster"),
        format!(
            "{}, {} running",
            count(machines.len(), "machine"),
            sight.model.running()
        ),
    ];
    if !waits.is_empty() {
        totals.push(format!("{} waiting", waits.len()));
    }
    let mut lines = vec![Line::from(vec![bold("Nephele  "), totals.join("  ").into()])];
    let shown = clouds.iter().take(CLOUDS_MAX);
    lines.extend(shown.map(|(key, cloud)| Line::from(told_of_cloud(key, cloud, now))));
    lines.extend(more(clouds.len(), CLOUDS_MAX, "cloud"));
    lines.push(Line::default());
    lines
}

fn told_of_cloud(key: &Key, cloud: &CloudView, now: Timestamp) -> Vec<Span<'static>> {
    let mut told = vec![bold(&format!("{key}  ")), time_of(cloud, now).into()];
    let clock = cloud.clock();
    told.push(Span::styled(
        format!("  {clock}"),
        if cloud.is_paused {
            Style::from(Color::Yellow)
        } else {
            quiet()
        },
    ));
    for limit in &cloud.limits {
        let style = if limit.used >= limit.limit {
            bad()
        } else {
            Style::default()
        };
        told.push(Span::styled(
            format!("  {} {}/{}", limit.name, limit.used, limit.limit),
            style,
        ));
    }
    if !cloud.per_hour.is_empty() {
        told.push(format!("  {} an hour, {} so far", cloud.per_hour, cloud.total).into());
    }
    for (number, word) in [(cloud.waiting, "waiting"), (cloud.leaked, "leaked")] {
        if number > 0 {
            told.push(Span::styled(format!("  {number} {word}"), bad()));
        }
    }
    told
}

/// The time of a cloud: its rate since its clock last changed.
fn time_of(cloud: &CloudView, now: Timestamp) -> String {
    let rate: f64 = match cloud.is_paused {
        true => 0.0,
        false => cloud.rate.parse().unwrap_or(1.0),
    };
    let passed = now.as_millisecond().saturating_sub(cloud.since);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a cast of a float saturates, and no one reads more than seconds"
    )]
    let passed = (passed as f64 * rate) as i64;
    let time = match cloud.since {
        0 => now.as_millisecond(),
        _ => cloud.time.saturating_add(passed),
    };
    clock_time(Timestamp::from_millisecond(time).unwrap_or(now))
}

fn clock_time(time: Timestamp) -> String {
    time.strftime("%H:%M:%S").to_string()
}

/// The clusters with their machines, for a terminal of so many columns.
pub(super) fn clusters(model: &Model, selected: Option<&Key>, columns: usize) -> Clusters {
    let mut drawn = Clusters::default();
    let mut by_place: BTreeMap<_, Vec<&MachineView>> = BTreeMap::new();
    for machine in model.machines.values() {
        let place = (&*machine.key.namespace, &*machine.cluster, &*machine.zone);
        by_place.entry(place).or_default().push(machine);
    }
    for (key, cluster) in &model.clusters {
        drawn.lines.push(Line::from(told_of_cluster(key, cluster)));
        for zone in &model.zones {
            let machines = by_place.remove(&(&*key.namespace, &*key.name, &**zone));
            let machines = machines.unwrap_or_default();
            let in_line = (columns.saturating_sub(ZONE) / CELL).max(1);
            for (number, part) in machines.chunks(in_line).enumerate() {
                let name = if number == 0 { zone.as_str() } else { "" };
                let mut line = vec![Span::styled(
                    format!("  {name:<width$.width$}", width = ZONE - 2),
                    quiet(),
                )];
                for machine in part {
                    let is_selected = selected == Some(&machine.key);
                    line.push(sign(machine, is_selected));
                    line.push(" ".into());
                    drawn.machines.push((machine.key.clone(), drawn.lines.len()));
                }
                drawn.lines.push(Line::from(line));
            }
        }
    }
    if model.clusters.is_empty() {
        drawn.lines.push(Line::styled("No clusters yet.", quiet()));
    }
    drawn
}

fn told_of_cluster(key: &Key, cluster: &ClusterView) -> Vec<Span<'static>> {
    let style = if cluster.is_available {
        good()
    } else {
        Style::from(Color::Yellow)
    };
    let mut told = vec![
        bold(&format!("{key}  ")),
        Span::styled(cluster.state().to_owned(), style),
        format!(
            "  {}  {} of {} running",
            cluster.version, cluster.running, cluster.machines
        )
        .into(),
        format!(
            "  {} of {} backends in service",
            cluster.in_service, cluster.backends
        )
        .into(),
    ];
    if !cluster.endpoint.is_empty() {
        told.push(Span::styled(format!("  {}", cluster.endpoint), quiet()));
    }
    if !cluster.faults.is_empty() {
        told.push(Span::styled(format!("  ↯ {}", cluster.faults.join(", ")), bad()));
    }
    told
}

/// A machine: the form for its role, full when it runs, and a sign for what is wrong.
fn sign(machine: &MachineView, is_selected: bool) -> Span<'static> {
    let is_full = matches!(machine.state, State::Running | State::Failed);
    let form = match (machine.role, is_full) {
        (Role::ControlPlane, true) => '⬢',
        (Role::ControlPlane, false) => '⬡',
        (Role::Worker, true) => '■',
        (Role::Worker, false) => '□',
        (Role::Pool, true) => '▲',
        (Role::Pool, false) => '△',
    };
    let (mark, style) = match machine.state {
        State::Running => (' ', good()),
        State::Starting => (' ', Style::from(Color::Yellow)),
        State::Waiting => ('…', quiet()),
        State::Deleting => ('-', quiet()),
        State::NotReady => ('?', bad()),
        State::Failed => ('!', bad()),
        State::Gone => ('×', bad()),
    };
    let (mark, style) = match (mark, machine.faults.is_empty()) {
        (' ' | '?', false) => ('↯', bad()),
        (mark, _) => (mark, style),
    };
    let style = if is_selected {
        style.add_modifier(Modifier::REVERSED)
    } else {
        style
    };
    Span::styled(format!("{form}{mark}"), style)
}

/// What the signs mean.
pub(super) fn legend() -> Line<'static> {
    Line::styled(
        "⬢ control plane ■ worker ▲ pool, full: runs  … waits ? not ready ! failed × gone - deleting ↯ Fault",
        quiet(),
    )
}

/// Faults, who waits, what leaked, pools, Scenarios and the last records.
pub(super) fn rest(sight: &Sight, now: Timestamp) -> Vec<Line<'static>> {
    let Model {
        faults,
        waits,
        leaks,
        scenarios,
        pools,
        ..
    } = &*sight.model;
    let mut lines = Vec::new();
    let of_faults = faults.iter().map(|(key, fault)| told_of_fault(key, fault, now));
    list(&mut lines, "Faults", faults.len(), of_faults);
    let of_waits = waits
        .iter()
        .map(|(key, wait)| format!("{key}  {}  {}", wait.what_for, wait.message));
    list(&mut lines, "Waiting", waits.len(), of_waits);
    let of_leaks = leaks
        .values()
        .map(|leak| format!("{}  {}  Fault {}", leak.what, leak.place, leak.fault));
    list(&mut lines, "Lost property", leaks.len(), of_leaks);
    let of_pools = pools
        .iter()
        .map(|(key, pool)| format!("{key}  {}  {}", pool.addresses, pool.usage));
    list(&mut lines, "Pools", pools.len(), of_pools);
    let of_scenarios = scenarios.iter().map(|(key, scenario)| {
        let said = if scenario.said.is_empty() {
            &scenario.message
        } else {
            &scenario.said
        };
        format!("{key}  {}  {}  {said}", scenario.phase, scenario.progress())
    });
    list(&mut lines, "Scenarios", scenarios.len(), of_scenarios);
    let last = sight
        .journal
        .iter()
        .skip(sight.journal.len().saturating_sub(RECORDS));
    let last = last.map(|line| {
        let what = if line.operation.is_empty() {
            &line.event
        } else {
            &line.operation
        };
        let name = if line.name.is_empty() {
            &line.cluster
        } else {
            &line.name
        };
        let words = [what, name, &line.outcome, &line.message];
        let words: Vec<_> = words
            .into_iter()
            .filter(|word| !word.is_empty())
            .cloned()
            .collect();
        format!("{}  {}", clock_time(line.time), words.join("  "))
    });
    list(&mut lines, "Journal", sight.journal.len().min(RECORDS), last);
    lines
}

fn told_of_fault(key: &Key, fault: &FaultView, now: Timestamp) -> String {
    let left = fault
        .ends
        .map(|ends| ends.saturating_sub(now.as_millisecond()).max(0));
    let left = left.map(|left| format!("  {}s left", left.saturating_add(999) / 1000));
    let told = [&fault.effect, &fault.phase, &fault.doings(), &fault.message];
    let told: Vec<_> = told
        .into_iter()
        .filter(|word| !word.is_empty())
        .cloned()
        .collect();
    format!("{key}  {}{}", told.join("  "), left.unwrap_or_default())
}

/// A list with its title, if anything is in it.
fn list(lines: &mut Vec<Line<'static>>, title: &str, length: usize, items: impl Iterator<Item = String>) {
    if length == 0 {
        return;
    }
    let most = if title == "Journal" { RECORDS } else { LIST_MAX };
    lines.push(Line::from(bold(title)));
    lines.extend(items.take(most).map(|item| Line::from(format!("  {item}"))));
    lines.extend(more(length, most, "line"));
}

fn more(length: usize, most: usize, what: &str) -> Option<Line<'static>> {
    let more = length.checked_sub(most).filter(|more| *more > 0)?;
    Some(Line::styled(format!("  and {} more", count(more, what)), quiet()))
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn bold(text: &str) -> Span<'static> {
    Span::styled(text.to_owned(), Modifier::BOLD)
}

fn quiet() -> Style {
    Style::from(Modifier::DIM)
}

fn good() -> Style {
    Style::from(Color::Green)
}

fn bad() -> Style {
    Style::from(Color::Red)
}
