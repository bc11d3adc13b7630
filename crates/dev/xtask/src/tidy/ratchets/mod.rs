//! Ratchets: counts of what the code should not have, in `numbers.yaml`. They may only fall.

mod circles;
mod picture;
mod place;
mod places;
mod source;
mod tree;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use anyhow::{Context, bail};
use serde::Deserialize;

use self::{
    circles::{Edge, circles},
    place::{Place, Rule},
    tree::{Edges, Read, Tree, folder, join},
};
use super::tracked::{files, read};
use crate::{command::capture, metadata, paths};

/// The file with the numbers.
const NUMBERS: &str = "crates/dev/xtask/src/tidy/ratchets/numbers.yaml";
/// The most places in a message.
const PLACES_MAX: usize = 40;

/// The numbers. What is not there is 0.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbers {
    rules: BTreeMap<Rule, usize>,
    /// The files in the largest circle, by crate.
    circles: BTreeMap<String, usize>,
}

/// A number, by its place in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Rule(Rule),
    Circle(String),
}

/// A number that is not what was recorded.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    key: Key,
    recorded: usize,
    found: usize,
}

impl Numbers {
    fn flat(&self) -> BTreeMap<Key, usize> {
        let rules = self
            .rules
            .iter()
            .map(|(rule, number)| (Key::Rule(*rule), *number));
        let circles = self
            .circles
            .iter()
            .map(|(krate, number)| (Key::Circle(krate.clone()), *number));
        rules.chain(circles).collect()
    }

    fn differences(&self, found: &Self) -> Vec<Difference> {
        let recorded = self.flat();
        let found = found.flat();
        let keys: BTreeSet<_> = recorded.keys().chain(found.keys()).collect();
        let number =
            |numbers: &BTreeMap<Key, usize>, key: &Key| numbers.get(key).copied().unwrap_or_default();
        keys.into_iter()
            .map(|key| Difference {
                key: key.clone(),
                recorded: number(&recorded, key),
                found: number(&found, key),
            })
            .filter(|difference| difference.recorded != difference.found)
            .collect()
    }
}

/// The sources at one time.
#[derive(Default)]
struct Code {
    places: Vec<(Rule, Place)>,
    /// The libraries and programs, with the names of their crates.
    trees: Vec<(String, Tree, Edges)>,
}

impl Code {
    /// Looks at those of `files` that `read` has.
    fn look(files: &[String], read: Read<'_>) -> anyhow::Result<Self> {
        let mut code = Self::default();
        let manifests: Vec<_> = files
            .iter()
            .filter_map(|path| path.strip_suffix("/Cargo.toml"))
            .collect();
        for path in files.iter().filter(|path| path.ends_with(".rs")) {
            let Some(text) = read(path) else { continue };
            // The nearest one.
            let krate = manifests
                .iter()
                .filter(|krate| path.starts_with(&format!("{krate}/")))
                .max_by_key(|krate| krate.len());
            let Some(krate) = krate else { continue };
            let foreign = foreign_paths(krate, path, &text);
            code.places
                .extend(foreign.into_iter().map(|place| (Rule::ForeignPaths, place)));
            let is_test_root = is_root_of_tests(&path[krate.len()..]);
            if is_test_root && !text.lines().any(|line| line.starts_with("//!")) {
                let place = Place {
                    path: path.clone(),
                    line: 1,
                    what: "the crate".to_owned(),
                };
                code.places.push((Rule::Undocumented, place));
            }
            let is_ours = krate.starts_with("crates/") || ["e2e", paths::LIBRARY].contains(krate);
            if is_ours && places::is_root(path) {
                let tree = Tree::of(path, read)?;
                code.places.extend(tree.sources.iter().flat_map(places::find));
                let modules = tree.undocumented.iter().cloned();
                code.places
                    .extend(modules.map(|place| (Rule::Undocumented, place)));
                let edges = tree.edges();
                let name = if *krate == paths::LIBRARY {
                    "nepheletest"
                } else {
                    krate
                };
                let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
                code.trees.push((name.to_owned(), tree, edges));
            }
        }
        Ok(code)
    }

