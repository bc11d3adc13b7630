//! The HTML of the Drawer. Pure.

use maud::{Markup, html};
use nephele_api::conditions::types;
use nephele_cloud::JournalLine;

use crate::{
    act::Doable,
    draft::LASTS,
    drawer::{Drawer, Link, StageBar},
    elements::path,
    objects::Key,
    outcome::{Change, Outcome},
    time_of_day::clock_time,
    timeline::window::Asked,
};

/// The width of the picture of the stages, in its own units.
const WIDTH: i64 = 1000;
/// The height of a stage in it.
const ROW: usize = 16;

/// What the forms of a selected object need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forms {
    /// What the guard knows them by.
    pub(crate) token: String,
    /// The path of the object.
    pub(crate) path: String,
    /// The permission that the viewer lacks.
    pub(crate) lacks: Option<String>,
}

/// What stands in the Drawer.
pub(crate) fn drawer(drawer: &Drawer, forms: &Forms) -> Markup {
    html! {
        div .drawer data-element=(drawer.element) {
            (head(&drawer.kind, &drawer.name, &drawer.state))
            @if !drawer.message.is_empty() { p .message { (drawer.message) } }
            (acts(&drawer.doable, forms))
            @if !drawer.faults.is_empty() { (faults(drawer)) }
            @if !drawer.stages.is_empty() { (stages(&drawer.stages)) }
            @if !drawer.chain.is_empty() { (chain(&drawer.chain)) }
            (facts(drawer))
            @for (title, columns, rows) in &drawer.tables {
                @if !rows.is_empty() { (table(title, columns, rows)) }
            }
            @for (title, list) in &drawer.conditions {
                @if !list.is_empty() {
                    section {
                        h3 { "Conditions of the " (title) }
                        dl .conditions {
                            @for condition in list {
                                dt data-status=(condition.status)
                                    data-polarity=[is_negative(&condition.type_).then_some("negative")] { (condition.type_) }
                                dd {
                                    span .status { (condition.status) } " " (condition.reason)
                                    @if !condition.message.is_empty() { p { (condition.message) } }
                                }
                            }
                        }
                    }
                }
            }
            (copies(&drawer.copies))
            (journal(drawer))
        }
    }
}

/// What stands in the Drawer when the object is gone.
pub(crate) fn gone(name: &str) -> Markup {
    html! {
        div .drawer {
            (head("gone", name, ""))
            p .message { "It does not exist any more." }
        }
    }
}

/// What the Drawer is for: its kind, its name and, if it has one, its state.
pub(crate) fn head(kind: &str, name: &str, state: &str) -> Markup {
    html! {
        div .head {
            div {
                p .kind { (kind) }
                h2 #drawer-title tabindex="-1" { (name) }
            }
            @if !state.is_empty() { span .badge data-state=(state) { (state) } }
            a #drawer-close href="/" { "Close" }
        }
    }
}

