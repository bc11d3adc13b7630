//! The modules of a crate, and the files that their paths lead to.
//!
//! A path is followed through `pub use` and other imports to the file that defines its item. Names of one segment are
//! not followed: either an import names them, which is a path itself, or the file has them. A glob import would hide
//! that, and the lint `wildcard_imports` refuses those.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Expr, Item, ItemMod, ItemUse, Lit, Macro, Meta, UseTree, Visibility,
    visit::{self, Visit},
};

use super::{
    place::Place,
    source::{Source, has_documentation},
};

/// Reads a file of the repository; none if it does not exist.
pub(super) type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The modules of a crate without its tests.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) sources: Vec<Source>,
    pub(super) undocumented: Vec<Place>,
    modules: Vec<Module>,
}

/// The uses of one file in another one, by their positions in `Tree::sources`.
pub(super) type Edges = BTreeMap<(usize, usize), Vec<Mention>>;

/// A path in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
}

#[derive(Default)]
struct Module {
    source: usize,
    parent: Option<usize>,
    names: BTreeMap<String, Name>,
    /// The modules from which everything is imported.
    globs: Vec<Vec<String>>,
    mentions: Vec<Mention>,
}

/// What a name in a module means. An item and a module can have the same name; then they are nearly always in one file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Import(Vec<String>),
    Item,
    Module(usize),
}

/// What a path leads to.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item in a source.
    Item(usize),
}

impl Tree {
    /// The tree of the crate whose root is the file `root`.
    pub(super) fn of(root: &str, read: Read<'_>) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        let folder = folder(root).to_owned();
        tree.file(root, &folder, None, read)?;
        Ok(tree)
    }

