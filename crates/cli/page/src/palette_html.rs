//! The HTML of the palette: a form for a Fault on many objects, and what the Fault would hit. Pure.

use maud::{Markup, html};

use crate::{
    draft::{Draft, Roles},
    drawer_html::{Forms, form, head, lacking},
    elements::{ANY, path},
    model::Model,
    objects::Key,
    palette::Group,
    preview::{Claims, Hits, Preview, Share},
};

/// The kind of the palette in paths. It is for a namespace, and has this name there.
pub(crate) const KIND: &str = "palette";
/// The name of the only palette of a namespace.
pub(crate) const NAME: &str = "new";

/// What can be chosen in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choices {
    clusters: Vec<String>,
    zones: Vec<String>,
    /// The other namespaces that have clusters.
    others: Vec<String>,
}

impl Choices {
    /// The choices of a namespace.
    pub(crate) fn new(model: &Model, namespace: &str) -> Self {
        let clusters = model.clusters.keys().filter(|key| key.namespace == namespace);
        let mut others: Vec<_> = model.clusters.keys().map(|key| key.namespace.clone()).collect();
        others.dedup();
        others.retain(|other| other != namespace);
        Self {
            clusters: clusters.map(|key| key.name.clone()).collect(),
            zones: model
                .zones
                .iter()
                .filter(|zone| !zone.is_empty())
                .cloned()
                .collect(),
            others,
        }
    }
}

/// The path of the palette of a namespace, or of any.
pub(crate) fn path_of(namespace: Option<&str>) -> String {
    path(KIND, &Key::new(namespace.unwrap_or(ANY), NAME))
}

/// What stands in the Drawer.
pub(crate) fn palette(
    draft: &Draft,
    choices: &Choices,
    preview: &Preview,
    namespace: &str,
    forms: &Forms,
) -> Markup {
    html! {
        div .drawer {
            (head(&format!("Fault in namespace {namespace}"), "Break something", ""))
            (fields(draft, choices, forms))
            // Read out when it changes.
            section #preview aria-label="Preview" aria-live="polite" data-hits=(ids(preview)) { (told(preview)) }
            @if !choices.others.is_empty() { (others(draft, choices)) }
        }
    }
}

/// The form. The module leaves it as it is while its key stays, because someone may be filling it in.
fn fields(draft: &Draft, choices: &Choices, forms: &Forms) -> Markup {
    let lacks = forms.lacks.as_deref();
    let key = format!("{} {choices:?} {}", forms.path, lacks.unwrap_or_default());
    let option = |value: &str, word: &str, chosen: &str| {
        html! { option value=(value) selected[value == chosen] { (word) } }
    };
    let disabled = lacks.is_some();
    let content = html! {
        label { "What breaks "
            select #palette-effect name="effect" {
                @for group in Group::ALL {
                    optgroup label=(group.title()) {
                        @for offer in group.offers() {
                            (option(offer.name, &format!("{}: {}", offer.name, offer.sentence), &draft.effect))
                        }
                    }
                }
            }
        }
        label { "of cluster "
            select #palette-cluster name="cluster" {
                (option("", "all clusters", &draft.cluster))
                @for cluster in &choices.clusters { (option(cluster, cluster, &draft.cluster)) }
            }
        }
        label { "on "
            select #palette-machines name="machines" {
                @for roles in Roles::ALL { (option(roles.value(), roles.words(), draft.roles.value())) }
            }
        }
        label { "in zone "
            select #palette-zone name="zone" {
                (option("", "all zones", &draft.zone))
                @for zone in &choices.zones { (option(zone, zone, &draft.zone)) }
            }
        }
        label { "with the names "
            input #palette-names name="names" value=(draft.names) maxlength="2000" autocomplete="off" placeholder="all";
        }
        label { "for "
            input #palette-for name="for" value=(draft.lasts) size="6" maxlength="32" autocomplete="off";
        }
        label { "at most "
            input #palette-count name="count" value=(draft.count) size="4" maxlength="9" inputmode="numeric"
                autocomplete="off" placeholder="all";
            " of them"
        }
        // The first button is the one that Enter presses.
        button #palette-preview type="submit" name="act" value="preview" { "Preview" }
        button #palette-break type="submit" name="act" value="break" disabled[disabled]
            aria-describedby=[lacks.map(|_| "act-lacks")] { "Break it" }
    };
    html! {
        section #act data-key=(key) aria-label="Act" {
            (form(&forms.path, &forms.token, &content))
            (lacking(lacks))
        }
    }
}

