//! The parts of the screen that change, as flat values. HTML and differences are both made from them, so a page that has
//! taken all differences equals a fresh one.

use std::{collections::BTreeMap, sync::Arc};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    cluster_view::ClusterView,
    density::densities,
    machine_view::{MachineView, STAGES, State, stage_word},
    model::Model,
    objects::Key,
    reports::{CloudView, FaultView, Leak, Limit, Wait},
    scenario_view::ScenarioView,
};

/// The lists in which elements stand, by their ids. Those of zones and quotas follow from their owners.
pub(crate) const BAR: &str = "bar";
/// The list of clouds.
pub(crate) const CLOUDS: &str = "clouds";
/// The rows of the grid.
pub(crate) const CLUSTERS: &str = "clusters";
/// What waits for room.
pub(crate) const WAITS: &str = "waits";
/// What leaked.
pub(crate) const LEAKS: &str = "leaks";
/// The Faults.
pub(crate) const FAULTS: &str = "faults";

/// The Scenarios.
pub(crate) const SCENARIOS: &str = "scenarios";
/// What Scenarios said last.
pub(crate) const CAPTIONS: &str = "captions";

/// The namespace of a path that is for the first namespace with a cluster.
pub(crate) const ANY: &str = "-";

/// What bounds a page, and what a browser draws in a frame.
pub(crate) const LIMITS: Limits = Limits {
    cells: 2_000,
    listed: 200,
};

/// The most elements of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Machines that have a cell each. Numbers stand for more of them.
    pub(crate) cells: usize,
    /// Elements of a list beside the grid.
    pub(crate) listed: usize,
}

/// What stays as it is in a part of a path.
const PART: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The form of an element. They are added in this order: an element comes after those that it stands in and before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Bar,
    Cloud,
    Limit,
    Cluster,
    Machine,
    /// The machines of a cluster in a column, as numbers.
    Density,
    /// How many a list does not show.
    More,
    Wait,
    Leak,
    Fault,
    Scenario,
    Caption,
}

/// An element of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) form: Form,
    /// The id of the list that it stands in.
    pub(crate) list: String,
    /// It stands before the elements of its list with a greater one.
    pub(crate) order: String,
    pub(crate) attributes: BTreeMap<&'static str, String>,
    /// The texts in it, by the names of their places.
    pub(crate) texts: BTreeMap<&'static str, String>,
}

/// All elements by id, and the columns of the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elements {
    pub(crate) zones: Vec<String>,
    /// Whether numbers stand for the machines.
    pub(crate) is_dense: bool,
    /// Cells are shared with the elements before and after them while nothing about their machines changes.
    pub(crate) all: BTreeMap<String, Arc<Element>>,
}

impl Elements {
    /// The elements of a model. Cells of machines that it shares with the model before are those of the elements before.
    pub(crate) fn after(before: (&Model, &Self), model: &Model) -> Self {
        Self::within(LIMITS, before, model)
    }

    /// As [`Elements::after`], within other limits.
    pub(crate) fn within(
        Limits { cells, listed }: Limits,
        (model_before, before): (&Model, &Self),
        model: &Model,
    ) -> Self {
        let mut all = BTreeMap::new();
        let is_dense = model.machines.len() > cells;
        if !is_dense {
            let known = (before.zones == model.zones).then_some((model_before, before));
            all.extend((model.machines.iter()).map(|(key, machine)| cell(known, model, key, machine)));
        }
        let mut add = |id: String, element: Element| {
            all.insert(id, Arc::new(element));
        };
        add("total".to_owned(), total(model));
        for (key, cloud) in &model.clouds {
            let id = format!("cloud:{key}");
            for (number, limit) in cloud.limits.iter().enumerate() {
                let id = format!("limit:{key}:{}", limit.name);
                add(id, of_limit(key, number, limit));
            }
            add(id, of_cloud(key, cloud));
        }
        for (key, cluster) in &model.clusters {
            add(format!("cluster:{key}"), of_cluster(key, cluster));
        }
        if is_dense {
            for ((cluster, column), states) in densities(model) {
                add(
                    format!("density:{cluster}:{column}"),
                    of_density(&cluster, column, &states),
                );
            }
        }
        for (key, wait) in model.waits.iter().take(listed) {
            add(format!("wait:{key}"), of_wait(key, wait));
        }
        for (key, leak) in model.leaks.iter().take(listed) {
            add(format!("leak:{key}"), of_leak(key, leak));
        }
        for (key, fault) in model.faults.iter().take(listed) {
            add(format!("fault:{key}"), of_fault(key, fault));
        }
        for (key, scenario) in model.scenarios.iter().take(listed) {
            add(format!("scenario:{key}"), of_scenario(key, scenario));
            if !scenario.said.is_empty() {
                add(format!("caption:{key}"), of_caption(key, scenario));
            }
        }
        let lists = [
            (WAITS, model.waits.len()),
            (LEAKS, model.leaks.len()),
            (FAULTS, model.faults.len()),
            (SCENARIOS, model.scenarios.len()),
        ];
        for (list, number) in lists {
            if let Some(more) = number.checked_sub(listed).filter(|more| *more > 0) {
                add(format!("more:{list}"), of_more(list, more));
            }
        }
        Self {
            zones: model.zones.clone(),
            is_dense,
            all,
        }
    }