/// What a viewer can do, as forms that work without scripts. The module leaves them as they are while their key stays, because
/// someone may be filling them in.
fn acts(doable: &Doable, forms: &Forms) -> Markup {
    let lacks = forms.lacks.as_deref();
    let about = lacks.map(|_| "act-lacks");
    let key = format!("{} {doable:?} {}", forms.path, lacks.unwrap_or_default());
    let form = |content: Markup| form(&forms.path, &forms.token, &content);
    let button = |id: &str, name: &str, value: &str, word: &str| {
        html! {
            button #(id) type="submit" name=(name) value=(value) disabled[lacks.is_some()] aria-describedby=[about] { (word) }
        }
    };
    let content = match doable {
        Doable::Nothing => return html! {},
        Doable::Break { target, .. } => form(html! {
            label { "What breaks "
                select #act-effect name="effect" disabled[lacks.is_some()] {
                    @for offer in target.offers() {
                        option value=(offer.name) { (offer.name) ": " (offer.sentence) }
                    }
                }
            }
            label { "for "
                input #act-for name="for" value=(LASTS) size="6" maxlength="32" autocomplete="off" disabled[lacks.is_some()];
            }
            (button("act-break", "act", "break", "Break it"))
        }),
        Doable::Heal => form(button("act-heal", "act", "heal", "End this Fault")),
        Doable::SetClock { is_paused } => form(html! {
            @if *is_paused {
                (button("act-resume", "change", "resume", "Resume the clock"))
                (button("act-step", "change", "step", "Step"))
            } @else {
                (button("act-pause", "change", "pause", "Pause the clock"))
            }
            (button("act-jump", "change", "jump", "Jump 1m ahead"))
        }),
        Doable::Direct { has_ended } => form(html! {
            @if *has_ended {
                (button("act-again", "act", "again", "Run it again"))
                (button("act-stop", "act", "stop", "Delete it"))
            } @else {
                (button("act-stop", "act", "stop", "Stop it"))
            }
        }),
    };
    html! {
        section #act data-key=(key) aria-label="Act" {
            (content)
            (lacking(lacks))
        }
    }
}

