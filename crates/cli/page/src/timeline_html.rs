//! The HTML of the timeline, and its picture as a file. Pure.

use jiff::Timestamp;
use maud::{Markup, PreEscaped, html};

use crate::{
    drawer_html,
    html::{Live, Whose, shell},
    objects::Key,
    time_of_day::clock_time,
    timeline::{
        Timeline,
        lane::{Lane, LaneKind, MarkKind, Span},
        window::{ALL, Asked, LAST, Shown, Window},
    },
};

/// How long a window can be, at a click.
const LASTS: [&str; 5] = ["1m", LAST, "15m", "1h", ALL];
/// The height of a lane, in pixels.
const HEIGHT: usize = 18;
/// The least width of a span, in hundredths of a percent: one that is shorter would not be seen.
const LEAST: i64 = 15;
/// What stands in the picture as a file, in pixels: the names, the lanes, and what is between them.
const NAMES: usize = 260;
const LANES: usize = 960;
const GAP: usize = 12;
/// How the picture looks that is a file.
const STYLE: &str = "text{font:12px sans-serif;fill:#1b2330}.axis line{stroke:#7b8698}.band{fill:#b3261e;opacity:.1}\
    .running{fill:#2c7a55}.starting{fill:#fdf1d8;stroke:#855700}.waiting{fill:#7b8698}.failed{fill:#b3261e}\
    .deleting{fill:#e9ecf1;stroke:#7b8698}.force,.affected{fill:#b3261e}.leaked{fill:none;stroke:#b3261e;stroke-dasharray:3 2}\
    .event,.operation{fill:#1b2330}.refused,.hit{fill:#b3261e;font-weight:700;text-anchor:middle}";

/// The whole page.
pub(crate) fn page(timeline: &Timeline, asked: &Asked, whose: Whose) -> Markup {
    let content = html! {
        main #main .timeline data-live=(timeline.window.is_live) {
            h1 { "Timeline" }
            (choices(timeline, asked))
            div #timeline { (lanes(timeline, asked)) }
            div #brush hidden {}
        }
    };
    let live = Live {
        modules: &["/timeline.js"],
        // Someone may be filling in the form.
        again: 30,
        namespace: asked.namespace.as_deref(),
        has_views: true,
        whose,
    };
    shell("Timeline - Nephele", &content, Some(&live))
}

/// The page that says why a query cannot be followed.
pub(crate) fn refused(why: &str) -> Markup {
    let content = html! {
        main .timeline {
            h1 { "Timeline" }
            p { (drawer_html::refusal(why)) }
            p { a href="/timeline" { "The last " (LAST) } }
        }
    };
    shell("Timeline - Nephele", &content, None)
}

/// Windows that a click leads to. They go with the time, as the lanes do.
fn windows(window: Window, asked: &Asked) -> Markup {
    let chosen = asked.last();
    html! {
        nav .windows aria-label="Time" {
            @for last in LASTS {
                a #{ "last-" (last) } href=(asked.during(Shown::last(last).ok()).path()) aria-current=[(chosen == Some(last)).then_some("true")] {
                    @if last == ALL { "all" } @else { "last " (last) }
                }
            }
            @for (word, span) in moves(window) {
                a #{ "move-" (word) } href=(asked.during(Some(span)).path()) { (word) }
            }
        }
    }
}

/// What can be chosen: a cluster and a time. The form works without scripts.
fn choices(timeline: &Timeline, asked: &Asked) -> Markup {
    let window = timeline.window;
    html! {
        form .act method="get" action="/timeline" {
            @if let Some(namespace) = &asked.namespace { input type="hidden" name="namespace" value=(namespace); }
            @if let Some(lane) = &asked.lane { input type="hidden" name="lane" value=(lane.word()); }
            @if let Some(last) = asked.last() { input type="hidden" name="last" value=(last); }
            label { "Cluster "
                select name="cluster" {
                    option value="" { "all" }
                    @for cluster in &timeline.clusters {
                        option value=(cluster) selected[asked.cluster.as_ref() == Some(cluster)] { (cluster) }
                    }
                }
            }
            label { "from " (time_field("from", asked, window.from)) }
            label { "until " (time_field("until", asked, window.until)) }
            button type="submit" { "Show" }
        }
    }
}

/// A time of a window that does not go with the time; empty otherwise, so that the form keeps it moving.
fn time_field(name: &str, asked: &Asked, at: i64) -> Markup {
    let is_fixed = matches!(asked.span, Some(Shown::Between(..)));
    let value = is_fixed.then(|| moment(at).to_string());
    html! {
        input name=(name) value=[value] size="22" maxlength="40" autocomplete="off" placeholder=(second(at));
    }
}

