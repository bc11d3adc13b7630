//! The HTML of the recording: its acts so far, and then the Scenario. Pure.

use maud::{Markup, html};

use crate::{
    drawer::yaml,
    drawer_html::{Forms, copies, form, head, lacking},
    recording::{Recorder, Recording},
};

/// The kind of the recording in paths.
pub(crate) const KIND: &str = "recording";
/// The name of the only one.
pub(crate) const NAME: &str = "new";

/// What stands in the Drawer.
pub(crate) fn recording(recorder: &Recorder, namespace: &str, forms: &Forms) -> Markup {
    let button = |act: &str, word: &str, is_on: bool| {
        html! { button id={ "recording-" (act) } type="submit" name="act" value=(act) disabled[!is_on] { (word) } }
    };
    let (state, buttons) = match recorder {
        Recorder::Off => ("", html! { (button("begin", "Begin", true)) }),
        Recorder::Runs(_) => (
            "Running",
            html! { (button("end", "End", true)) (button("forget", "Forget it", true)) },
        ),
        Recorder::Ended(..) => (
            "",
            html! {
                (button("run", "Run it", forms.lacks.is_none()))
                (button("begin", "Begin another one", true))
            },
        ),
    };
    let key = format!(
        "{} {state} {} {:?}",
        forms.path,
        matches!(recorder, Recorder::Off),
        forms.lacks
    );
    html! {
        div .drawer {
            (head(&format!("Recording in namespace {namespace}"), "Make a Scenario", state))
            section #act data-key=(key) aria-label="Act" {
                (form(&forms.path, &forms.token, &buttons))
                @if let Recorder::Ended(..) = recorder { (lacking(forms.lacks.as_deref())) }
            }
            (content(recorder))
        }
    }
}

fn content(recorder: &Recorder) -> Markup {
    match recorder {
        Recorder::Off => html! {
            p { "From now until you end it, the page writes down which Faults you make and end here and how you set clocks. \
                Of that it makes a Scenario, which does the same again and expects what was seen meanwhile." }
        },
        Recorder::Runs(recording) => acts(recording),
        Recorder::Ended(recording) => html! {
            (acts(recording))
            (copies(&[("YAML", yaml(&recording.scenario()))]))
        },
    }
}

fn acts(recording: &Recording) -> Markup {
    let told = recording.told();
    html! {
        section aria-live="polite" {
            h3 { "Acts" }
            @if told.is_empty() { p .none { "None so far. Break something." } }
            ol .acts { @for (second, act) in &told { li { time { (second) "s" } " " (act) } } }
        }
    }
}