/// The permission without which the forms are grey.
pub(crate) fn lacking(lacks: Option<&str>) -> Markup {
    html! {
        @if let Some(lacks) = lacks { p #act-lacks .none { "You may not " (lacks) "." } }
    }
}

/// A form for the object at a path.
pub(crate) fn form(path: &str, token: &str, content: &Markup) -> Markup {
    html! {
        form .act method="post" action={ "/act" (path) } {
            input type="hidden" name="token" value=(token);
            (content)
        }
    }
}

/// What came of an act. What was created can be undone.
pub(crate) fn outcome(outcome: &Outcome, token: &str) -> Markup {
    match outcome {
        Outcome::Created(Key { namespace, name }) => {
            let path = path("fault", &Key::new(namespace, name));
            html! {
                "Fault " a href=(path) { (name) } " is created. "
                (form(&path, token, &html! { button #outcome-undo type="submit" { "Undo" } }))
            }
        }
        Outcome::Deleted(key) => html! { "Fault " (key.name) " is gone: what it broke heals." },
        Outcome::Stopped(key) => html! { "Scenario " (key.name) " is deleted, and its Faults end." },
        Outcome::Runs(key) => html! { "Scenario " a href=(path("scenario", key)) { (key.name) } " runs." },
        Outcome::Made(key) => html! {
            "The cluster of the scenario " (key.name) " is created. It can run when the cluster is available."
        },
        Outcome::Recorded(Change::Begin) => html! { "The recording has begun." },
        Outcome::Recorded(Change::End) => html! { "The recording has ended." },
        Outcome::Recorded(Change::Forget) => html! { "The recording is forgotten." },
        Outcome::Set(key) => html! { "The clock of " (key.name) " is set." },
    }
}

/// Why an act was not carried out.
pub(crate) fn refusal(why: &str) -> Markup {
    html! { span .refusal { (why) } }
}

fn faults(drawer: &Drawer) -> Markup {
    html! {
        section {
            h3 { "Faults" }
            ul .faults {
                @for (name, effect, how) in &drawer.faults {
                    li { b .bolt {} " " b { (name) } " " (effect) " " (how) }
                }
            }
        }
    }
}

fn facts(drawer: &Drawer) -> Markup {
    html! {
        section {
            h3 { "Facts" }
            dl .facts {
                @for (name, value) in &drawer.facts { dt { (name) } dd { (value) } }
            }
        }
    }
}

fn table(title: &str, columns: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        section {
            h3 { (title) }
            div .scroll tabindex="0" role="region" aria-label=(title) {
                table {
                    thead { tr { @for column in columns { th scope="col" { (column) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    }
}

/// A bar for each stage: an outline for what was planned, and a filled one for what it took.
fn stages(stages: &[StageBar]) -> Markup {
    let ends = stages.iter().map(|stage| {
        stage
            .begin
            .saturating_add(stage.most.max(stage.took.unwrap_or_default()))
    });
    let end = ends.max().unwrap_or_default().max(1);
    let x = |milliseconds: i64| {
        (i128::from(milliseconds.max(0)) * i128::from(WIDTH) / i128::from(end)).to_string()
    };
    html! {
        section {
            h3 { "Stages" }
            table .stages {
                thead { tr { th scope="col" { "Stage" } th scope="col" { "Planned" } th scope="col" { "Actual" } } }
                tbody {
                    @for stage in stages {
                        tr data-state=(stage.state) {
                            th scope="row" { (stage.name) }
                            td { (stage.planned) }
                            td { (stage.actual) }
                        }
                    }
                }
            }
            svg .gantt viewBox={ "0 0 " (WIDTH) " " (stages.len() * ROW) } preserveAspectRatio="none" aria-hidden="true" {
                @for (number, stage) in stages.iter().enumerate() {
                    @let y = number * ROW;
                    rect .planned x=(x(stage.begin)) y=(y + 2) width=(x(stage.most)) height=(ROW - 4) {}
                    rect .least x=(x(stage.begin)) y=(y + 2) width=(x(stage.least)) height=(ROW - 4) {}
                    @if let Some(took) = stage.took {
                        rect .took x=(x(stage.begin)) y=(y + 5) width=(x(took)) height=(ROW - 10) {}
                    }
                }
            }
        }
    }
}

/// The types of Cluster API's conditions whose usual status is False, beside those that its kinds share with ours.
const NEGATIVE: [&str; 4] = ["Remediating", "RollingOut", "ScalingDown", "ScalingUp"];

fn is_negative(type_: &str) -> bool {
    types::NEGATIVE.contains(&type_) || NEGATIVE.contains(&type_)
}

fn chain(chain: &[Link]) -> Markup {
    html! {
        section {
            h3 { "From Cluster to Node" }
            ol .chain {
                @for link in chain {
                    li data-there=(link.is_there) {
                        span .kind { (link.kind) }
                        @match (&link.href, link.is_there) {
                            (_, false) => { span .none { "not there yet" } },
                            (Some(href), true) => { a href=(href) { (link.name) } },
                            (None, true) => { span { (link.name) } },
                        }
                    }
                }
            }
        }
    }
}

/// Texts that can be copied, each with a name.
pub(crate) fn copies(copies: &[(&'static str, String)]) -> Markup {
    html! {
        section {
            h3 { "Copy as" }
            div .copies {
                @for (name, text) in copies {
                    details id={ "copy-" (name) } {
                        summary { (name) }
                        button type="button" data-copy { "Copy" }
                        pre { (text) }
                    }
                }
            }
        }
    }
}

fn journal(drawer: &Drawer) -> Markup {
    html! {
        section {
            h3 { "Journal" }
            @if let Some(lane) = &drawer.lane {
                p .none { a #drawer-timeline href=(Asked::of_lane(lane).path()) { "On the timeline" } }
            }
            @if drawer.journal.is_empty() { p .none { "No records among the last 4,096." } }
            (records(drawer.journal.iter(), false))
        }
    }
}

/// Records of the journal, one below the other, with the names of what they are of or without.
pub(crate) fn records<'a>(lines: impl Iterator<Item = &'a JournalLine>, with_names: bool) -> Markup {
    html! {
        ol .journal {
            @for line in lines {
                li {
                    time { (clock_time(line.time)) }
                    @if line.operation.is_empty() { b { (line.event) } } @else {
                        b { (line.operation) }
                        @if line.outcome != "Accepted" { span .outcome { (line.outcome) } }
                    }
                    @if with_names { span .of { (if line.name.is_empty() { &line.cluster } else { &line.name }) } }
                    @if line.hit { span .outcome { "Fault " (line.faults.last().map_or("", String::as_str)) } }
                    span { (line.message) }
                }
            }
        }
    }
}
