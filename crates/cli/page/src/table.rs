//! The machines as a plain table: for screens without scripts, and for people who prefer a list. Pure.

use std::ops::Bound::{Excluded, Unbounded};

use maud::{Markup, html};

use crate::{
    elements::path,
    html::shell,
    machine_view::{STAGES, stage_word},
    model::Model,
    objects::Key,
};

/// The most machines of a page.
const ROWS_MAX: usize = 1_000;

/// A page of the table of all machines: those after a key. Each page links to the next one.
pub(crate) fn table(model: &Model, after: &Key) -> Markup {
    let mut rest = model.machines.range((Excluded(after), Unbounded));
    let rows: Vec<_> = rest.by_ref().take(ROWS_MAX).collect();
    let next = rows.last().filter(|_| rest.next().is_some());
    let content = html! {
        main .plain {
            h1 { "Machines" }
            table {
                thead { tr {
                    @for name in ["Cluster", "Machine", "Role", "Zone", "State", "Stages", "Spot", "Faults"] {
                        th scope="col" { (name) }
                    }
                } }
                tbody {
                    @for &(key, machine) in &rows {
                        tr {
                            @let cluster = Key::new(&key.namespace, &machine.cluster);
                            td { a href=(path("cluster", &cluster)) { (cluster) } }
                            th scope="row" { a href=(path("machine", key)) { (key.name) } }
                            td { (machine.role.words()) }
                            td { (machine.zone) }
                            td { (machine.state.word()) }
                            td {
                                @for ((name, _), stage) in STAGES.iter().zip(machine.stages) {
                                    @if stage.is_some() { span .stage { (name) " " (stage_word(stage)) } " " }
                                }
                            }
                            td { @if machine.is_spot { "spot" } }
                            td { (machine.faults.join(", ")) }
                        }
                    }
                }
            }
            @if let Some((last, _)) = next { p { a href=(path("table", last)) { "Next machines" } } }
        }
    };
    shell("Machines - Nephele", &content, None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::machine_view::MachineView;

    #[test]
    fn a_page_has_a_thousand_machines_and_leads_to_the_next() {
        let mut model = Model::default();
        for number in 0..=ROWS_MAX {
            let key = Key::new("ns", &format!("m-{number:04}"));
            model.machines.insert(key, Arc::new(MachineView::default()));
        }
        let rows = |after: &Key| {
            let page = table(&model, after).into_string();
            (
                page.matches("scope=\"row\"").count(),
                page.contains("/table/ns/m-0999"),
            )
        };
        assert_eq!(rows(&Key::default()), (ROWS_MAX, true));
        assert_eq!(rows(&Key::new("ns", "m-0999")), (1, false));
    }
}
