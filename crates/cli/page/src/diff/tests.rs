use proptest::{collection::btree_map, option, prelude::*, sample::select};

use super::*;
use crate::{
    cluster_view::ClusterView,
    elements::Limits,
    machine_view::{MachineView, Role, State},
    model::Model,
    objects::Key,
    reports::{CloudView, FaultView, Leak, Limit, Wait},
    scenario_view::ScenarioView,
    stages::Stage,
};

/// A page as a browser has it: the ids of each list, in their order, and the elements.
#[derive(Clone, Debug, Default, PartialEq)]
struct Page {
    lists: BTreeMap<String, Vec<String>>,
    elements: BTreeMap<String, Element>,
}

impl Page {
    fn fresh(elements: &Elements) -> Self {
        let mut page = Self::default();
        for (list, found) in elements.by_list(|_| true) {
            let ids = found.into_iter().map(|(id, _)| id.clone()).collect();
            page.lists.insert(list.to_owned(), ids);
        }
        let all = elements.all.iter();
        page.elements = all
            .map(|(id, element)| (id.clone(), element.as_ref().clone()))
            .collect();
        page
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Set { id, name, value } => {
                let element = self.elements.get_mut(id).expect("it is there");
                element.attributes.insert(name, value.clone());
            }
            Change::Say { id, place, text } => {
                let element = self.elements.get_mut(id).expect("it is there");
                element.texts.insert(place, text.clone());
            }
            Change::Add { id, element, before } => {
                let list = self.lists.entry(element.list.clone()).or_default();
                let at = match before {
                    Some(before) => list
                        .iter()
                        .position(|other| other == before)
                        .expect("it is there"),
                    None => list.len(),
                };
                list.insert(at, id.clone());
                self.elements.insert(id.clone(), element.as_ref().clone());
            }
            Change::Delete { id } => self.delete(id),
        }
    }

    /// With all that stands in it, as in a browser.
    fn delete(&mut self, id: &str) {
        let Some(element) = self.elements.remove(id) else {
            return;
        };
        let list = self.lists.get_mut(&element.list).expect("a list");
        list.retain(|other| other != id);
        if list.is_empty() {
            self.lists.remove(&element.list);
        }
        let inner = match id.split_once(':') {
            Some(("cluster", key)) => format!("zone:{key}:"),
            Some(("cloud", key)) => format!("limits:{key}"),
            _ => return,
        };
        let inside = self
            .elements
            .iter()
            .filter(|(_, other)| other.list.starts_with(&inner));
        let inside: Vec<_> = inside.map(|(id, _)| id.clone()).collect();
        inside.iter().for_each(|id| self.delete(id));
    }
}

/// Few names, so that the same ones come and go.
fn key() -> impl Strategy<Value = Key> {
    (select(vec!["x", "y"]), select(vec!["a", "b", "c", "<&\">"])).prop_map(|(ns, name)| Key::new(ns, name))
}

fn stage() -> impl Strategy<Value = Option<Stage>> {
    option::of(select(vec![
        Stage::Waiting,
        Stage::Starting,
        Stage::Up,
        Stage::Failed,
    ]))
}

fn machine(clusters: Vec<Key>) -> impl Strategy<Value = MachineView> {
    let roles = select(vec![Role::ControlPlane, Role::Worker, Role::Pool]);
    let states = select(vec![
        State::Waiting,
        State::Starting,
        State::Running,
        State::NotReady,
        State::Deleting,
    ]);
    let zones = select(vec!["", "z1", "z2"]);
    let name = select(vec!["m1", "m2", "m3", "m4"]);
    let stages = [stage(), stage(), stage(), stage()];
    (
        select(clusters),
        name,
        roles,
        states,
        zones,
        stages,
        any::<bool>(),
        "[0-9]{1,2}",
    )
        .prop_map(
            |(cluster, name, role, state, zone, stages, is_spot, revision)| MachineView {
                key: Key::new(&cluster.namespace, name),
                cluster: cluster.name,
                role,
                state,
                zone: zone.to_owned(),
                stages,
                is_spot,
                faults: Vec::new(),
                reason: String::new(),
                message: String::new(),
                revision,
            },
        )
}

fn cloud() -> impl Strategy<Value = CloudView> {
    let limit = (select(vec!["instances", "vCPUs"]), 0..9_i64, 0..9_i64);
    (btree_map(0..2_u8, limit, 0..3), any::<bool>(), 0..3_i64).prop_map(|(limits, is_paused, leaked)| {
        CloudView {
            rate: "1".to_owned(),
            is_paused,
            leaked,
            limits: limits
                .into_values()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .map(|(name, used, limit)| {
                    (
                        name,
                        Limit {
                            name: name.to_owned(),
                            used,
                            limit,
                            waiting: 0,
                        },
                    )
                })
                .collect::<BTreeMap<_, _>>()
                .into_values()
                .collect(),
            ..CloudView::default()
        }
    })
}