/// Windows beside this one: keys and touch reach them, too.
fn moves(window: Window) -> [(&'static str, Shown); 4] {
    let Window { from, until, .. } = window;
    let half = until.saturating_sub(from) / 2;
    let quarter = half / 2;
    let between =
        |from: i64, until: i64| Shown::Between(moment(from), moment(until.max(from.saturating_add(2))));
    [
        (
            "earlier",
            between(from.saturating_sub(half), until.saturating_sub(half)),
        ),
        (
            "later",
            between(from.saturating_add(half), until.saturating_add(half)),
        ),
        (
            "closer",
            between(from.saturating_add(quarter), until.saturating_sub(quarter)),
        ),
        (
            "wider",
            between(from.saturating_sub(half), until.saturating_add(half)),
        ),
    ]
}

/// The lanes and the records: what changes.
pub(crate) fn lanes(timeline: &Timeline, asked: &Asked) -> Markup {
    let window = timeline.window;
    html! {
        (windows(window, asked))
        p .none {
            time { (second(window.from)) } " to " time { (second(window.until)) }
            @if window.is_live { ", which is now" }
            ". Draw over the lanes to look closer."
        }
        @if timeline.lanes.is_empty() { p .none { "Nothing happened, and nothing is there." } } @else {
            div .scroll tabindex="0" role="region" aria-label="Lanes" {
                table .lanes data-from=(window.from) data-until=(window.until) {
                    thead { tr { th scope="col" { "Lane" } th scope="col" { (axis(window)) } } }
                    tbody { @for lane in &timeline.lanes { (row(lane, timeline, asked)) } }
                }
            }
        }
        @if timeline.lanes_left_out > 0 {
            p .none { (timeline.lanes_left_out) " more lanes. Choose a cluster to see its lanes." }
        }
        (legend())
        (records(timeline, asked))
    }
}

fn row(lane: &Lane, timeline: &Timeline, asked: &Asked) -> Markup {
    let is_chosen = asked.lane.as_ref() == Some(&lane.id);
    let chosen = asked.about((!is_chosen).then(|| lane.id.clone()));
    html! {
        tr data-kind=(lane.id.kind.word()) aria-current=[is_chosen.then_some("true")] {
            th scope="row" {
                a id={ "lane:" (lane.id.word()) } href=(chosen.path()) title=(name(lane)) {
                    span .kind { (lane.id.kind.word()) } " " span .end { bdi { (name(lane)) } }
                }
            }
            td { svg .lane role="img" aria-label=(told(lane, timeline.window)) width="100%" height=(HEIGHT) {
                (drawn(lane, timeline))
            } }
        }
    }
}

/// The name of a lane. Namespaces are written where no cluster is.
fn name(lane: &Lane) -> String {
    match lane.id.kind {
        LaneKind::Machine => lane.id.name.clone(),
        _ => Key::new(&lane.id.namespace, &lane.id.name).to_string(),
    }
}

/// A lane in words, for people who do not see it.
fn told(lane: &Lane, window: Window) -> String {
    let span = |span: &Span| {
        let until = match span.until == window.until {
            true => String::new(),
            false => format!(" until {}", second(span.until)),
        };
        format!("{} from {}{until}", span.state, second(span.from))
    };
    let mut told: Vec<_> = lane.spans.iter().map(span).collect();
    for (kind, one) in [
        (MarkKind::Refused, "refused operation"),
        (MarkKind::Hit, "hit of a Fault"),
    ] {
        match lane.marks.iter().filter(|mark| mark.kind == kind).count() {
            0 => {}
            1 => told.push(format!("1 {one}")),
            many => told.push(format!("{many} times {one}")),
        }
    }
    told.join(", ")
}

fn drawn(lane: &Lane, timeline: &Timeline) -> Markup {
    let window = timeline.window;
    let bands = timeline.bands.get(&lane.id.namespace);
    let bands = bands.filter(|_| lane.id.kind != LaneKind::Fault);
    html! {
        @for span in bands.into_iter().flatten() { (rectangle("band", window, span, 0, HEIGHT)) }
        @for span in &lane.spans {
            @let (class, top, height) = form(span.state);
            (rectangle(class, window, span, top, height))
        }
        @for mark in &lane.marks {
            @let x = percent(window.place(mark.at));
            @match mark.kind {
                MarkKind::Event => rect .event x=(x) y="5" width="1" height="6" { title { (mark.says) } },
                MarkKind::Operation => rect .operation x=(x) y="1" width="2" height="13" { title { (mark.says) } },
                MarkKind::Refused => text .refused x=(x) y="13" { "×" title { (mark.says) } },
                MarkKind::Hit => text .hit x=(x) y="13" { "↯" title { (mark.says) } },
            }
        }
    }
}

/// How a state looks: its class, and from where and how high.
fn form(state: &str) -> (&'static str, usize, usize) {
    match state {
        "waiting" => ("waiting", 7, 2),
        "starting" => ("starting", 4, 8),
        "deleting" => ("deleting", 5, 6),
        "failed" | "gone" => ("failed", 4, 8),
        "in force" => ("force", 3, 10),
        "affected" => ("affected", 15, 3),
        "leaked" => ("leaked", 4, 8),
        _ => ("running", 4, 8),
    }
}

fn rectangle(class: &str, window: Window, span: &Span, top: usize, height: usize) -> Markup {
    let from = window.place(span.from);
    let width = (window.place(span.until) - from).max(LEAST);
    html! {
        rect class=(class) x=(percent(from)) y=(top) width=(percent(width)) height=(height) {
            title { (span.state) " from " (second(span.from)) " until " (second(span.until)) }
        }
    }
}

fn percent(hundredths: i64) -> String {
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

fn axis(window: Window) -> Markup {
    let (times, in_milliseconds) = window.times();
    html! {
        svg .axis width="100%" height=(HEIGHT) aria-hidden="true" {
            @for at in times {
                @let x = percent(window.place(at));
                line x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
                text x=(x) y="12" dx="3" {
                    @if in_milliseconds { (clock_time(moment(at))) } @else { (second(at)) }
                }
            }
        }
    }
}

fn legend() -> Markup {
    let span = |class: &str, word: &str| {
        let (class, top, height) = form(class);
        html! { span { svg .lane aria-hidden="true" width="22" height=(HEIGHT) {
        rect class=(class) x="1" y=(top) width="20" height=(height) {} } (word) } }
    };
    html! {
        section .legend aria-label="Legend" {
            @for state in ["waiting", "starting", "running", "failed", "deleting", "leaked"] { (span(state, state)) }
            (span("in force", "Fault in force"))
            (span("affected", "affected by a Fault"))
            span { b { "│" } "operation or event" }
            span { b .refusal { "×" } "refused" }
            span { b .refusal { "↯" } "hit by a Fault" }
        }
    }
}

fn records(timeline: &Timeline, asked: &Asked) -> Markup {
    let (last, earlier) = timeline.last_records();
    let lane = asked.lane.as_ref();
    let shown = lane.and_then(|id| timeline.lanes.iter().find(|lane| lane.id == *id));
    let export = |kind: &str| format!("/timeline.{kind}?{}", asked.query());
    html! {
        section .records aria-labelledby="records-title" {
            h2 #records-title {
                "Journal"
                @if let Some(lane) = lane { " of " (lane.kind.word()) " " (lane.name) }
            }
            p .none {
                @if let Some(href) = shown.and_then(|lane| lane.href.as_ref()) { a href=(href) { "Its details" } " " }
                @if lane.is_some() { a href=(asked.about(None).path()) { "All lanes" } " " }
                a href=(export("svg")) download { "Picture" } " "
                a href=(export("jsonl")) download { "Records as JSON lines" }
            }
            (drawer_html::records(last, lane.is_none_or(|lane| lane.kind == LaneKind::Fault)))
            @if earlier > 0 { p .none { (earlier) " earlier records. The file has all of them." } }
        }
    }
}

/// The lanes as a picture that needs nothing else.
pub(crate) fn picture(timeline: &Timeline) -> String {
    let height = (timeline.lanes.len() + 1) * HEIGHT + 2 * GAP;
    let width = NAMES + LANES + 2 * GAP;
    let at = |row: usize| GAP + row * HEIGHT;
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
            style { (PreEscaped(STYLE)) }
            rect width="100%" height="100%" fill="#fff" {}
            svg x=(NAMES + GAP) y=(GAP) width=(LANES) height=(HEIGHT) { (axis(timeline.window)) }
            @for (number, lane) in timeline.lanes.iter().enumerate() {
                text x=(GAP) y=(at(number + 1) + 13) { (lane.id.kind.word()) " " (name(lane)) }
                svg x=(NAMES + GAP) y=(at(number + 1)) width=(LANES) height=(HEIGHT) { (drawn(lane, timeline)) }
            }
        }
    };
    markup.into_string()
}

fn moment(at: i64) -> Timestamp {
    Timestamp::from_millisecond(at).unwrap_or_default()
}

/// A time of day, to the second.
fn second(at: i64) -> String {
    moment(at).strftime("%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests;
