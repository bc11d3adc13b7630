//! The HTML of the screen Observed. Pure.

use maud::{Markup, html};

use crate::{
    html::{Live, Whose, shell},
    observed::{Cause, Observed, Row},
    screen::Screen,
};

/// The columns. On a phone each cell says in which one it is.
const COLUMNS: [&str; 4] = ["What", "In the cloud", "What Cluster API sees", "Why"];

/// The whole page.
pub(crate) fn page(observed: &Observed, namespace: Option<&str>, whose: Whose) -> Markup {
    let content = html! {
        main #main .observed data-part=(Screen::Observed.part(namespace)) {
            h1 { "Observed" }
            p .none { "What is in the cloud, and what Cluster API sees of it. A controller acts on what it sees." }
            div #part { (part(observed)) }
        }
    };
    shell(
        "Observed - Nephele",
        &content,
        Some(&Live::part(namespace, whose)),
    )
}

/// What changes.
pub(crate) fn part(observed: &Observed) -> Markup {
    html! {
        @if !observed.has_journal {
            p .none { "The page has no journal, so it shows what the objects say of the cloud." }
        }
        (table("differing", "They differ", &observed.differing, observed.differing_left_out,
            "Cluster API sees everything as it is."))
        (table("agreeing", "They agree", &observed.agreeing, observed.agreeing_left_out, "Nothing is there."))
    }
}

fn table(id: &str, title: &str, rows: &[Row], left_out: usize, none: &str) -> Markup {
    let heading = format!("{id}-title");
    html! {
        section .panel aria-labelledby=(heading) {
            h2 #(heading) { (title) ": " (rows.len() + left_out) }
            @if rows.is_empty() { p .none { (none) } } @else {
                div .scroll tabindex="0" role="region" aria-labelledby=(heading) {
                    table .list #(id) {
                        thead { tr { @for column in COLUMNS { th scope="col" { (column) } } } }
                        tbody { @for row in rows { (of(row)) } }
                    }
                }
            }
            @if left_out > 0 { p .none { "and " (left_out) " more" } }
        }
    }
}

fn of(row: &Row) -> Markup {
    html! {
        tr {
            th scope="row" {
                span .kind { (row.kind) } " "
                @match &row.href { Some(href) => a href=(href) { (row.name) }, None => (row.name) }
            }
            td data-column=(COLUMNS[1]) { (row.cloud) }
            td data-column=(COLUMNS[2]) { (row.seen) }
            td data-column=(COLUMNS[3]) { @for cause in &row.causes { (because(cause)) } }
        }
    }
}

fn because(cause: &Cause) -> Markup {
    html! {
        p { @match &cause.href { Some(href) => a href=(href) { (cause.says) }, None => (cause.says) } }
    }
}
