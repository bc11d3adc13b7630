//! The HTML of the screen. Pure. All text from objects is escaped by maud; all that changes is an [`Element`].

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use maud::{DOCTYPE, Escaper, Markup, PreEscaped, html};

use crate::{
    elements::{
        self, ANY, BAR, CAPTIONS, CLOUDS, CLUSTERS, Element, Elements, FAULTS, Form, LEAKS, LIMITS,
        SCENARIOS, WAITS,
    },
    library_html,
    machine_view::State,
    objects::Key,
    palette_html, recording_html,
    screen::Screen,
    timeline::window::Asked,
};

/// Elements by the list that they stand in, each list in its order.
type Lists<'a> = BTreeMap<&'a str, Vec<(&'a String, &'a Arc<Element>)>>;

/// What a page is for: its namespace, and from where its differences continue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// If there is none, the page shows all namespaces.
    pub(crate) namespace: Option<String>,
    /// The number of the last difference that the page has.
    pub(crate) version: String,
    pub(crate) whose: Whose,
}

/// Where a form ends a visit.
pub(crate) const SIGN_OUT: &str = "/sign-out";

/// Whose page it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Of whoever runs the command.
    #[default]
    Command,
    /// Of someone who signed in, and can sign out.
    Visit,
}

/// A whole document. `drawer` stands in the Drawer, if something is selected.
pub(crate) fn document(elements: &Elements, frame: &Frame, drawer: Option<&Markup>) -> Markup {
    let content = html! {
        main #main data-since=(frame.version) data-namespace=(frame.namespace.as_deref().unwrap_or_default()) {
            (screen(elements))
        }
        aside #drawer aria-label="Details" tabindex="-1" hidden[drawer.is_none()] {
            @if let Some(drawer) = drawer { (drawer) }
        }
        p #hint aria-hidden="true" {}
        div #outcome role="status" {}
    };
    let live = Live {
        modules: &["/page.js"],
        // Someone may be filling in a form.
        again: if drawer.is_some() { 30 } else { 5 },
        namespace: frame.namespace.as_deref(),
        has_views: true,
        whose: frame.whose,
    };
    shell("Nephele", &content, Some(&live))
}

/// How a document changes with the cloud.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live<'a> {
    /// The paths of its modules.
    pub(crate) modules: &'static [&'static str],
    /// Without scripts, it loads itself again after so many seconds.
    pub(crate) again: u8,
    /// If there is none, it shows all namespaces.
    pub(crate) namespace: Option<&'a str>,
    /// Whether links lead to the other screens.
    pub(crate) has_views: bool,
    pub(crate) whose: Whose,
}

impl<'a> Live<'a> {
    /// A screen with one part that is loaded again.
    pub(crate) fn part(namespace: Option<&'a str>, whose: Whose) -> Self {
        Self {
            modules: &["/part.js"],
            again: 5,
            namespace,
            has_views: true,
            whose,
        }
    }
}

/// A document around some content.
pub(crate) fn shell(title: &str, content: &Markup, live: Option<&Live<'_>>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/page.css";
                @if let Some(live) = live {
                    @for module in live.modules { script type="module" src=(module) {} }
                    noscript { meta http-equiv="refresh" content=(live.again); }
                }
            }
            body {
                header .top {
                    a .brand href="/" { "Nephele" }
                    @if let Some(live) = live {
                        span #live role="status" data-state="still" { "Not live" }
                        @if live.has_views { (views(live.namespace, live.whose)) }
                    }
                }
                (content)
            }
        }
    }
}

/// Links to the other screens.
fn views(namespace: Option<&str>, whose: Whose) -> Markup {
    let path = |kind: &str, name: &str| elements::path(kind, &Key::new(namespace.unwrap_or(ANY), name));
    html! {
        nav aria-label="Views" {
            a href="/" { "Cloud" }
            a href="/table" { "Table" }
            a #timeline-link href=(Asked::of_namespace(namespace).path()) { "Timeline" }
            a #observed-link href=(Screen::Observed.path(namespace)) { "Observed" }
            a #pools-link href=(Screen::Pools.path(namespace)) { "Pools" }
            a #library href=(path(library_html::KIND, library_html::ALL)) { "Scenarios" }
            a #recording href=(path(recording_html::KIND, recording_html::NAME)) { "Record" }
            a #palette href=(palette_html::path_of(namespace)) { "Break something" }
            @if whose == Whose::Visit {
                form method="post" action=(SIGN_OUT) { button { "Sign out" } }
            }
        }
    }
}

/// A document that says one thing.
pub(crate) fn said(content: &Markup) -> Markup {
    shell("Nephele", &html! { main { p { (content) } } }, None)
}

