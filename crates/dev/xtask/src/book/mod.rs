//! The book in `docs`: its generated pages, and checks that no reader finds out first.
//!
//! ```text
//!  crds(), sources ──▶ kinds, metrics, conditions ──codegen──▶ docs/src/reference
//!  docs/src, README … ──▶ pages: links ──▶ check: files, headings and tests exist  (and ran: `contract --ran`)
//!                           ├ code blocks ──▶ schema: objects of our kinds are valid
//!                           ├ code spans ───▶ words: messages and names are in the sources
//!                           │           └───▶ named: files and functions of packages exist
//!                           └ both ─────────▶ commands: `cargo xtask` has them
//! ```

mod kinds;
mod measured;
mod metrics;
mod named;
mod pages;
mod scenarios;
mod schema;
mod words;
mod workshop;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};
use nephele_e2e::page::{self, Counts};
use serde::Deserialize as _;
use serde_json::Value;

use self::{
    named::Packages,
    pages::{Block, Page},
    schema::Schemas,
    words::Sources,
};
use crate::{
    cargo_tool::MDBOOK,
    command,
    commands::Commands,
    conditions,
    contract::{TestPrograms, find},
    definitions::definitions,
    files, paths,
};

/// The folder of the book's pages within the repository.
const PAGES: &str = "docs/src";
/// The table of contents, within that folder.
const SUMMARY: &str = "SUMMARY.md";
/// Files of the repository within the book, by URL: the published book has no other files.
const REPOSITORY: &str = "https://github.com/nephele-dev/nephele/blob/main/";
/// Pages outside of the book whose links and code blocks are checked, too.
const OTHERS: [&str; 7] = [
    FRONT,
    MAP,
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "STYLE.md",
    "charts/nephele/README.md",
];
/// The folder of the pages for developers, which are checked as those are.
const DESIGN: &str = "docs/design";
/// The first page that people see, and the most words that it may have, as `wc -w` counts them.
const FRONT: &str = "README.md";
const FRONT_WORDS_MAX: usize = 500;
/// The page that developers read first, and how long it may be, in bytes: it is read in one go.
const MAP: &str = "ARCHITECTURE.md";
const MAP_BYTES_MAX: usize = 15 * 1024;
/// The front pages of the libraries; their examples are compiled as tests.
const LIBRARIES: [&str; 2] = [
    "crates/extensions/runtime-sdk/src/lib.rs",
    "nepheletest/rust/src/lib.rs",
];
/// The default values of the chart, to which `--set` in commands refers.
const VALUES: &str = "charts/nephele/values.yaml";

/// The generated pages: paths within the repository and their content. `nephele-cli` generates the page of its flags in
/// a test, because only that crate knows them.
pub(crate) fn generated() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let reference = Path::new(PAGES).join("reference");
    let mut files: BTreeMap<_, _> = kinds::render()?
        .into_iter()
        .map(|(name, text)| (reference.join(name), text))
        .collect();
    files.insert(reference.join("conditions.md"), conditions::render()?);
    files.insert(reference.join("metrics.md"), metrics::render()?);
    files.insert(reference.join(scenarios::NAME), scenarios::render()?);
    let chapters = Path::new(PAGES).join("workshop");
    let pages = workshop::render()?.into_iter();
    files.extend(pages.map(|(name, text)| (chapters.join(name), text)));
    Ok(files)
}

/// `cargo xtask book`: checks the book, and builds it. A warning is an error.
pub(crate) fn run(commands: &Commands) -> anyhow::Result<()> {
    check(commands)?;
    let mut build = Command::new(MDBOOK.program()?);
    let said = command::capture_all(build.args(["build", "docs"]).current_dir(paths::repository()))?;
    print!("{said}");
    ensure!(!said.contains("WARN"), "the book is built with warnings");
    print_numbers()
}

