//! The floors of the workspace and of a crate, as text.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{
    circles::{Edge, circles, floors},
    tree::{Edges, Tree},
};

/// The most characters in a line.
const WIDTH: usize = 110;

/// The floors of crates. `uses` has the crates that each one uses, and `notes` more about a crate.
pub(super) fn of_workspace(
    uses: &BTreeMap<String, BTreeSet<String>>,
    notes: &BTreeMap<String, String>,
) -> String {
    let names: Vec<_> = uses.keys().collect();
    let position = |name: &String| names.binary_search(&name).ok();
    let edges: BTreeSet<Edge> = uses
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| (from, to)))
        .filter_map(|(from, to)| Some((position(from)?, position(to)?)))
        .collect();
    let name = |index: usize| {
        let name = names[index];
        notes
            .get(name)
            .map_or_else(|| name.clone(), |note| format!("{name} ({note})"))
    };
    draw(names.len(), &edges, &name)
}

/// The floors of a crate's files; and its circles with what each of their files uses in the others: the other file, the
/// number of paths, and the first of them with its line. Few paths are where to cut.
pub(super) fn of_crate(tree: &Tree, uses: &Edges) -> String {
    let name = |file: usize| tree.name(file).to_owned();
    let edges: BTreeSet<Edge> = uses.keys().copied().collect();
    let mut text = draw(tree.sources.len(), &edges, &name);
    for circle in circles(&edges) {
        let _ = writeln!(text, "\nA circle of {} files:", circle.len());
        for file in &circle {
            let _ = writeln!(text, "  {}", name(*file));
            let of_file = uses.range((*file, 0)..=(*file, usize::MAX));
            let mut inside: Vec<_> = of_file.filter(|((_, other), _)| circle.contains(other)).collect();
            inside.sort_by_key(|(_, mentions)| mentions.len());
            for ((_, other), mentions) in inside {
                let _ = write!(text, "    → {} ×{}", name(*other), mentions.len());
                if let Some(first) = mentions.first() {
                    let _ = write!(text, ", line {}: {}", first.line, first.path.join("::"));
                }
                text.push('\n');
            }
        }
    }
    text
}

/// The floors of a graph, the highest first. Brackets hold a circle together.
fn draw(nodes: usize, edges: &BTreeSet<Edge>, name: &dyn Fn(usize) -> String) -> String {
    let mut text = String::new();
    for (floor, groups) in floors(nodes, edges).iter().enumerate().rev() {
        let mut line = format!("{:>3}", floor + 1);
        for group in groups {
            let names: Vec<_> = group.iter().map(|node| name(*node)).collect();
            let last = names.len() - 1;
            for (index, name) in names.iter().enumerate() {
                let open = if last > 0 && index == 0 { "[" } else { "" };
                let close = if last > 0 && index == last { "]" } else { "" };
                let word = format!("{open}{name}{close}");
                if line.chars().count() + 2 + word.chars().count() > WIDTH {
                    let _ = writeln!(text, "{line}");
                    line = "   ".to_owned();
                }
                line += &format!("  {word}");
            }
        }
        let _ = writeln!(text, "{line}");
    }
    let inside: usize = circles(edges).iter().map(BTreeSet::len).sum();
    let _ = writeln!(
        text,
        "{nodes} nodes, {inside} of them in circles, {} arrows",
        edges.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_stand_above_what_they_use() {
        let uses = [
            ("cli", &["cloud", "engine"][..]),
            ("cloud", &["engine"]),
            ("engine", &[]),
            ("pki", &["tokio"]),
        ];
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let uses = uses
            .iter()
            .map(|(name, used)| ((*name).to_owned(), set(used)))
            .collect();
        let notes = BTreeMap::from([("cloud".to_owned(), "a circle of 24 files".to_owned())]);
        let expected = "  3  cli
  2  cloud (a circle of 24 files)
  1  engine  pki
4 nodes, 0 of them in circles, 3 arrows
";
        assert_eq!(of_workspace(&uses, &notes), expected);
    }

    #[test]
    fn the_files_of_a_circle_stand_together_and_show_the_fewest_paths_first() {
        let read = |path: &str| {
            let text = match path {
                "crates/a/src/lib.rs" => "mod b; mod c; mod d; mod e;\npub use b::V;",
                "crates/a/src/b.rs" => "use crate::d::X;\nuse crate::d::Y;\nuse crate::c::Z;",
                "crates/a/src/c.rs" => "fn f() {\n  crate::b::g()\n}",
                "crates/a/src/d.rs" => "use super::b::V;\nuse super::e::W;",
                "crates/a/src/e.rs" => "",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let tree = Tree::of("crates/a/src/lib.rs", &read).expect("a crate");
        let expected = "  3  lib.rs
  2  [b.rs  c.rs  d.rs]
  1  e.rs
5 nodes, 3 of them in circles, 6 arrows

A circle of 3 files:
  b.rs
    → c.rs ×1, line 3: crate::c::Z
    → d.rs ×2, line 1: crate::d::X
  c.rs
    → b.rs ×1, line 2: crate::b::g
  d.rs
    → b.rs ×1, line 1: super::b::V
";
        assert_eq!(of_crate(&tree, &tree.edges()), expected);
    }
}
