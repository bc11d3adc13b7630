//! Machines as numbers, for a screen with more of them than a person can tell apart. Pure.

use std::collections::BTreeMap;

use crate::{machine_view::State, model::Model, objects::Key};

/// How many machines there are, by cluster and column, and by state.
pub(crate) fn densities(model: &Model) -> BTreeMap<(Key, usize), BTreeMap<State, usize>> {
    let mut densities: BTreeMap<_, BTreeMap<_, usize>> = BTreeMap::new();
    for machine in model.machines.values() {
        let states = densities.entry(model.column_of(machine));
        *states.or_default().entry(machine.state).or_default() += 1;
    }
    densities
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        cluster_view::ClusterView,
        diff::{Difference, diff},
        elements::{Element, Elements, Form, LIMITS},
        html,
        machine_view::MachineView,
        reports::Wait,
    };

    /// A cluster whose machines are in two zones, a third of them not ready.
    fn model(machines: usize) -> Model {
        let mut model = Model {
            zones: vec!["a".into(), "b".into(), String::new()],
            ..Model::default()
        };
        model.clusters.insert(Key::new("ns", "c"), ClusterView::default());
        for number in 0..machines {
            let key = Key::new("ns", &format!("m-{number}"));
            let state = if number % 3 == 0 {
                State::NotReady
            } else {
                State::Running
            };
            let machine = MachineView {
                key: key.clone(),
                cluster: "c".into(),
                zone: ["a", "b"][number % 2].into(),
                state,
                ..MachineView::default()
            };
            model.machines.insert(key, Arc::new(machine));
        }
        model
    }

    fn elements(model: &Model) -> Elements {
        Elements::after((&Model::default(), &Elements::default()), model)
    }

    fn of_form(elements: &Elements, form: Form) -> Vec<&Element> {
        let all = elements.all.values();
        all.map(Arc::as_ref)
            .filter(|element| element.form == form)
            .collect()
    }

    #[test]
    fn a_machine_more_than_there_are_cells_for_makes_numbers_of_all() {
        let few = elements(&model(LIMITS.cells));
        let many = elements(&model(LIMITS.cells + 1));
        assert_eq!(of_form(&few, Form::Machine).len(), LIMITS.cells);
        assert!(of_form(&few, Form::Density).is_empty());
        assert!(of_form(&many, Form::Machine).is_empty());
        let said: Vec<_> = of_form(&many, Form::Density)
            .into_iter()
            .map(|element| {
                let texts = element.texts.values().filter(|text| !text.is_empty());
                let numbers = ["data-used", "data-limit"].map(|name| element.attributes[name].as_str());
                (element.list.as_str(), numbers, texts.cloned().collect::<Vec<_>>())
            })
            .collect();
        let words = |words: [&str; 2]| words.map(str::to_owned).to_vec();
        assert_eq!(
            said,
            [
                (
                    "zone:ns/c:0",
                    ["667", "1001"],
                    words(["334 not ready", "667 running"])
                ),
                (
                    "zone:ns/c:1",
                    ["667", "1000"],
                    words(["333 not ready", "667 running"])
                ),
            ]
        );
        assert_eq!(diff(&few, &many), Difference::Everything);
        let page = html::screen(&many).into_string();
        assert!(page.contains("numbers stand for their cells"), "{page}");
        assert!(page.len() < 8_000, "{} bytes", page.len());
    }

    #[test]
    fn a_list_beside_the_grid_shows_two_hundred_and_says_how_many_more_there_are() {
        let waits = |number: usize| {
            let mut model = model(0);
            for number in 0..number {
                let key = Key::new("ns", &format!("m-{number}"));
                model.waits.insert(key, Wait::default());
            }
            elements(&model)
        };
        assert!(of_form(&waits(200), Form::More).is_empty());
        let many = waits(201);
        assert_eq!(of_form(&many, Form::Wait).len(), 200);
        let lists = many.by_list(|_| true);
        let last = lists["waits"].last().map(|(_, element)| &element.texts["more"]);
        assert_eq!(last, Some(&"and 1 more".to_owned()));
    }
}