/// Everything within `main`.
pub(crate) fn screen(elements: &Elements) -> Markup {
    let lists = elements.by_list(|_| true);
    html! {
        h1 .hidden { "Cloud" }
        div #(BAR) { (items(&lists, BAR, &elements.zones)) }
        section .clouds aria-labelledby="clouds-title" {
            h2 #clouds-title .hidden { "Clouds" }
            div #(CLOUDS) { (items(&lists, CLOUDS, &elements.zones)) }
            p .none { "Built-in cloud: no zones, no quotas, no prices. A SimulatedCloud has them." }
        }
        // Read out when they change: they tell the story.
        div #(CAPTIONS) aria-live="polite" { (items(&lists, CAPTIONS, &elements.zones)) }
        div .columns {
            (grid(&lists, elements))
            div .side {
                (panel("Faults", FAULTS, "No Faults. Everything works as it should.", &lists, &elements.zones))
                (panel("Scenarios", SCENARIOS, "No Scenario runs.", &lists, &elements.zones))
                (panel("Waiting for room", WAITS, "Nothing waits.", &lists, &elements.zones))
                (panel("Lost property", LEAKS, "Nothing leaked.", &lists, &elements.zones))
            }
        }
        (legend())
    }
}

fn grid(lists: &Lists<'_>, elements: &Elements) -> Markup {
    let zones = &elements.zones;
    html! {
        section .grid aria-labelledby="grid-title" {
            h2 #grid-title { "Clusters and machines" }
            @if elements.is_dense {
                p .dense { "More than " (LIMITS.cells) " machines: numbers stand for their cells. The "
                    a href="/table" { "table" } " has each of them." }
            }
            table role="table" aria-labelledby="grid-title" data-zones=(zones.len() - usize::from(!zones.is_empty())) {
                thead role="rowgroup" {
                    tr role="row" {
                        th role="columnheader" scope="col" { "Cluster" }
                        @for zone in zones {
                            th role="columnheader" scope="col" { (column(zone, zones)) }
                        }
                    }
                }
                tbody #(CLUSTERS) role="rowgroup" { (items(lists, CLUSTERS, zones)) }
                tfoot role="rowgroup" {
                    tr role="row" {
                        td .none role="cell" colspan=(zones.len() + 1) {
                            "No clusters yet. Apply one: " code { "kubectl apply -f cluster.yaml" }
                        }
                    }
                }
            }
        }
    }
}

/// The name of a column. If there are zones, the last column is for machines without one.
fn column<'a>(zone: &'a str, zones: &[String]) -> &'a str {
    match (zone, zones.len()) {
        ("", 0 | 1) => "Machines",
        ("", _) => "no zone",
        (zone, _) => zone,
    }
}

fn panel(title: &str, list: &str, none: &str, lists: &Lists<'_>, zones: &[String]) -> Markup {
    let id = format!("{list}-title");
    html! {
        section .panel aria-labelledby=(id) {
            h2 #(id) { (title) }
            ul #(list) { (items(lists, list, zones)) }
            p .none { (none) }
        }
    }
}

fn legend() -> Markup {
    let sample = |role: &str, state: &str| {
        html! { span .m .sample aria-hidden="true" data-role=(role) data-state=(state) data-vm="up" data-node="up"
        data-etcd=(if role == "control-plane" { "up" } else { "none" })
        data-api=(if role == "control-plane" { "up" } else { "none" }) {} }
    };
    html! {
        section .legend aria-label="Legend" {
            span { (sample("control-plane", "running")) "control plane" }
            span { (sample("worker", "running")) "worker" }
            span { (sample("pool", "running")) "pool member" }
            span { (sample("worker", "starting")) "starting" }
            span { (sample("worker", "waiting")) "waiting" }
            span { (sample("worker", "not ready")) "not ready" }
            span { (sample("worker", "failed")) "failed" }
            span { (sample("worker", "gone")) "gone" }
            span { (sample("worker", "deleting")) "deleting" }
            span { b { "$" } "spot" }
            span { b .bolt {} "Fault" }
            span .keys { kbd { "←↑↓→" } " move, " kbd { "Enter" } " open, " kbd { "f" } " break, " kbd { "Esc" } " close" }
        }
    }
}

/// The elements of a list.
fn items(lists: &Lists<'_>, list: &str, zones: &[String]) -> Markup {
    html! {
        @for (id, element) in lists.get(list).into_iter().flatten() {
            (item(id, element, zones, Some(lists)))
        }
    }
}

