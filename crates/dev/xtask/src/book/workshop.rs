//! The pages of the book with the chapters of the workshop.

use std::{collections::BTreeMap, fmt::Write as _};

use nephele_scenario_library::{
    Needs,
    workshop::{self, Chapter},
};

/// The text of each page, by its name in the folder of the workshop.
pub(super) fn render() -> anyhow::Result<BTreeMap<String, String>> {
    let chapters = workshop::all()?;
    let pages = chapters
        .iter()
        .map(|chapter| (format!("{}.md", chapter.name), page(chapter)));
    Ok(pages.collect())
}

fn page(chapter: &Chapter) -> String {
    let Chapter {
        number,
        name,
        about,
        hints,
        solution,
        ..
    } = chapter;
    let mut page = format!(
        "<!-- Generated from config/workshop/{name} by `cargo xtask codegen`. -->\n\n# {number}. {}\n\n{} It takes about {} minutes.\n\n\
         {}```sh\nnephele workshop start {number}\n```\n\n",
        about.title,
        about.teaches,
        about.takes.as_secs() / 60,
        needs(&about.needs),
    );
    // What checks the task belongs to it.
    page.push_str(chapter.task());
    for hint in hints {
        detail(&mut page, &format!("Hint: {}", lower(hint.title)), hint.text);
    }
    detail(&mut page, "Solution", &format!("```sh\n{solution}```"));
    let _ = write!(
        page,
        "Check it:\n\n```sh\nnephele workshop check {number}\n```\n\n{}",
        chapter.answers()
    );
    page
}

/// What a reader has to start for a chapter that `nephele up` alone cannot play.
fn needs(needs: &Needs) -> String {
    match needs {
        Needs::Up => String::new(),
        Needs::ClusterApi(needed) => format!(
            "It needs Cluster API itself ({needed}), which the stand-in of `nephele up` is not. \
             [`nephele up --cluster-api`](../workshop.md#with-cluster-api-itself) runs it.\n\n"
        ),
    }
}

/// A part that a reader opens.
fn detail(page: &mut String, title: &str, text: &str) {
    let _ = write!(
        page,
        "<details><summary>{title}</summary>\n\n{text}\n\n</details>\n\n"
    );
}

fn lower(title: &str) -> String {
    let mut letters = title.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}