    fn numbers(&self) -> Numbers {
        let mut numbers = Numbers::default();
        for (rule, _) in &self.places {
            *numbers.rules.entry(*rule).or_default() += 1;
        }
        for (krate, _, edges) in &self.trees {
            if let Some(circle) = largest_circle(edges) {
                let number = numbers.circles.entry(krate.clone()).or_default();
                *number = circle.len().max(*number);
            }
        }
        numbers
    }

    /// What a number counts; for a circle, the uses between its files.
    fn places(&self, key: &Key) -> Vec<Place> {
        match key {
            Key::Rule(rule) => self.of_rule(*rule),
            Key::Circle(krate) => self.uses(krate, edges_in_circle),
        }
    }

    /// What is not new to a number; for a circle, all uses in the crate, because a new one brings files into the circle.
    fn known(&self, key: &Key) -> Vec<Place> {
        match key {
            Key::Rule(rule) => self.of_rule(*rule),
            Key::Circle(krate) => self.uses(krate, |edges| edges.keys().copied().collect()),
        }
    }

    fn of_rule(&self, rule: Rule) -> Vec<Place> {
        let places = self.places.iter().filter(|(other, _)| *other == rule);
        places.map(|(_, place)| place.clone()).collect()
    }

    /// The first of the uses of one file in another one of a crate, for the edges that `which` selects.
    fn uses(&self, krate: &str, which: fn(&Edges) -> BTreeSet<Edge>) -> Vec<Place> {
        let mut uses = Vec::new();
        for (_, tree, edges) in self.trees.iter().filter(|(name, ..)| name == krate) {
            let selected = which(edges);
            for ((from, to), mentions) in edges.iter().filter(|(edge, _)| selected.contains(*edge)) {
                let path = tree.sources[*from].path.clone();
                let what = format!("uses {}", tree.sources[*to].path);
                uses.extend(mentions.first().map(|first| Place {
                    path,
                    line: first.line,
                    what,
                }));
            }
        }
        uses
    }
}

fn largest_circle(edges: &Edges) -> Option<BTreeSet<usize>> {
    circles(&edges.keys().copied().collect()).into_iter().next()
}

/// The edges between files of the largest circle.
fn edges_in_circle(edges: &Edges) -> BTreeSet<Edge> {
    let circle = largest_circle(edges).unwrap_or_default();
    edges
        .keys()
        .copied()
        .filter(|(from, to)| circle.contains(from) && circle.contains(to))
        .collect()
}

/// Fails if a number is not the one that was recorded.
pub(super) fn check() -> anyhow::Result<()> {
    let numbers: Numbers =
        serde_yaml_ng::from_str(&read(NUMBERS)?).with_context(|| format!("failed to parse {NUMBERS}"))?;
    let files = files()?;
    let code = Code::look(&files, &on_disk)?;
    let differences = numbers.differences(&code.numbers());
    let has_risen = differences
        .iter()
        .any(|difference| difference.found > difference.recorded);
    // A history that does not have the change says nothing about what is new.
    let before = if has_risen { before(&files).ok() } else { None };
    let messages: Vec<_> = differences
        .iter()
        .map(|difference| {
            let places = code.places(&difference.key);
            let old = before.as_ref().map(|before| before.known(&difference.key));
            message(difference, &places, old.as_deref())
        })
        .collect();
    if messages.is_empty() {
        Ok(())
    } else {
        bail!("\n{}", messages.join("\n"))
    }
}

