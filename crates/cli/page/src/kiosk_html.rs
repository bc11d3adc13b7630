//! The HTML of the kiosk: the cloud on a screen that people only look at. Pure.

use maud::{Markup, html};
use nephele_cloud::JournalLine;

use crate::{
    board::{Board, Progress},
    drawer_html,
    elements::Elements,
    html::{self, Frame, Live, shell},
    screen::Screen,
};

/// How many records of the journal it shows.
const RECORDS: usize = 3;

/// The whole page. It has no controls, and its style lets no pointer select anything.
pub(crate) fn page(elements: &Elements, frame: &Frame, part: &Markup) -> Markup {
    let content = html! {
        section #part .last aria-label="The class, and what happened last" { (part) }
        main #main data-since=(frame.version) data-namespace="" data-part=(Screen::Kiosk.part(None)) {
            (html::screen(elements))
        }
        // The module of the page knows these places.
        aside #drawer hidden {}
        p #hint hidden {}
        div #outcome hidden {}
    };
    let live = Live {
        modules: &["/page.js", "/part.js"],
        again: 5,
        namespace: None,
        has_views: false,
        whose: frame.whose,
    };
    shell("Nephele", &content, Some(&live))
}

/// What is above the cloud, because a cloud of thirty people is longer than any screen: the board of a class, if there is one,
/// and the last records.
pub(crate) fn part<'a>(board: &Board, journal: impl DoubleEndedIterator<Item = &'a JournalLine>) -> Markup {
    html! {
        @if !board.people.is_empty() { (of_class(board)) }
        (drawer_html::records(journal.rev().take(RECORDS), true))
    }
}

/// A column for each person and a row for each chapter, so that thirty people are as high as one.
fn of_class(board: &Board) -> Markup {
    let prefix = board.prefix();
    html! {
        table .list .board {
            caption .hidden { "Who has done which chapter" }
            thead { tr {
                th scope="col" { "Chapter" }
                @for person in board.people.keys() {
                    th scope="col" title=(person) { (person.strip_prefix(prefix).unwrap_or(person)) }
                }
            } }
            tbody { @for chapter in board.rows() {
                tr {
                    th scope="row" { (chapter) }
                    @for chapters in board.people.values() { (of_chapter(chapters.get(&chapter).copied())) }
                }
            } }
        }
        @if board.people_left_out > 0 { p .none { "and " (board.people_left_out) " more people" } }
    }
}

fn of_chapter(progress: Option<Progress>) -> Markup {
    match progress {
        Some(progress) => html! {
            td data-progress=(progress.words()) title=(progress.words()) {
                span aria-hidden="true" { (sign(progress)) }
                span .hidden { (progress.words()) }
            }
        },
        None => html! { td { "–" } },
    }
}

/// A sign that does not need its color.
fn sign(progress: Progress) -> &'static str {
    match progress {
        Progress::Begun => "…",
        Progress::NotYet => "✗",
        Progress::Checking => "?",
        Progress::Done => "✓",
    }
}