/// An element. Without `lists`, the lists in it are empty.
pub(crate) fn item(id: &str, element: &Element, zones: &[String], lists: Option<&Lists<'_>>) -> Markup {
    let open = |tag: &str, class: &str, more: &str| open(tag, class, more, id, element);
    let text = |place: &'static str| {
        let text = element.texts.get(place).map(String::as_str).unwrap_or_default();
        html! { span data-k=(place) { (text) } }
    };
    let inner = |list: &str| lists.map_or_else(|| html! {}, |lists| items(lists, list, zones));
    match element.form {
        Form::Bar => html! {
            (open("p", "total", "")) (text("clusters")) (text("machines")) (text("running")) (text("waiting"))
            (close("p"))
        },
        Form::Cloud => cloud(&open("div", "cloud", ""), element, &text, &inner),
        Form::Limit => html! {
            (open("div", "limit", "")) (text("name")) (progress(element)) (text("usage")) (close("div"))
        },
        Form::Cluster => cluster(
            &open("tr", "cluster", " role=\"row\""),
            element,
            zones,
            &text,
            &inner,
        ),
        Form::Density => html! {
            (open("div", "density", "")) (progress(element))
            @for state in State::ALL { (text(state.word())) " " }
            (close("div"))
        },
        Form::More => html! { (open("li", "line", "")) (text("more")) (close("li")) },
        Form::Machine => html! { (open("a", "m", "")) (close("a")) },
        Form::Wait => html! {
            li { (open("a", "line", "")) b { (text("reason")) } span { (named_by(text)) } (text("message")) (close("a")) }
        },
        Form::Leak => html! {
            (open("li", "line", "")) b { (text("what")) } (text("place")) (text("fault")) (close("li"))
        },
        Form::Fault => html! {
            li { (open("a", "line fault", "")) b { (named_by(text)) } (text("effect")) (text("phase")) span .left {}
                (text("doings")) (text("message")) (close("a")) }
        },
        Form::Scenario => html! {
            li { (open("a", "line", "")) b { (named_by(text)) } (text("phase")) (text("progress")) (text("step"))
                (text("message")) (close("a")) }
        },
        Form::Caption => html! {
            (open("p", "caption", "")) b { (named_by(text)) } " " (text("said")) (close("p"))
        },
    }
}

/// The name of an object behind its namespace: a page of all namespaces may have two of one name.
fn named_by(text: impl Fn(&'static str) -> Markup) -> Markup {
    html! { span .namespace { (text("namespace")) "/" } (text("name")) }
}

/// How much of its limit an element uses.
fn progress(element: &Element) -> Markup {
    let attribute = |name| element.attributes.get(name).map_or("", String::as_str);
    html! { progress max=(attribute("data-limit")) value=(attribute("data-used")) aria-hidden="true" {} }
}

fn cloud(
    open: &Markup,
    element: &Element,
    text: &dyn Fn(&'static str) -> Markup,
    inner: &dyn Fn(&str) -> Markup,
) -> Markup {
    let key = &element.order;
    let href = named(key, "cloud");
    html! {
        (open)
        a .name href=(href) { (named_by(text)) }
        span .clock { time data-tick {} " " (text("clock")) }
        (text("cost")) (text("waiting")) (text("leaked"))
        div .limits id=(elements::limits_id(key)) { (inner(&elements::limits_id(key))) }
        (close("div"))
    }
}

fn cluster(
    open: &Markup,
    element: &Element,
    zones: &[String],
    text: &dyn Fn(&'static str) -> Markup,
    inner: &dyn Fn(&str) -> Markup,
) -> Markup {
    let key = &element.order;
    html! {
        (open)
        th role="rowheader" scope="row" {
            a .name href=(named(key, "cluster")) {
                (named_by(text))
            }
            span .badge { (text("state")) }
            span .facts { (text("version")) (text("count")) }
            span .facts { (text("balancer")) }
            span .trouble { (text("faults")) }
        }
        @for (number, zone) in zones.iter().enumerate() {
            td role="cell" data-zone=(column(zone, zones)) {
                div .cells id=(elements::zone_id(key, number)) { (inner(&elements::zone_id(key, number))) }
            }
        }
        (close("tr"))
    }
}

/// The path of an object whose key is `namespace/name`.
fn named(key: &str, kind: &str) -> String {
    let (namespace, name) = key.split_once('/').unwrap_or_default();
    elements::path(kind, &Key::new(namespace, name))
}

/// The opening tag of an element, with its id and all its attributes.
fn open(tag: &str, class: &str, more: &str, id: &str, element: &Element) -> Markup {
    let mut text = format!("<{tag} class=\"{class}\"{more}");
    attribute(&mut text, "id", id);
    for (name, value) in &element.attributes {
        attribute(&mut text, name, value);
    }
    text.push('>');
    PreEscaped(text)
}

fn close(tag: &str) -> Markup {
    PreEscaped(format!("</{tag}>"))
}

fn attribute(text: &mut String, name: &str, value: &str) {
    let _ = write!(text, " {name}=\"");
    let _ = Escaper::new(text).write_str(value);
    text.push('"');
}