    /// The elements by list, each in its order, of the lists that are wanted.
    pub(crate) fn by_list(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> BTreeMap<&str, Vec<(&String, &Arc<Element>)>> {
        let mut lists: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (id, element) in &self.all {
            if wanted(&element.list) {
                lists.entry(&element.list).or_default().push((id, element));
            }
        }
        for list in lists.values_mut() {
            list.sort_by(|a, b| (&a.1.order, a.0).cmp(&(&b.1.order, b.0)));
        }
        lists
    }
}

/// The id of a machine's cell.
pub(crate) fn machine_id(key: &Key) -> String {
    format!("machine:{key}")
}

/// The id of the list of machines of a cluster in a column.
pub(crate) fn zone_id(cluster: &str, column: usize) -> String {
    format!("zone:{cluster}:{column}")
}

/// The id of the list of limits of a cloud.
pub(crate) fn limits_id(cloud: &str) -> String {
    format!("limits:{cloud}")
}

/// The path of what the Drawer shows.
pub(crate) fn path(kind: &str, key: &Key) -> String {
    let part = |text| utf8_percent_encode(text, PART);
    format!("/{kind}/{}/{}", part(&key.namespace), part(&key.name))
}

fn element<const A: usize, const T: usize>(
    form: Form,
    list: impl Into<String>,
    order: impl Into<String>,
    attributes: [(&'static str, String); A],
    texts: [(&'static str, String); T],
) -> Element {
    Element {
        form,
        list: list.into(),
        order: order.into(),
        attributes: BTreeMap::from(attributes),
        texts: BTreeMap::from(texts),
    }
}

fn total(model: &Model) -> Element {
    let clusters = model.clusters.len();
    let machines = model.machines.len();
    let plural = |number: usize| if number == 1 { "" } else { "s" };
    element(
        Form::Bar,
        BAR,
        "",
        [],
        [
            ("clusters", format!("{clusters} cluster{}", plural(clusters))),
            ("machines", format!("{machines} machine{}", plural(machines))),
            ("running", format!("{} running", model.running())),
            ("waiting", format!("{} waiting", model.waits.len())),
        ],
    )
}

fn of_cloud(key: &Key, cloud: &CloudView) -> Element {
    let leaked = match cloud.leaked {
        0 => String::new(),
        leaked => format!("{leaked} leaked"),
    };
    let waiting = match cloud.waiting {
        0 => String::new(),
        waiting => format!("{waiting} waiting"),
    };
    let cost = match cloud.per_hour.as_str() {
        "" => String::new(),
        per_hour => format!("{per_hour} per hour, {} so far", cloud.total),
    };
    element(
        Form::Cloud,
        CLOUDS,
        key.to_string(),
        [
            ("data-paused", cloud.is_paused.to_string()),
            ("data-rate", cloud.rate.clone()),
            ("data-since", cloud.since.to_string()),
            ("data-time", cloud.time.to_string()),
            ("data-rev", cloud.revision.clone()),
        ],
        [
            ("namespace", key.namespace.clone()),
            ("name", key.name.clone()),
            ("clock", cloud.clock()),
            ("cost", cost),
            ("leaked", leaked),
            ("waiting", waiting),
        ],
    )
}

fn of_limit(cloud: &Key, number: usize, limit: &Limit) -> Element {
    let waiting = match limit.waiting {
        0 => String::new(),
        waiting => format!(" · {waiting} waiting"),
    };
    element(
        Form::Limit,
        limits_id(&cloud.to_string()),
        format!("{number:04}"),
        [
            ("data-used", limit.used.to_string()),
            ("data-limit", limit.limit.to_string()),
            ("data-full", (limit.used >= limit.limit).to_string()),
        ],
        [
            ("name", limit.name.clone()),
            ("usage", format!("{} of {}{waiting}", limit.used, limit.limit)),
        ],
    )
}

fn of_cluster(key: &Key, cluster: &ClusterView) -> Element {
    let balancer = match (cluster.endpoint.as_str(), cluster.backends) {
        ("", 0) => "no endpoint yet".to_owned(),
        (endpoint, 0) => endpoint.to_owned(),
        (endpoint, backends) => format!("{endpoint} · {}/{backends} in service", cluster.in_service),
    };
    element(
        Form::Cluster,
        CLUSTERS,
        key.to_string(),
        [
            ("data-available", cluster.is_available.to_string()),
            ("data-fault", cluster.faults.join(" ")),
            ("data-rev", cluster.revision.clone()),
        ],
        [
            ("namespace", key.namespace.clone()),
            ("name", key.name.clone()),
            ("state", cluster.state().to_owned()),
            ("version", cluster.version.clone()),
            ("balancer", balancer),
            (
                "count",
                format!("{}/{} running", cluster.running, cluster.machines),
            ),
            (
                "faults",
                match cluster.faults.is_empty() {
                    true => String::new(),
                    false => format!("Fault {}", cluster.faults.join(", ")),
                },
            ),
        ],
    )
}

/// The cell of a machine: that of `known`, whose columns are the same, if nothing about the machine has changed.
fn cell(
    known: Option<(&Model, &Elements)>,
    model: &Model,
    key: &Key,
    machine: &Arc<MachineView>,
) -> (String, Arc<Element>) {
    let id = machine_id(key);
    let known = known.and_then(|(model, elements)| {
        let before = model.machines.get(key)?;
        elements.all.get(&id).filter(|_| Arc::ptr_eq(before, machine))
    });
    let cell = known.cloned().unwrap_or_else(|| {
        let (cluster, column) = model.column_of(machine);
        Arc::new(of_machine(key, machine, zone_id(&cluster.to_string(), column)))
    });
    (id, cell)
}

fn of_machine(key: &Key, machine: &MachineView, list: String) -> Element {
    let mut element = element(
        Form::Machine,
        list,
        format!("{}/{}", machine.role as u8, key.name),
        [
            ("aria-label", machine.label()),
            ("data-role", machine.role.attribute().to_owned()),
            ("data-state", machine.state.word().to_owned()),
            ("data-fault", machine.faults.join(" ")),
            ("data-spot", machine.is_spot.to_string()),
            ("data-rev", machine.revision.clone()),
            ("href", path("machine", key)),
        ],
        [],
    );
    let names = ["data-vm", "data-node", "data-etcd", "data-api"];
    debug_assert_eq!(names.len(), STAGES.len());
    for (name, stage) in names.into_iter().zip(machine.stages) {
        element.attributes.insert(name, stage_word(stage).to_owned());
    }
    element
}

fn of_density(cluster: &Key, column: usize, states: &BTreeMap<State, usize>) -> Element {
    let number = |state| states.get(&state).copied().unwrap_or_default();
    let mut element = element(
        Form::Density,
        zone_id(&cluster.to_string(), column),
        "",
        [
            ("data-used", number(State::Running).to_string()),
            ("data-limit", states.values().sum::<usize>().to_string()),
        ],
        [],
    );
    for state in State::ALL {
        let text = match number(state) {
            0 => String::new(),
            number => format!("{number} {}", state.word()),
        };
        element.texts.insert(state.word(), text);
    }
    element
}

fn of_scenario(key: &Key, scenario: &ScenarioView) -> Element {
    element(
        Form::Scenario,
        SCENARIOS,
        key.to_string(),
        [
            ("data-phase", scenario.phase.clone()),
            ("data-rev", scenario.revision.clone()),
            ("href", path("scenario", key)),
        ],
        [
            ("namespace", key.namespace.clone()),
            ("name", key.name.clone()),
            ("phase", scenario.phase.clone()),
            ("progress", scenario.progress()),
            ("step", scenario.step.clone()),
            ("message", scenario.message.clone()),
        ],
    )
}

fn of_caption(key: &Key, scenario: &ScenarioView) -> Element {
    element(
        Form::Caption,
        CAPTIONS,
        key.to_string(),
        [],
        [
            ("namespace", key.namespace.clone()),
            ("name", key.name.clone()),
            ("said", scenario.said.clone()),
        ],
    )
}

fn of_more(list: &str, number: usize) -> Element {
    // After all names, which have no such letter.
    element(
        Form::More,
        list,
        "~",
        [],
        [("more", format!("and {number} more"))],
    )
}

fn of_wait(key: &Key, wait: &Wait) -> Element {
    element(
        Form::Wait,
        WAITS,
        format!("{}/{key}", wait.what_for),
        [("href", path("machine", key))],
        [
            ("reason", wait.what_for.to_owned()),
            ("namespace", key.namespace.clone()),
            ("name", key.name.clone()),
            ("message", wait.message.clone()),
        ],
    )
}

fn of_leak(key: &str, leak: &Leak) -> Element {
    let fault = match leak.fault.as_str() {
        "" => String::new(),
        fault => format!("Fault {fault}"),
    };
    element(
        Form::Leak,
        LEAKS,
        key,
        [],
        [
            ("what", leak.what.clone()),
            ("place", leak.place.clone()),
            ("fault", fault),
        ],
    )
}

fn of_fault(key: &Key, fault: &FaultView) -> Element {
    element(
        Form::Fault,
        FAULTS,
        key.to_string(),
        [
            ("data-phase", fault.phase.clone()),
            (
                "data-ends",
                fault.ends.map(|ends| ends.to_string()).unwrap_or_default(),
            ),
            ("data-rev", fault.revision.clone()),
            ("href", path("fault", key)),
        ],
        [
            ("namespace", key.namespace.clone()),
            ("name", key.name.clone()),
            ("effect", fault.effect.clone()),
            ("phase", fault.phase.clone()),
            ("doings", fault.doings()),
            ("message", fault.message.clone()),
        ],
    )
}