/// The ids of the elements of what it hits.
fn ids(preview: &Preview) -> String {
    match preview {
        Preview::Hits(hits) => hits.ids.join(" "),
        Preview::Mistake(_) | Preview::NoClaims | Preview::Claims(_) => String::new(),
    }
}

fn told(preview: &Preview) -> Markup {
    match preview {
        Preview::Mistake(why) => html! { p .refusal { (why) } },
        Preview::NoClaims => html! {
            p .none { "It hits IPAddressClaims on the pools with these names, or on all. There is no preview: the management \
                cluster does not have the kind, or you may not list it." }
        },
        Preview::Claims(claims) => hit_claims(claims),
        Preview::Hits(hits) => hit(hits),
    }
}

/// A part of the objects of a kind, in words.
fn part(selected: usize, of: usize, kind: &str) -> String {
    let plural = if of == 1 { "" } else { "s" };
    format!("{selected} of {of} {kind}{plural}")
}

/// The field that keeps a Fault from hitting anything.
fn to_blame(excluded_by: Option<(&'static str, usize)>) -> Markup {
    html! {
        @if let Some((field, selected)) = excluded_by {
            p { "Without the " (field) " it would hit " (selected) "." }
        }
    }
}

fn hit_claims(claims: &Claims) -> Markup {
    let Claims {
        selected,
        of,
        some,
        moment,
        count,
        excluded_by,
    } = claims;
    html! {
        @if some.is_empty() {
            p .refusal { "Hits nothing that is there: " (part(*selected, *of, "claim")) "." }
            (to_blame(*excluded_by))
        } @else {
            p { "Hits " b { (part(*selected, *of, "claim")) }
                @if let Some(count) = count { ", but at most " (count) " of them" }
                ": " (some.join(", "))
                @if *selected > some.len() { " and " (selected - some.len()) " more" }
                "."
            }
        }
        p .none { "It hits " (moment) "." }
    }
}

fn hit(hits: &Hits) -> Markup {
    let Hits {
        machines,
        clusters,
        operations,
        count,
        excluded_by,
        ids,
    } = hits;
    let of = |Share { selected, of, .. }: &Share, kind: &str| part(*selected, *of, kind);
    let named = |Share { selected, some, .. }: &Share| {
        html! {
            @if !some.is_empty() {
                ul .hits {
                    @for (name, path) in some { li { a href=(path) { (name) } } }
                    @if *selected > some.len() { li .none { "and " (selected - some.len()) " more" } }
                }
            }
        }
    };
    html! {
        @if ids.is_empty() {
            p .refusal { "Hits nothing that is there: " (of(machines, "machine")) ", " (of(clusters, "cluster")) "." }
            (to_blame(*excluded_by))
        } @else {
            p { "Hits "
                @if machines.selected > 0 { b { (of(machines, "machine")) } }
                @if machines.selected > 0 && clusters.selected > 0 { " and " }
                @if clusters.selected > 0 { b { (of(clusters, "cluster")) } }
                @if let Some(count) = count { ", but at most " (count) " of them" }
                "."
            }
            (named(machines))
            (named(clusters))
        }
        @if !operations.is_empty() {
            p .none { "These calls fail or wait, also for machines to come: " (operations.join(", ")) "." }
        }
    }
}

/// The palettes of other namespaces, with the same fields.
fn others(draft: &Draft, choices: &Choices) -> Markup {
    let query = draft.query();
    html! {
        section {
            h3 { "In another namespace" }
            ul .hits {
                @for other in &choices.others {
                    li { a href={ (path_of(Some(other))) "?" (query) } { (other) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_named_as_plain_text() {
        let claims = Claims {
            selected: 3,
            of: 5,
            some: vec!["a".to_owned(), "<b>".to_owned()],
            moment: "claims that wait",
            count: Some(1),
            excluded_by: None,
        };
        let nothing = Claims {
            selected: 0,
            of: 1,
            some: Vec::new(),
            count: None,
            excluded_by: Some(("names", 1)),
            ..claims.clone()
        };
        let said = [claims, nothing].map(|claims| told(&Preview::Claims(Box::new(claims))).into_string());
        assert_eq!(
            said,
            [
                "<p>Hits <b>3 of 5 claims</b>, but at most 1 of them: a, &lt;b&gt; and 1 more.</p>\
                 <p class=\"none\">It hits claims that wait.</p>",
                "<p class=\"refusal\">Hits nothing that is there: 0 of 1 claim.</p>\
                 <p>Without the names it would hit 1.</p><p class=\"none\">It hits claims that wait.</p>",
            ]
        );
    }
}