/// Tells how many of the book's commands are run, and how many have a mark instead.
fn print_numbers() -> anyhow::Result<()> {
    let mut pages = 0;
    let mut all = Counts::default();
    for path in files::below(&paths::repository().join(PAGES), "md")? {
        let of_page = page::counts(&files::read(&path)?);
        pages += usize::from(of_page != Counts::default());
        all.tested += of_page.tested;
        all.recorded += of_page.recorded;
        all.marked += of_page.marked;
    }
    println!(
        "{pages} pages with commands: {} blocks have a test, and the output of {} stands in the page; {} have a mark",
        all.tested, all.recorded, all.marked
    );
    Ok(())
}

/// Fails with all broken links, pages outside of the table of contents, and invalid objects and commands.
pub(crate) fn check(commands: &Commands) -> anyhow::Result<()> {
    let root = paths::repository();
    let (book, others) = pages()?;
    let mut problems = unlisted(&book)?;
    problems.extend(too_long(&files::read(&root.join(FRONT))?));
    problems.extend(too_large(&files::read(&root.join(MAP))?));
    let packages = Packages::read()?;
    let schemas = Schemas::new(definitions())?;
    let values = files::read(&root.join(VALUES))?;
    let values: Value =
        serde_yaml_ng::from_str(&values).with_context(|| format!("failed to read {VALUES}"))?;
    let sources = Sources::read()?;
    let mut examples = String::new();
    for path in LIBRARIES {
        examples += &pages::doc_comment(&files::read(&root.join(path))?);
    }
    for (path, page) in book.iter().chain(&others) {
        let in_book = book.contains_key(path);
        let mut found: Vec<String> = page
            .links
            .iter()
            .filter_map(|link| broken(root, path, in_book, link))
            .collect();
        for block in &page.blocks {
            found.extend(commands.wrong(&block.text)?);
            found.extend(wrong(block, &schemas, &values, &examples));
        }
        for (_, span) in &page.spans {
            found.extend(commands.wrong(span)?);
        }
        let name = path.to_string_lossy();
        found.extend(measured::stray(&name, &files::read(&root.join(path))?));
        found.extend(sources.missing(&name, &page.spans));
        found.extend(packages.missing(&page.spans));
        problems.extend(
            found
                .into_iter()
                .map(|problem| format!("{}: {problem}", path.display())),
        );
    }
    if problems.is_empty() {
        Ok(())
    } else {
        bail!("{}", problems.join("\n"))
    }
}

/// The tests that pages link to, as `path/of/file.rs::function`: what a page claims holds only while these pass.
pub(crate) fn tests() -> anyhow::Result<BTreeSet<String>> {
    let root = paths::repository();
    let (book, others) = pages()?;
    let mut tests = BTreeSet::new();
    for (path, page) in book.iter().chain(&others) {
        let linked = page
            .links
            .iter()
            .filter_map(|link| test(root, &target(root, path, link)?));
        tests.extend(linked);
    }
    Ok(tests)
}

/// The pages of the book, and those outside of it, by their paths within the repository.
fn pages() -> anyhow::Result<(BTreeMap<PathBuf, Page>, BTreeMap<PathBuf, Page>)> {
    let root = paths::repository();
    let mut book = BTreeMap::new();
    for path in files::below(&root.join(PAGES), "md")? {
        let name = path
            .strip_prefix(root)
            .context("a page outside of the repository")?
            .to_owned();
        book.insert(name, read_page(&path)?);
    }
    let mut others = BTreeMap::new();
    for path in OTHERS {
        others.insert(PathBuf::from(path), read_page(&root.join(path))?);
    }
    for path in files::below(&root.join(DESIGN), "md")? {
        let name = path
            .strip_prefix(root)
            .context("a page outside of the repository")?
            .to_owned();
        others.insert(name, read_page(&path)?);
    }
    Ok((book, others))
}

fn read_page(path: &Path) -> anyhow::Result<Page> {
    Ok(Page::read(&files::read(path)?))
}

