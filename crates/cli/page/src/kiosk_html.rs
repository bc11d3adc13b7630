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
        main #main data-since=(frame.version) data-namespace="" data-part=(Screen::Kiosk.part(None)) {
            (html::screen(elements))
        }
        section #part .last aria-label="What happened last" { (part) }
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

/// What is below the cloud: the board of a class, if there is one, and the last records.
pub(crate) fn part<'a>(board: &Board, journal: impl DoubleEndedIterator<Item = &'a JournalLine>) -> Markup {
    html! {
        @if !board.people.is_empty() { (of_class(board)) }
        (drawer_html::records(journal.rev().take(RECORDS), true))
    }
}

fn of_class(board: &Board) -> Markup {
    html! {
        table .list .board {
            caption .hidden { "Who has done which chapter" }
            thead { tr {
                th scope="col" { "Chapter" }
                @for chapter in &board.chapters { th scope="col" { (chapter) } }
            } }
            tbody { @for (person, chapters) in &board.people {
                tr {
                    th scope="row" { (person) }
                    @for chapter in &board.chapters { (of_chapter(chapters.get(chapter).copied())) }
                }
            } }
        }
        @if board.people_left_out > 0 { p .none { "and " (board.people_left_out) " more" } }
    }
}

fn of_chapter(progress: Option<Progress>) -> Markup {
    match progress {
        Some(progress) => html! { td data-progress=(progress.words()) { (progress.words()) } },
        None => html! { td { "–" } },
    }
}