    /// The uses of one file in another one.
    pub(super) fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (index, module) in self.modules.iter().enumerate() {
            for mention in &module.mentions {
                let Some(target) = self.resolve(index, &mention.path, &mut Vec::new()) else {
                    continue;
                };
                let source = self.source(target);
                if source != module.source {
                    edges
                        .entry((module.source, source))
                        .or_default()
                        .push(mention.clone());
                }
            }
        }
        edges
    }

    /// The path of a source in the crate.
    pub(super) fn name(&self, source: usize) -> &str {
        let path = self.sources[source].path.as_str();
        path.rsplit_once("/src/").map_or(path, |(_, name)| name)
    }

    /// Adds a file with the modules in it and below it, and returns its module; none for a test. `folder` has the files
    /// of its child modules.
    fn file(
        &mut self,
        path: &str,
        folder: &str,
        parent: Option<usize>,
        read: Read<'_>,
    ) -> anyhow::Result<Option<usize>> {
        let text = read(path).with_context(|| format!("failed to read {path}"))?;
        let mut source = Source::parse(path, text)?;
        if source.is_test() {
            return Ok(None);
        }
        let index = self.sources.len();
        let items = std::mem::take(&mut source.syntax.items);
        self.sources.push(source);
        let module = self.module(index, parent);
        self.items(module, folder, &items, read)?;
        self.sources[index].syntax.items = items;
        Ok(Some(module))
    }

    fn module(&mut self, source: usize, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            source,
            parent,
            ..Module::default()
        });
        self.modules.len() - 1
    }

    fn items(&mut self, module: usize, folder: &str, items: &[Item], read: Read<'_>) -> anyhow::Result<()> {
        for item in items {
            let defined = match item {
                Item::Mod(child) => {
                    if let Some(index) = self.child(module, folder, child, read)? {
                        self.define(module, child.ident.to_string(), Name::Module(index));
                    }
                    continue;
                }
                Item::Use(import) => {
                    self.import(module, import);
                    None
                }
                Item::Const(item) => Some(&item.ident),
                Item::Enum(item) => Some(&item.ident),
                Item::Fn(item) => Some(&item.sig.ident),
                Item::Macro(item) => item.ident.as_ref(),
                Item::Static(item) => Some(&item.ident),
                Item::Struct(item) => Some(&item.ident),
                Item::Trait(item) => Some(&item.ident),
                Item::TraitAlias(item) => Some(&item.ident),
                Item::Type(item) => Some(&item.ident),
                Item::Union(item) => Some(&item.ident),
                _ => None,
            };
            if let Some(name) = defined {
                self.define(module, name.to_string(), Name::Item);
            }
            let mut paths = Paths::default();
            paths.visit_item(item);
            self.modules[module].mentions.extend(paths.found);
        }
        Ok(())
    }

    fn define(&mut self, module: usize, name: String, meaning: Name) {
        let known = self.modules[module].names.get(&name);
        if known.is_none_or(|known| *known < meaning) {
            self.modules[module].names.insert(name, meaning);
        }
    }

    fn child(
        &mut self,
        module: usize,
        folder: &str,
        child: &ItemMod,
        read: Read<'_>,
    ) -> anyhow::Result<Option<usize>> {
        let name = child.ident.to_string();
        let below = format!("{folder}/{name}");
        let source = self.modules[module].source;
        let (index, is_documented) = match &child.content {
            Some((_, items)) => {
                let index = self.module(source, Some(module));
                self.items(index, &below, items, read)?;
                (Some(index), false)
            }
            None => {
                let path = &self.sources[source].path;
                let (file, below) = match at_path(&child.attrs) {
                    Some(at) => {
                        let file = join(self::folder(path), &at);
                        let folder = self::folder(&file).to_owned();
                        (file, folder)
                    }
                    None => {
                        let files = [format!("{below}.rs"), format!("{below}/mod.rs")];
                        let Some(file) = files.into_iter().find(|file| read(file).is_some()) else {
                            bail!("failed to find the file of the module {name} of {path}");
                        };
                        (file, below)
                    }
                };
                let index = self.file(&file, &below, Some(module), read)?;
                let source = index.map(|index| &self.sources[self.modules[index].source]);
                (
                    index,
                    source.is_none_or(|source| has_documentation(&source.syntax.attrs)),
                )
            }
        };
        let is_public = matches!(child.vis, Visibility::Public(_));
        if is_public && !is_documented && !has_documentation(&child.attrs) {
            let path = self.sources[source].path.clone();
            let line = child.ident.span().start().line;
            self.undocumented.push(Place {
                path,
                line,
                what: format!("mod {name}"),
            });
        }
        Ok(index)
    }

    fn import(&mut self, module: usize, import: &ItemUse) {
        if import.leading_colon.is_some() {
            return;
        }
        let mut leaves = Vec::new();
        leaves_of(&import.tree, &mut Vec::new(), &mut leaves);
        for Leaf { path, name, .. } in leaves {
            match name {
                Some(name) => self.define(module, name, Name::Import(path)),
                None => self.modules[module].globs.push(path),
            }
        }
    }

    /// What a path in a module leads to; none outside of the crate. `trail` has the imports that
    /// were followed so far.
    fn resolve(&self, from: usize, path: &[String], trail: &mut Vec<(usize, String)>) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(from),
            "super" => Target::Module(self.modules[from].parent?),
            name => self.look_up(from, name, trail)?,
        };
        for name in rest {
            let Target::Module(module) = target else { break };
            target = match name.as_str() {
                "self" => target,
                "super" => Target::Module(self.modules[module].parent?),
                // A macro made the item, or it comes from another crate.
                name => self
                    .look_up(module, name, trail)
                    .unwrap_or(Target::Item(self.modules[module].source)),
            };
        }
        Some(target)
    }

    fn look_up(&self, module: usize, name: &str, trail: &mut Vec<(usize, String)>) -> Option<Target> {
        let names = &self.modules[module].names;
        match names.get(name) {
            Some(Name::Module(index)) => return Some(Target::Module(*index)),
            Some(Name::Item) => return Some(Target::Item(self.modules[module].source)),
            Some(Name::Import(_)) | None => {}
        }
        let step = (module, name.to_owned());
        if trail.contains(&step) {
            return None;
        }
        trail.push(step);
        if let Some(Name::Import(path)) = names.get(name) {
            return self.resolve(module, path, trail);
        }
        self.modules[module]
            .globs
            .iter()
            .find_map(|glob| match self.resolve(module, glob, trail)? {
                Target::Module(other) => self.look_up(other, name, trail),
                Target::Item(_) => None,
            })
    }

    fn source(&self, target: Target) -> usize {
        match target {
            Target::Module(module) => self.modules[module].source,
            Target::Item(source) => source,
        }
    }
}

/// What an import imports.
struct Leaf {
    line: usize,
    path: Vec<String>,
    name: Option<String>,
}