/// Pages that the table of contents does not list. mdBook does not render them.
fn unlisted(book: &BTreeMap<PathBuf, Page>) -> anyhow::Result<Vec<String>> {
    let folder = Path::new(PAGES);
    let summary = book
        .get(&folder.join(SUMMARY))
        .context("the book has no table of contents")?;
    let listed: Vec<_> = summary.links.iter().map(|link| folder.join(link)).collect();
    let unlisted = book
        .keys()
        .filter(|path| !path.ends_with(SUMMARY) && !listed.contains(path));
    Ok(unlisted
        .map(|path| format!("{} is not in {SUMMARY}", path.display()))
        .collect())
}

/// Whether the first page has too many words.
fn too_long(front: &str) -> Option<String> {
    let words = front.split_whitespace().count();
    (words > FRONT_WORDS_MAX).then(|| format!("{FRONT} has {words} words, more than {FRONT_WORDS_MAX}"))
}

/// Whether the map of the code is too large.
fn too_large(map: &str) -> Option<String> {
    let bytes = map.len();
    (bytes > MAP_BYTES_MAX).then(|| format!("{MAP} has {bytes} bytes, more than {MAP_BYTES_MAX}"))
}

/// What a link leads to within the repository.
struct Target {
    /// As the link says it; it may not exist.
    file: PathBuf,
    /// A heading of a page, or a test in a source.
    anchor: Option<String>,
}

/// What a link on a page leads to, unless that is outside of the repository.
fn target(root: &Path, page: &Path, link: &str) -> Option<Target> {
    let (path, anchor) = link
        .split_once('#')
        .map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let file = if let Some(path) = path.strip_prefix(REPOSITORY) {
        root.join(path)
    } else if path.contains("://") || path.starts_with("mailto:") {
        return None;
    } else if path.is_empty() {
        root.join(page)
    } else {
        root.join(page).parent()?.join(path)
    };
    Some(Target {
        file,
        anchor: anchor.map(str::to_owned),
    })
}

/// The test that a link leads to: a function in a source.
fn test(root: &Path, target: &Target) -> Option<String> {
    let function = target.anchor.as_deref()?;
    let file = target.file.canonicalize().ok()?;
    let file = file.strip_prefix(root.canonicalize().ok()?).ok()?;
    let is_source = file.extension().is_some_and(|extension| extension == "rs");
    is_source.then(|| format!("{}::{function}", file.display()))
}

/// What is wrong with a link on a page, or with the address of a picture.
fn broken(root: &Path, page: &Path, in_book: bool, link: &str) -> Option<String> {
    let target = target(root, page, link)?;
    let Ok(file) = target.file.canonicalize() else {
        return Some(format!("{link} does not exist"));
    };
    let is_outside = root
        .join(PAGES)
        .canonicalize()
        .is_ok_and(|pages| !file.starts_with(pages));
    if in_book && is_outside && !link.starts_with(REPOSITORY) {
        return Some(format!(
            "{link} is not in the published book; link to {REPOSITORY}…"
        ));
    }
    if let Some(test) = test(root, &target) {
        let found = TestPrograms::of_workspace().and_then(|programs| find(programs, root, &test));
        return found.err().map(|error| format!("{link}: {error:#}"));
    }
    let anchor = target.anchor?;
    let known = read_page(&file).is_ok_and(|page| page.anchors.contains(&anchor));
    (!known).then(|| format!("{link}: there is no such heading"))
}

/// What is wrong with a code block.
fn wrong(block: &Block, schemas: &Schemas, values: &Value, examples: &str) -> Vec<String> {
    match block.language.as_str() {
        "yaml" => {
            let mut problems = Vec::new();
            for document in serde_yaml_ng::Deserializer::from_str(&block.text) {
                match Value::deserialize(document) {
                    Ok(object) => problems.extend(schemas.problems(&object)),
                    Err(error) => problems.push(error.to_string()),
                }
            }
            problems
                .into_iter()
                .map(|problem| format!("line {}: {problem}", block.line))
                .collect()
        }
        "sh" => {
            let set = pages::set_values(&block.text);
            let unknown = set.into_iter().filter(|path| !is_value(values, path));
            unknown
                .map(|path| format!("line {}: the chart has no value {path}", block.line))
                .collect()
        }
        "rust" if !examples.contains(&block.text) => {
            vec![format!(
                "line {}: the code is not an example in {}, so nothing compiles it",
                block.line,
                LIBRARIES.join(" or ")
            )]
        }
        _ => Vec::new(),
    }
}

