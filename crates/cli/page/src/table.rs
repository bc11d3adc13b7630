//! The machines as a plain table: for screens without scripts, and for people who prefer a list. Pure.

use maud::{Markup, html};

use crate::{
    elements::path,
    html::shell,
    machine_view::{STAGES, stage_word},
    model::Model,
    objects::Key,
};

/// The table of all machines.
pub(crate) fn table(model: &Model) -> Markup {
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
                    @for (key, machine) in &model.machines {
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
        }
    };
    shell("Machines - Nephele", &content, false)
}
