//! The HTML of the library: a list of scenarios, and one of them with what it needs. Pure.

use maud::{Markup, html};

use crate::{
    drawer_html::{Forms, form, head, lacking},
    elements::path,
    library::{Lacks, LibraryEntry},
    objects::Key,
};

/// The kind of the library in paths.
pub(crate) const KIND: &str = "library";
/// The name of the list.
pub(crate) const ALL: &str = "all";

/// All entries, for a namespace.
pub(crate) fn list(entries: &[LibraryEntry], namespace: &str) -> Markup {
    html! {
        div .drawer {
            (head(&format!("Library, for namespace {namespace}"), "Scenarios", ""))
            ul .library {
                @for entry in entries {
                    li {
                        a href=(path(KIND, &Key::new(namespace, entry.name()))) { (entry.name()) }
                        span .none { " " (entry.takes) @if entry.needs != "up" { ", needs " (entry.needs) } }
                        p { (entry.shows) }
                    }
                }
            }
        }
    }
}

/// An entry, with what it lacks there or why that is not known.
pub(crate) fn entry(
    entry: &LibraryEntry,
    lacks: &Result<Lacks, String>,
    namespace: &str,
    forms: &Forms,
) -> Markup {
    let may_not = forms.lacks.as_deref();
    let (told, can_be_made, can_run) = match lacks {
        Ok(Lacks { told, can_be_made }) => (told.as_slice(), *can_be_made, told.is_empty()),
        Err(why) => (std::slice::from_ref(why), false, false),
    };
    let key = format!(
        "{} {can_be_made} {can_run} {}",
        forms.path,
        may_not.unwrap_or_default()
    );
    let button = |act: &str, word: &str, is_on: bool| {
        let about = may_not.map(|_| "act-lacks");
        html! {
            button id={ "library-" (act) } type="submit" name="act" value=(act) disabled[!is_on || may_not.is_some()]
                aria-describedby=[about] { (word) }
        }
    };
    html! {
        div .drawer {
            (head(&format!("Scenario of the library, for namespace {namespace}"), entry.name(), ""))
            p { (entry.story) }
            p .none { "It takes about " (entry.takes) " on a cluster that is available." }
            section #act data-key=(key) aria-label="Act" {
                (form(&forms.path, &forms.token, &html! {
                    @if can_be_made { (button("make", "Make its cluster", true)) }
                    (button("run", "Run it", can_run))
                }))
                (lacking(may_not))
            }
            section aria-live="polite" {
                h3 { (if told.is_empty() { "What it needs" } else { "What is missing here" }) }
                @if told.is_empty() { p .there { "Everything that it needs is there." } } @else {
                    ul .lacks { @for lack in told { li { (lack) } } }
                }
            }
            p { a href=(path(KIND, &Key::new(namespace, ALL))) { "All scenarios" } }
        }
    }
}