/// Whether the chart has a value at this path. What is below an empty object or a list is up to the user.
fn is_value(values: &Value, path: &str) -> bool {
    let mut at = values;
    for key in path.split('.') {
        let key = key.split('[').next().unwrap_or_default();
        match at.get(key) {
            Some(Value::Array(_)) => return true,
            Some(Value::Object(parts)) if parts.is_empty() => return true,
            Some(value) => at = value,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_book_is_sound() {
        check(&Commands::of::<crate::Cli>()).expect("sound");
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let root = paths::repository();
        let broken = |link: &str| broken(root, Path::new("docs/src/introduction.md"), true, link);
        assert_eq!(broken("SUMMARY.md"), None);
        assert_eq!(broken("https://example.com/nowhere"), None);
        assert_eq!(
            broken(&format!("{REPOSITORY}ARCHITECTURE.md#birds-eye-view")),
            None
        );
        assert_eq!(broken("nowhere.md"), Some("nowhere.md does not exist".to_owned()));
        assert_eq!(
            broken("SUMMARY.md#nothing"),
            Some("SUMMARY.md#nothing: there is no such heading".to_owned())
        );
        let outside = broken("../../README.md").expect("not in the book");
        assert!(
            outside.starts_with("../../README.md is not in the published book"),
            "{outside}"
        );
    }

    #[test]
    fn a_link_to_a_function_in_a_source_leads_to_a_test() {
        let root = paths::repository();
        let file = "crates/dev/xtask/src/book/mod.rs";
        let broken = |link: &str| broken(root, Path::new(FRONT), false, link);
        assert_eq!(broken(&format!("{file}#the_book_is_sound")), None);
        assert_eq!(
            broken(&format!("{file}#check")),
            Some(format!("{file}#check: the function is not a test"))
        );
        assert_eq!(
            broken(&format!("{file}#gone")),
            Some(format!("{file}#gone: no such function"))
        );
        let of_the_book = target(
            root,
            Path::new("docs/src/introduction.md"),
            &format!("{REPOSITORY}{file}#a_test"),
        );
        let name = test(root, &of_the_book.expect("in the repository"));
        assert_eq!(name, Some(format!("{file}::a_test")));
    }

    #[test]
    fn a_picture_that_is_not_there_is_reported() {
        let page = Page::read("![A terminal](docs/src/demo.svg) and ![another](docs/src/nowhere.svg)");
        let root = paths::repository();
        let broken = page
            .links
            .iter()
            .filter_map(|link| broken(root, Path::new(FRONT), false, link));
        assert_eq!(
            broken.collect::<Vec<_>>(),
            ["docs/src/nowhere.svg does not exist"]
        );
    }

    #[test]
    fn the_readme_has_a_bound() {
        assert_eq!(too_long(&"word ".repeat(FRONT_WORDS_MAX)), None);
        let long = too_long(&"word\n".repeat(FRONT_WORDS_MAX + 1));
        assert_eq!(long.as_deref(), Some("README.md has 501 words, more than 500"));
    }

    #[test]
    fn the_map_has_a_bound() {
        assert_eq!(too_large(&"é".repeat(MAP_BYTES_MAX / 2)), None);
        let large = too_large(&"x".repeat(MAP_BYTES_MAX + 1));
        assert_eq!(
            large.as_deref(),
            Some("ARCHITECTURE.md has 15361 bytes, more than 15360")
        );
    }

    #[test]
    fn values_of_the_chart_are_known_by_their_path() {
        let values = json!({"a": {"b": 1, "list": [], "open": {}}});
        for (path, known) in [
            ("a.b", true),
            ("a.list[0].name", true),
            ("a.open.x", true),
            ("a.c", false),
            ("b", false),
        ] {
            assert_eq!(is_value(&values, path), known, "{path}");
        }
    }
}