fn model() -> impl Strategy<Value = Model> {
    let clusters = btree_map(key(), "[a-z]{0,2}", 1..4);
    let zones = select(vec![vec!["z1", "z2", ""], vec!["z1", "z2", ""], vec!["z1", ""]]);
    clusters.prop_flat_map(move |clusters| {
        let keys: Vec<Key> = clusters.keys().cloned().collect();
        (
            Just(clusters),
            zones.clone(),
            proptest::collection::vec(machine(keys), 0..8),
            btree_map(key(), cloud(), 0..2),
            btree_map(key(), "[a-z]{0,2}", 0..3),
            btree_map(key(), "[a-z]{0,2}", 0..3),
            btree_map("[a-c]", "[a-z]{0,2}", 0..3),
            btree_map(key(), ("[a-z]{0,2}", "[a-z]{0,2}"), 0..3),
        )
            .prop_map(
                |(clusters, zones, machines, clouds, faults, waits, leaks, scenarios)| Model {
                    // No screen of the page has them.
                    pools: BTreeMap::new(),
                    scenarios: scenarios
                        .into_iter()
                        .map(|(key, (phase, said))| {
                            (
                                key,
                                ScenarioView {
                                    phase,
                                    said,
                                    ..ScenarioView::default()
                                },
                            )
                        })
                        .collect(),
                    zones: zones.into_iter().map(str::to_owned).collect(),
                    clusters: clusters
                        .into_iter()
                        .map(|(key, phase)| {
                            (
                                key,
                                ClusterView {
                                    phase,
                                    ..ClusterView::default()
                                },
                            )
                        })
                        .collect(),
                    machines: machines
                        .into_iter()
                        .map(|machine| (machine.key.clone(), Arc::new(machine)))
                        .collect(),
                    clouds,
                    faults: faults
                        .into_iter()
                        .map(|(key, phase)| {
                            (
                                key,
                                FaultView {
                                    phase,
                                    ..FaultView::default()
                                },
                            )
                        })
                        .collect(),
                    waits: waits
                        .into_iter()
                        .map(|(key, message)| {
                            (
                                key,
                                Wait {
                                    what_for: "quota",
                                    message,
                                },
                            )
                        })
                        .collect(),
                    leaks: leaks
                        .into_iter()
                        .map(|(key, what)| {
                            (
                                key,
                                Leak {
                                    what,
                                    ..Leak::default()
                                },
                            )
                        })
                        .collect(),
                },
            )
    })
}

/// So low that pages with numbers instead of cells are drawn, too, and lists that show a part.
const LIMITS: Limits = Limits { cells: 4, listed: 1 };

/// Shares the machines that are the same, as a model that was made after the other one.
fn share(before: &Model, model: &mut Model) {
    for (key, machine) in &mut model.machines {
        if let Some(before) = before.machines.get(key).filter(|before| *before == machine) {
            *machine = Arc::clone(before);
        }
    }
}

proptest! {
    #[test]
    fn a_page_that_takes_all_differences_equals_a_fresh_one(mut models in proptest::collection::vec(model(), 2..6)) {
        let nothing = Model::default();
        let mut all: Vec<Elements> = Vec::new();
        for number in 0..models.len() {
            let (before, rest) = models.split_at_mut(number);
            let before = before.last().unwrap_or(&nothing);
            share(before, &mut rest[0]);
            let shown = all.last().cloned().unwrap_or_default();
            all.push(Elements::within(LIMITS, (before, &shown), &rest[0]));
        }
        let mut page = Page::fresh(&all[0]);
        for pair in all.windows(2) {
            match diff(&pair[0], &pair[1]) {
                Difference::Changes(changes) => changes.iter().for_each(|change| page.apply(change)),
                Difference::Everything => {
                    let columns = |elements: &Elements| (elements.zones.clone(), elements.is_dense);
                    prop_assert_ne!(columns(&pair[0]), columns(&pair[1]));
                    page = Page::fresh(&pair[1]);
                }
            }
            prop_assert_eq!(&page, &Page::fresh(&pair[1]));
        }
    }

    #[test]
    fn the_same_model_again_changes_nothing(model in model()) {
        let elements = Elements::after((&Model::default(), &Elements::default()), &model);
        prop_assert_eq!(diff(&elements, &elements), Difference::Changes(Vec::new()));
    }
}