fn leaves_of(tree: &UseTree, before: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    let mut leaf = |last: Option<&syn::Ident>, name: Option<&syn::Ident>, line: usize| {
        let path: Vec<_> = before
            .iter()
            .cloned()
            .chain(last.map(ToString::to_string))
            .collect();
        // `a::{self}` has the name `a`.
        let name = name.map(ToString::to_string).map(|name| match before.last() {
            Some(module) if name == "self" => module.clone(),
            _ => name,
        });
        leaves.push(Leaf { line, path, name });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves_of(&path.tree, before, leaves);
            before.pop();
        }
        UseTree::Name(name) => leaf(
            Some(&name.ident),
            Some(&name.ident),
            name.ident.span().start().line,
        ),
        UseTree::Rename(name) => leaf(
            Some(&name.ident),
            Some(&name.rename),
            name.ident.span().start().line,
        ),
        UseTree::Glob(glob) => leaf(None, None, glob.star_token.span.start().line),
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves_of(tree, before, leaves);
            }
        }
    }
}

/// The paths of several segments in an item, except those in a module of it.
#[derive(Default)]
struct Paths {
    found: Vec<Mention>,
}

impl Paths {
    /// The paths in tokens that are no syntax tree: the arguments of macros and attributes. With `in_texts`, also paths
    /// that are a whole text, as in `#[serde(with = "crate::duration")]`.
    fn tokens(&mut self, stream: TokenStream, in_texts: bool) {
        let tokens: Vec<_> = stream.into_iter().collect();
        let is = |at: usize, character: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == character);
        let is_join = |at: usize| is(at, ':') && is(at + 1, ':');
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let begin = at;
            at += 1;
            match token {
                TokenTree::Group(group) => {
                    self.tokens(group.stream(), in_texts);
                }
                TokenTree::Literal(literal) if in_texts => {
                    self.text(&Lit::new(literal.clone()));
                }
                TokenTree::Ident(first) => {
                    let mut path = vec![first.to_string()];
                    while let (true, Some(TokenTree::Ident(next))) = (is_join(at), tokens.get(at + 2)) {
                        path.push(next.to_string());
                        at += 3;
                    }
                    // `::name` is outside of the crate, and `$name` is whatever the caller says.
                    let is_elsewhere = begin >= 2 && is_join(begin - 2)
                        || begin >= 1 && is(begin - 1, '$') && first != "crate";
                    if path.len() > 1 && !is_elsewhere {
                        self.found.push(Mention {
                            line: first.span().start().line,
                            path,
                        });
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// The path that a text is.
    fn text(&mut self, literal: &Lit) {
        let Lit::Str(text) = literal else { return };
        let value = text.value();
        if let (true, Ok(path)) = (value.contains("::"), syn::parse_str::<syn::Path>(&value)) {
            self.path(&path, text.span().start().line);
        }
    }

    fn path(&mut self, path: &syn::Path, line: usize) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let path = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect();
            self.found.push(Mention { line, path });
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if import.leading_colon.is_none() {
            let mut leaves = Vec::new();
            leaves_of(&import.tree, &mut Vec::new(), &mut leaves);
            self.found.extend(
                leaves
                    .into_iter()
                    .map(|Leaf { line, path, .. }| Mention { line, path }),
            );
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let line = path
            .segments
            .first()
            .map_or(0, |first| first.ident.span().start().line);
        self.path(path, line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone(), false);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        match &attribute.meta {
            _ if attribute.path().is_ident("doc") => {}
            Meta::Path(_) => {}
            Meta::List(list) => self.tokens(list.tokens.clone(), true),
            Meta::NameValue(pair) => match &pair.value {
                Expr::Lit(value) => self.text(&value.lit),
                value => self.visit_expr(value),
            },
        }
    }

    /// `pub(in crate::a)` uses nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// The value of `#[path = "…"]`.
fn at_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(syn::ExprLit {
                lit: Lit::Str(path), ..
            }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

/// The folder of a file.
pub(super) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A relative path from a folder, without `..`.
pub(super) fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files that use another one, as `a.rs:2 b.rs a::b`: file and line, the other file, and the path.
    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        let tree = Tree::of("src/lib.rs", &|path| Some((*files.get(path)?).to_owned())).expect("a crate");
        let name = |source: usize| tree.sources[source].path.trim_start_matches("src/").to_owned();
        let mut uses = Vec::new();
        for ((from, to), mentions) in tree.edges() {
            uses.extend(mentions.iter().map(|mention| {
                format!(
                    "{}:{} {} {}",
                    name(from),
                    mention.line,
                    name(to),
                    mention.path.join("::")
                )
            }));
        }
        uses.sort();
        uses
    }

    /// Checks the uses in `a.rs`, beside `b.rs` and a folder `c` with `c/d.rs`.
    fn check(a: &str, expected: &[&str]) {
        let files = [
            (
                "src/lib.rs",
                "mod a;\nmod b;\nmod c;\npub use c::Deep as Renamed;\npub struct Top;",
            ),
            ("src/a.rs", a),
            (
                "src/b.rs",
                "pub struct Thing;\npub fn run() {}\npub use crate::c::Deep;\nmade!(Made);",
            ),
            (
                "src/c/mod.rs",
                "mod d;\npub use self::d::*;\npub mod e { pub fn inner() {} }",
            ),
            ("src/c/d.rs", "pub struct Deep;"),
        ];
        let found: Vec<_> = uses(&files)
            .into_iter()
            .filter(|line| line.starts_with("a.rs"))
            .collect();
        assert_eq!(found, expected, "{a}");
    }

    #[test]
    fn imports_lead_to_the_file_that_defines_the_item() {
        check("use crate::b::Thing;", &["a.rs:1 b.rs crate::b::Thing"]);
        check("use super::b::Thing;", &["a.rs:1 b.rs super::b::Thing"]);
        check("use crate::b;", &["a.rs:1 b.rs crate::b"]);
        check("use crate::b as other;", &["a.rs:1 b.rs crate::b"]);
        check(
            "use crate::b::{self, run};",
            &["a.rs:1 b.rs crate::b::run", "a.rs:1 b.rs crate::b::self"],
        );
        check(
            "use crate::{\n  b::run,\n  c::e::inner,\n};",
            &["a.rs:2 b.rs crate::b::run", "a.rs:3 c/mod.rs crate::c::e::inner"],
        );
        check("use crate::b::*;", &["a.rs:1 b.rs crate::b"]);
        check(
            "fn f() { use crate::b::run; run() }",
            &["a.rs:1 b.rs crate::b::run"],
        );
        check("use super::Top;", &["a.rs:1 lib.rs super::Top"]);
    }

    #[test]
    fn inline_paths_count_wherever_they_are() {
        for source in [
            "fn f() { crate::b::run() }",
            "fn f(thing: &crate::b::Thing) {}",
            "fn f() -> Vec<Option<crate::b::Thing>> {}",
            "struct A(crate::b::Thing);",
            "impl From<crate::b::Thing> for A {}",
            "fn f<T: crate::b::Thing>() {}",
            "fn f() { println!(\"{}\", crate::b::run()); }",
            "fn f() { vec![(1, [crate::b::run()])]; }",
            "macro_rules! m { () => { $crate::b::run() } }",
            "fn f() { crate::b::m!(); }",
            "#[derive(crate::b::Thing)] struct A;",
            "struct A { #[serde(default = \"crate::b::run\")] a: u8 }",
            "fn f() { match x { crate::b::Thing => {} _ => {} } }",
            "fn f() { <crate::b::Thing as Clone>::clone(&x); }",
            "mod inner { fn f() { super::super::b::run() } }",
            "mod inner { use super::super::b::run; }",
        ] {
            let found = uses(&[
                ("src/lib.rs", "mod a; mod b;"),
                ("src/a.rs", source),
                ("src/b.rs", "pub fn run() {} pub struct Thing;"),
            ]);
            assert!(
                matches!(found.as_slice(), [one] if one.starts_with("a.rs:1 b.rs ")),
                "{source}: {found:?}"
            );
        }
    }

    #[test]
    fn a_path_through_an_import_leads_to_what_was_imported() {
        check(
            "use crate::b;\nfn f() { b::run() }",
            &["a.rs:1 b.rs crate::b", "a.rs:2 b.rs b::run"],
        );
        check(
            "use crate::c as x;\nfn f() { x::e::inner() }",
            &["a.rs:1 c/mod.rs crate::c", "a.rs:2 c/mod.rs x::e::inner"],
        );
    }

    #[test]
    fn exports_are_followed_to_the_definition() {
        check("use crate::Renamed;", &["a.rs:1 c/d.rs crate::Renamed"]);
        check("use crate::b::Deep;", &["a.rs:1 c/d.rs crate::b::Deep"]);
        check("use crate::c::Deep;", &["a.rs:1 c/d.rs crate::c::Deep"]);
        check("use crate::b::Made;", &["a.rs:1 b.rs crate::b::Made"]);
        check(
            "use crate::b::Thing::Variant;",
            &["a.rs:1 b.rs crate::b::Thing::Variant"],
        );
    }

    #[test]
    fn what_is_no_use_of_another_file_does_not_count() {
        for source in [
            "use std::fmt;\nfn f() { fmt::format(x); std::mem::take(x) }",
            "use b::Thing;",
            "use ::b::Thing;\nfn f() { ::b::run() }",
            "pub(in crate::b) fn f() {}",
            "/// See [`crate::b::run`].\nfn f() {}",
            "fn f() { \"crate::b::run\" }",
            "#[cfg(test)]\nmod tests { use crate::b::run; }",
            "#[cfg(test)]\nuse crate::b::run;",
            "#[test]\nfn f() { crate::b::run() }",
            "impl A { #[cfg(test)] fn f() { crate::b::run() } }",
            "fn f() { self::g(); Self::run(); x.b::<u8>() }\nfn g() {}",
            "macro_rules! m { ($b:ident) => { $b::run() } }",
            "use self::b;",
            "use serde;\nuse serde::b;",
        ] {
            check(source, &[]);
        }
    }

    #[test]
    fn a_child_that_uses_its_parent_and_a_parent_that_exports_it_use_each_other() {
        let found = uses(&[
            ("src/lib.rs", "pub mod a;"),
            ("src/a/mod.rs", "mod b;\npub use b::Thing;\npub struct Error;"),
            ("src/a/b.rs", "use super::Error;\npub struct Thing;"),
        ]);
        assert_eq!(
            found,
            ["a/b.rs:1 a/mod.rs super::Error", "a/mod.rs:2 a/b.rs b::Thing"]
        );
    }

    #[test]
    fn a_module_can_be_a_file_a_folder_or_at_a_path() {
        let found = uses(&[
            (
                "src/lib.rs",
                "mod a;\n#[path = \"other/place.rs\"]\nmod b;\nmod c { mod d; }",
            ),
            ("src/a.rs", "mod e;"),
            ("src/a/e.rs", "use crate::b::x;"),
            ("src/other/place.rs", "mod f;"),
            ("src/other/f.rs", "use crate::a::x;"),
            ("src/c/d.rs", "use super::super::a;"),
        ]);
        assert_eq!(
            found,
            [
                "a/e.rs:1 other/place.rs crate::b::x",
                "c/d.rs:1 a.rs super::super::a",
                "other/f.rs:1 a.rs crate::a::x",
            ]
        );
    }

    #[test]
    fn a_file_of_tests_is_not_read() {
        let found = uses(&[
            ("src/lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod tests;"),
            ("src/a.rs", ""),
            ("src/b.rs", "#![cfg(test)]\nuse crate::a::x;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn imports_of_each_other_and_of_everything_end() {
        let found = uses(&[
            ("src/lib.rs", "mod a;\nmod b;\nuse a::x;\nuse a::y;"),
            ("src/a.rs", "pub use crate::b::*;\npub use crate::b::x;"),
            ("src/b.rs", "pub use crate::a::*;\npub use crate::a::x;"),
        ]);
        // Nothing defines `x`.
        assert_eq!(
            found,
            [
                "a.rs:1 b.rs crate::b",
                "a.rs:2 b.rs crate::b::x",
                "b.rs:1 a.rs crate::a",
                "b.rs:2 a.rs crate::a::x",
                "lib.rs:3 a.rs a::x",
                "lib.rs:4 a.rs a::y",
            ]
        );
    }

    #[test]
    fn public_modules_have_documentation_before_them_or_in_their_file() {
        let files = BTreeMap::from([
            (
                "src/lib.rs",
                "pub mod a;\npub mod b;\nmod c;\n/// D.\npub mod d;\npub mod e { //! E.\n}\npub mod f {}",
            ),
            ("src/a.rs", ""),
            ("src/b.rs", "//! B."),
            ("src/c.rs", ""),
            ("src/d.rs", ""),
        ]);
        let tree = Tree::of("src/lib.rs", &|path| Some((*files.get(path)?).to_owned())).expect("a crate");
        let found = |line, name: &str| Place {
            path: "src/lib.rs".to_owned(),
            line,
            what: format!("mod {name}"),
        };
        assert_eq!(tree.undocumented, [found(1, "a"), found(8, "f")]);
    }
}