/// The floors of the workspace, or of one crate with what to cut in its circles.
pub(super) fn picture(krate: Option<&str>) -> anyhow::Result<String> {
    let code = Code::look(&files()?, &on_disk)?;
    let Some(krate) = krate else {
        let circles = code.numbers().circles.into_iter();
        let notes = circles
            .map(|(krate, files)| (krate, format!("a circle of {files} files")))
            .collect();
        return Ok(picture::of_workspace(&uses_of_crates()?, &notes));
    };
    let trees = code.trees.iter().filter(|(name, ..)| name == krate);
    let pictures: Vec<_> = trees
        .map(|(_, tree, edges)| picture::of_crate(tree, edges))
        .collect();
    if pictures.is_empty() {
        let names: BTreeSet<_> = code.trees.iter().map(|(name, ..)| name.as_str()).collect();
        bail!(
            "there is no crate {krate}; there are {}",
            names.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(pictures.join("\n"))
}

/// The crates of the workspace by the names of their folders, with those that each one uses outside of tests.
fn uses_of_crates() -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let folder = |name: &str| name.trim_start_matches("nephele-").to_owned();
    let uses = metadata::packages()?.into_iter().map(|package| {
        let used = package
            .dependencies
            .into_iter()
            .filter(|used| used.kind.is_none());
        (
            folder(&package.name),
            used.map(|used| folder(&used.name)).collect(),
        )
    });
    Ok(uses.collect())
}

/// The code when a number was changed last.
fn before(files: &[String]) -> anyhow::Result<Code> {
    let git = |args: &[&str]| capture(Command::new("git").args(args).current_dir(paths::repository()));
    let commit = git(&["log", "-1", "--format=%H", "--", NUMBERS])?;
    let commit = commit.trim();
    if commit.is_empty() {
        bail!("{NUMBERS} is not committed yet");
    }
    let changed =
        git(&["diff", "--name-only", commit])? + &git(&["ls-files", "--others", "--exclude-standard"])?;
    let changed: BTreeSet<_> = changed.lines().collect();
    let files: BTreeSet<_> = files
        .iter()
        .map(String::as_str)
        .chain(changed.iter().copied())
        .collect();
    let files: Vec<_> = files.into_iter().map(str::to_owned).collect();
    Code::look(&files, &|path| {
        if changed.contains(path) {
            git(&["show", &format!("{commit}:{path}")]).ok()
        } else {
            on_disk(path)
        }
    })
}

fn on_disk(path: &str) -> Option<String> {
    fs::read_to_string(paths::repository().join(path)).ok()
}

/// What to do about a number. `old` has the places that it counted when it was recorded, if that is known.
fn message(difference: &Difference, places: &[Place], old: Option<&[Place]>) -> String {
    let Difference { key, recorded, found } = difference;
    let (name, line) = match key {
        Key::Rule(rule) => (rule.name().to_owned(), format!("{}: {found}", rule.name())),
        Key::Circle(krate) => (format!("circles of {krate}"), format!("{krate}: {found}")),
    };
    if found < recorded {
        return match (key, found) {
            (Key::Circle(krate), 0) => {
                format!("{name}: none is left: delete `{krate}: {recorded}` in {NUMBERS}")
            }
            _ => format!("{name}: {found} of {recorded} are left: write `{line}` in {NUMBERS}"),
        };
    }
    let new = old.map(|old| new(places, old)).unwrap_or_default();
    let (list, are) = if new.is_empty() {
        (places.to_vec(), "all")
    } else {
        (new, "new")
    };
    let mut message = format!("{name}: {found}, but at most {recorded} may be; {are} are");
    for place in list.iter().take(PLACES_MAX) {
        message += &format!("\n  {}:{}: {}", place.path, place.line, place.what);
    }
    if list.len() > PLACES_MAX {
        message += &format!("\n  and {} more", list.len() - PLACES_MAX);
    }
    message
}

/// The places that were not there, wherever in their file they are now.
fn new(places: &[Place], old: &[Place]) -> Vec<Place> {
    let mut known: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for place in old {
        *known.entry((&place.path, &place.what)).or_default() += 1;
    }
    let mut new = Vec::new();
    for place in places {
        match known.get_mut(&(place.path.as_str(), place.what.as_str())) {
            Some(left) if *left > 0 => *left -= 1,
            _ => new.push(place.clone()),
        }
    }
    new
}

/// `#[path]` to files outside of a crate's folder.
fn foreign_paths(krate: &str, path: &str, text: &str) -> Vec<Place> {
    let paths = text.lines().zip(1..).filter_map(|(line, number)| {
        let (to, _) = line.trim().strip_prefix("#[path = \"")?.split_once('"')?;
        Some((number, to))
    });
    let foreign = paths.filter(|(_, to)| !join(folder(path), to).starts_with(&format!("{krate}/")));
    foreign
        .map(|(line, to)| Place {
            path: path.to_owned(),
            line,
            what: to.to_owned(),
        })
        .collect()
}

/// Whether a file of a crate is the root of tests, benchmarks or an example.
fn is_root_of_tests(path: &str) -> bool {
    let folder = ["/tests/", "/benches/", "/examples/"]
        .iter()
        .find_map(|folder| path.strip_prefix(folder));
    folder.is_some_and(|file| {
        !file.contains('/') || file.matches('/').count() == 1 && file.ends_with("/main.rs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(rules: &[(Rule, usize)], circles: &[(&str, usize)]) -> Numbers {
        Numbers {
            rules: rules.iter().copied().collect(),
            circles: circles
                .iter()
                .map(|(krate, number)| ((*krate).to_owned(), *number))
                .collect(),
        }
    }

    fn place(path: &str, line: usize, what: &str) -> Place {
        Place {
            path: path.to_owned(),
            line,
            what: what.to_owned(),
        }
    }

    #[test]
    fn a_number_that_rises_or_falls_is_a_difference() {
        let recorded = numbers(
            &[(Rule::TupleLets, 2), (Rule::FetchWrites, 1)],
            &[("cloud", 24), ("infra", 8)],
        );
        let found = numbers(
            &[(Rule::TupleLets, 3)],
            &[("cloud", 23), ("infra", 8), ("controller", 2)],
        );
        let difference = |key: Key, recorded, found| Difference { key, recorded, found };
        assert_eq!(recorded.differences(&recorded), []);
        assert_eq!(
            recorded.differences(&found),
            [
                difference(Key::Rule(Rule::FetchWrites), 1, 0),
                difference(Key::Rule(Rule::TupleLets), 2, 3),
                difference(Key::Circle("cloud".to_owned()), 24, 23),
                difference(Key::Circle("controller".to_owned()), 0, 2),
            ]
        );
    }

    #[test]
    fn the_file_has_the_numbers_by_these_names() {
        let text = "rules: {long-functions: 1, fetch-writes: 2, foreign-paths: 3, tuple-lets: 4, short-field-comments: 5, undocumented: 6}\ncircles: {cloud: 7}";
        let parsed: Numbers = serde_yaml_ng::from_str(text).expect("numbers");
        let rules = [
            Rule::LongFunctions,
            Rule::FetchWrites,
            Rule::ForeignPaths,
            Rule::TupleLets,
            Rule::ShortFieldComments,
            Rule::Undocumented,
        ];
        let expected: Vec<_> = rules.into_iter().zip(1..).collect();
        assert_eq!(parsed, numbers(&expected, &[("cloud", 7)]));
        for rule in rules {
            assert!(text.contains(&format!("{}: ", rule.name())), "{rule:?}");
        }
        assert!(serde_yaml_ng::from_str::<Numbers>("rules: {others: 1}\ncircles: {}").is_err());
    }

    #[test]
    fn a_message_names_what_is_new_or_what_to_write() {
        let rule = |recorded, found| Difference {
            key: Key::Rule(Rule::TupleLets),
            recorded,
            found,
        };
        let circle = |recorded, found| Difference {
            key: Key::Circle("controller".to_owned()),
            recorded,
            found,
        };
        let old = [place("a.rs", 1, "x"), place("a.rs", 2, "y")];
        // Lines move, and the same text can be there twice.
        let now = [
            place("a.rs", 4, "x"),
            place("a.rs", 5, "x"),
            place("a.rs", 9, "y"),
            place("b.rs", 1, "y"),
        ];
        for (difference, old, expected) in [
            (
                rule(2, 4),
                Some(&old[..]),
                "tuple-lets: 4, but at most 2 may be; new are\n  a.rs:5: x\n  b.rs:1: y".to_owned(),
            ),
            (
                rule(2, 4),
                None,
                "tuple-lets: 4, but at most 2 may be; all are\n  a.rs:4: x\n  a.rs:5: x\n  a.rs:9: y\n  b.rs:1: y".to_owned(),
            ),
            (rule(5, 4), None, format!("tuple-lets: 4 of 5 are left: write `tuple-lets: 4` in {NUMBERS}")),
            (circle(5, 4), None, format!("circles of controller: 4 of 5 are left: write `controller: 4` in {NUMBERS}")),
            (circle(5, 0), None, format!("circles of controller: none is left: delete `controller: 5` in {NUMBERS}")),
        ] {
            assert_eq!(message(&difference, &now, old), expected);
        }
        let all = message(&rule(2, 4), &now, Some(&now));
        assert!(
            all.starts_with("tuple-lets: 4, but at most 2 may be; all are\n  a.rs:4: x\n"),
            "{all}"
        );
        let many: Vec<_> = (1..=PLACES_MAX + 2)
            .map(|line| place("a.rs", line, "x"))
            .collect();
        assert!(message(&rule(2, 42), &many, None).ends_with("  a.rs:40: x\n  and 2 more"));
    }

    #[test]
    fn a_path_out_of_the_crate_is_foreign() {
        for (path, to, is_foreign) in [
            ("crates/a/src/main.rs", "../../b/src/c.rs", true),
            ("crates/a/src/main.rs", "../tests/c.rs", false),
            ("crates/a/tests/x/main.rs", "../../src/c.rs", false),
            ("crates/a/tests/x/main.rs", "../../../a2/src/c.rs", true),
            ("crates/a/src/main.rs", "c.rs", false),
        ] {
            let found = foreign_paths(
                "crates/a",
                path,
                &format!("//! A.\n    #[path = \"{to}\"]\nmod c;"),
            );
            let expected = Place {
                path: path.to_owned(),
                line: 2,
                what: to.to_owned(),
            };
            assert_eq!(
                found,
                is_foreign.then_some(expected).into_iter().collect::<Vec<_>>(),
                "{path} {to}"
            );
        }
    }

    #[test]
    fn a_workspace_is_counted() {
        let files = BTreeMap::from([
            ("crates/a/Cargo.toml", ""),
            (
                "crates/a/src/lib.rs",
                "//! A.\nmod b;\nmod c;\nuse c::f;\n#[cfg(test)]\nmod tests;",
            ),
            (
                "crates/a/src/b.rs",
                "use crate::c::x;\nfn f() { let (a, b) = (1, 2); }",
            ),
            ("crates/a/src/c.rs", "use crate::b::x;\npub fn f() {}"),
            ("crates/a/src/tests.rs", "pub fn f() { let (a, b) = (1, 2); }"),
            ("crates/a/tests/one.rs", "//! One."),
            ("crates/a/tests/two/main.rs", "mod three;"),
            ("crates/a/tests/two/three.rs", ""),
            ("e2e/Cargo.toml", ""),
            (
                "e2e/src/main.rs",
                "//! E.\n#[path = \"../../../crates/a/src/b.rs\"]\nmod b;",
            ),
            ("crates/a/src/gone.rs", "let"),
        ]);
        let names: Vec<_> = files.keys().map(|path| (*path).to_owned()).collect();
        let code = Code::look(&names, &|path| files.get(path).map(|text| (*text).to_owned())).expect("code");
        // The file of two crates counts in both.
        let rules = [
            (Rule::ForeignPaths, 1),
            (Rule::TupleLets, 2),
            (Rule::Undocumented, 2),
        ];
        assert_eq!(code.numbers(), numbers(&rules, &[("a", 2)]));
        let uses = |places: Vec<Place>| -> Vec<_> {
            places
                .into_iter()
                .map(|place| format!("{} {}", place.path, place.what))
                .collect()
        };
        let circle = [
            "crates/a/src/b.rs uses crates/a/src/c.rs",
            "crates/a/src/c.rs uses crates/a/src/b.rs",
        ];
        let key = Key::Circle("a".to_owned());
        assert_eq!(uses(code.places(&key)), circle);
        assert_eq!(
            uses(code.known(&key)),
            [&["crates/a/src/lib.rs uses crates/a/src/c.rs"][..], &circle].concat()
        );
    }
}
