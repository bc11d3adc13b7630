//! The rows as a page for people.

use std::fmt::Write as _;

use super::{
    rows::{Group, Row, State},
    source::parts,
};

const STATES: [State; 3] = [State::Holds, State::DoesNotApply, State::Open];

/// Rows about one subject, and the page that is made from them.
pub(super) struct Table {
    /// The rows within the repository.
    pub(super) rows: &'static str,
    pub(super) page: &'static str,
    /// The beginning of the page.
    pub(super) beginning: &'static str,
}

/// The page.
pub(super) fn render(table: &Table, groups: &[Group]) -> String {
    let mut page = format!(
        "<!-- Made from {} by `cargo xtask contract`. -->
{}
| Rows | About | Hold | Do not apply | Open |
|---|---|---|---|---|
",
        table.rows, table.beginning
    );
    let mut line = |name: &str, about: &str, rows: &[&Row]| {
        let counts = STATES.map(|state| rows.iter().filter(|row| row.state() == state).count().to_string());
        writeln!(page, "| {name} | {about} | {} |", counts.join(" | ")).expect("text can be written");
    };
    for group in groups {
        line(&group.group, &group.about, &group.rows.iter().collect::<Vec<_>>());
    }
    let all: Vec<_> = groups.iter().flat_map(|group| &group.rows).collect();
    line("all", "", &all);
    for Group {
        group, about, rows, ..
    } in groups
    {
        write!(
            page,
            "\n## {group}: {about}\n\n| Row | Asked | State | By, or why |\n|---|---|---|---|\n"
        )
        .expect("text can be written");
        for row in rows {
            let (state, why) = told(row);
            writeln!(page, "| {} | {} | {state} | {why} |", row.id, cell(&row.asks))
                .expect("text can be written");
        }
    }
    page
}

fn told(row: &Row) -> (&'static str, String) {
    let tests = || {
        let named = row.tests.iter().filter_map(|test| parts(test));
        named
            .map(|(file, function)| format!("`{function}` in {file}"))
            .collect::<Vec<_>>()
            .join("; ")
    };
    match (&row.open, &row.does_not_apply) {
        (Some(missing), _) if row.tests.is_empty() => ("open", cell(missing)),
        (Some(missing), _) => ("open", format!("{}; shown so far: {}", cell(missing), tests())),
        (None, Some(why)) => ("does not apply", cell(why)),
        (None, None) => ("holds", tests()),
    }
}

/// The text with escaped ends of cells.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::rows;

    #[test]
    fn a_row_shows_its_state_and_what_for() {
        let groups = rows::read(
            "[{group: A, about: things, count: 3, rows: [{id: A-01, asks: 'a | b', tests: ['a.rs::b', 'c.rs::d']}, \
             {id: A-02, asks: a, open: c, tests: ['a.rs::b']}, {id: A-03, asks: a, does_not_apply: e}]}]",
        );
        let table = Table {
            rows: "a.yaml",
            page: "a.md",
            beginning: "# A\n",
        };
        let page = render(&table, &groups.expect("sound"));
        for line in [
            "| A | things | 1 | 1 | 1 |",
            "| all |  | 1 | 1 | 1 |",
            "| A-01 | a \\| b | holds | `b` in a.rs; `d` in c.rs |",
            "| A-02 | a | open | c; shown so far: `b` in a.rs |",
            "| A-03 | a | does not apply | e |",
        ] {
            assert!(
                page.lines().any(|known| known == line),
                "{line} is not in\n{page}"
            );
        }
    }
}
