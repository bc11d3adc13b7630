//! Places in one source that a rule forbids.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    Attribute, Block, Expr, ExprCall, ExprLit, ExprMethodCall, Fields, ImplItem, Item, ItemEnum, ItemFn,
    ItemImpl, ItemStruct, ItemTrait, Lit, Local, Meta, Pat, TraitItem, TraitItemFn, Visibility,
    visit::{self, Visit},
};

use super::{
    place::{Place, Rule},
    source::{Source, attributes, has_documentation},
};

/// The most lines of code in a function.
const LINES_MAX: usize = 80;
/// A comment of a field with at most so many words says nothing that its name does not.
const WORDS_MAX: usize = 4;
/// Types whose comments are more than comments: the help of a flag, or the description in a schema.
const SHOWN: [&str; 6] = [
    "Args",
    "CustomResource",
    "JsonSchema",
    "Parser",
    "Subcommand",
    "ValueEnum",
];
/// Functions that change something outside of the function, and have no place in a `fetch.rs`: a step that reads.
const WRITES: [&str; 14] = [
    "add_finalizer",
    "apply",
    "create",
    "delete",
    "note",
    "patch",
    "patch_status",
    "publish",
    "put",
    "record",
    "release",
    "reserve",
    "tell",
    "tell_all",
];
/// Calls of these names that read, with their file. A SubjectAccessReview is created to ask; the API server does not keep it.
const READS: [(&str, &str); 1] = [("crates/cli/cli/src/doctor/fetch.rs", "create")];

/// The places in a source, in the order of its lines for each rule.
pub(super) fn find(source: &Source) -> Vec<(Rule, Place)> {
    let mut places = Places {
        source,
        is_fetch: source.path.ends_with("/fetch.rs"),
        in_trait: false,
        found: Vec::new(),
    };
    if is_root(&source.path) && !has_documentation(&source.syntax.attrs) {
        places.add(Rule::Undocumented, 1, "the crate".to_owned());
    }
    places.visit_file(&source.syntax);
    places.found
}

/// Whether a file is the root of a crate.
pub(super) fn is_root(path: &str) -> bool {
    ["/src/lib.rs", "/src/main.rs"]
        .iter()
        .any(|end| path.ends_with(end))
        || path.contains("/src/bin/")
}

struct Places<'a> {
    source: &'a Source,
    is_fetch: bool,
    /// Whether a public trait is being looked at.
    in_trait: bool,
    found: Vec<(Rule, Place)>,
}

impl Places<'_> {
    fn add(&mut self, rule: Rule, line: usize, what: String) {
        self.found.push((
            rule,
            Place {
                path: self.source.path.clone(),
                line,
                what,
            },
        ));
    }

    fn function(&mut self, name: &syn::Ident, block: &Block) {
        let open = block.brace_token.span.open().byte_range().end;
        let close = block.brace_token.span.close().byte_range().start;
        if lines_of_code(self.source.text.get(open..close).unwrap_or_default()) > LINES_MAX {
            self.add(Rule::LongFunctions, line(name.span()), format!("fn {name}"));
        }
    }

    fn public(&mut self, visibility: &Visibility, attributes: &[Attribute], kind: &str, name: &syn::Ident) {
        if matches!(visibility, Visibility::Public(_)) {
            self.documented(attributes, kind, name);
        }
    }

    fn documented(&mut self, attributes: &[Attribute], kind: &str, name: &syn::Ident) {
        if !has_documentation(attributes) {
            self.add(Rule::Undocumented, line(name.span()), format!("{kind} {name}"));
        }
    }

    fn fields(&mut self, of: &str, fields: &Fields) {
        for (index, field) in fields.iter().enumerate() {
            let text = documentation(&field.attrs);
            let words: Vec<_> = text.split_whitespace().collect();
            if (1..=WORDS_MAX).contains(&words.len()) {
                let name = field
                    .ident
                    .as_ref()
                    .map_or_else(|| index.to_string(), ToString::to_string);
                let first = field
                    .attrs
                    .iter()
                    .find(|attribute| attribute.path().is_ident("doc"));
                let at = first.map_or(0, |first| line(first.pound_token.span));
                self.add(
                    Rule::ShortFieldComments,
                    at,
                    format!("{of}.{name}: {}", words.join(" ")),
                );
            }
        }
    }

    fn call(&mut self, name: &syn::Ident) {
        let is_read = READS
            .iter()
            .any(|(path, read)| self.source.path == *path && name == read);
        if self.is_fetch && !is_read && WRITES.iter().any(|write| name == write) {
            self.add(Rule::FetchWrites, line(name.span()), name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Places<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = attributes(item);
        match item {
            Item::Const(item) => self.public(&item.vis, attributes, "const", &item.ident),
            Item::Enum(item) => self.public(&item.vis, attributes, "enum", &item.ident),
            Item::Fn(item) => self.public(&item.vis, attributes, "fn", &item.sig.ident),
            Item::Static(item) => self.public(&item.vis, attributes, "static", &item.ident),
            Item::Struct(item) => self.public(&item.vis, attributes, "struct", &item.ident),
            Item::Trait(item) => self.public(&item.vis, attributes, "trait", &item.ident),
            Item::Type(item) => self.public(&item.vis, attributes, "type", &item.ident),
            Item::Union(item) => self.public(&item.vis, attributes, "union", &item.ident),
            Item::Macro(item) => {
                let is_public = attributes
                    .iter()
                    .any(|attribute| attribute.path().is_ident("macro_export"));
                if let (true, Some(name)) = (is_public, &item.ident) {
                    self.documented(attributes, "macro", name);
                }
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig.ident, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        for item in item.items.iter().filter(|_| item.trait_.is_none()) {
            match item {
                ImplItem::Const(item) => self.public(&item.vis, &item.attrs, "const", &item.ident),
                ImplItem::Fn(item) => self.public(&item.vis, &item.attrs, "fn", &item.sig.ident),
                ImplItem::Type(item) => self.public(&item.vis, &item.attrs, "type", &item.ident),
                _ => {}
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig.ident, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let before = std::mem::replace(&mut self.in_trait, matches!(item.vis, Visibility::Public(_)));
        visit::visit_item_trait(self, item);
        self.in_trait = before;
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if self.in_trait {
            match item {
                TraitItem::Const(item) => self.documented(&item.attrs, "const", &item.ident),
                TraitItem::Fn(item) => self.documented(&item.attrs, "fn", &item.sig.ident),
                TraitItem::Type(item) => self.documented(&item.attrs, "type", &item.ident),
                _ => {}
            }
        }
        visit::visit_trait_item(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig.ident, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        if !is_shown(&item.attrs) {
            self.fields(&item.ident.to_string(), &item.fields);
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        for variant in item.variants.iter().filter(|_| !is_shown(&item.attrs)) {
            self.fields(&format!("{}::{}", item.ident, variant.ident), &variant.fields);
        }
        visit::visit_item_enum(self, item);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let pattern = match &local.pat {
            Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        // With `else`, it decides by several values at once.
        let init = local.init.as_ref().filter(|init| init.diverge.is_none());
        let value = init.map(|init| &*init.expr);
        if let (Pat::Tuple(_), Some(Expr::Tuple(_))) = (pattern, value) {
            let at = line(local.let_token.span);
            let text = self.source.text.lines().nth(at - 1).unwrap_or_default();
            self.add(Rule::TupleLets, at, text.trim().to_owned());
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.call(&call.method);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let Some(name) = function.path.segments.last()
        {
            self.call(&name.ident);
        }
        visit::visit_expr_call(self, call);
    }
}

fn line(span: Span) -> usize {
    span.start().line
}

/// The lines of a function's body that are neither blank nor only a comment. That is what clippy's `too_many_lines`
/// counts, except that clippy takes `/*` in a text for a comment.
fn lines_of_code(body: &str) -> usize {
    let mut in_comment = false;
    let mut lines = 0;
    for line in body.lines() {
        let mut line = line.trim();
        while in_comment || line.starts_with("/*") {
            let Some((_, after)) = line.split_once("*/") else {
                in_comment = true;
                line = "";
                break;
            };
            in_comment = false;
            line = after.trim();
        }
        lines += usize::from(!line.is_empty() && !line.starts_with("//"));
    }
    lines
}

/// Whether people see the comments of a type's fields.
fn is_shown(attributes: &[Attribute]) -> bool {
    fn has(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(name) => SHOWN.iter().any(|shown| name == shown),
            TokenTree::Group(group) => has(group.stream()),
            _ => false,
        })
    }
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("derive") || list.path.is_ident("cfg_attr") => {
            has(list.tokens.clone())
        }
        _ => false,
    })
}

/// The text of a documentation.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text), ..
            }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line and text of the places of a rule.
    fn places(rule: Rule, path: &str, text: &str) -> Vec<(usize, String)> {
        let source = Source::parse(path, text.to_owned()).expect("Rust");
        let places = find(&source).into_iter().filter(|(other, _)| *other == rule);
        places.map(|(_, place)| (place.line, place.what)).collect()
    }

    fn check(rule: Rule, text: &str, expected: &[(usize, &str)]) {
        let found = places(rule, "crates/a/src/b.rs", text);
        let found: Vec<_> = found.iter().map(|(line, what)| (*line, what.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn lines_of_code_are_neither_blank_nor_comments() {
        for (body, expected) in [
            ("", 0),
            (" a() ", 1),
            ("\n  a();\n\n  // b\n  c(); // d\n", 2),
            ("\n/* a\n b\n c */ d();\n/* e */\n/* f */ g();\n", 2),
            ("\nlet a = \"/*\";\nb();\nc(\"https://d\");\n", 3),
            ("\n/// a\nfn b() {\n}\n", 2),
        ] {
            assert_eq!(lines_of_code(body), expected, "{body}");
        }
    }

    #[test]
    fn a_function_of_more_than_the_most_lines_is_found_wherever_it_is() {
        let most = "a();\n".repeat(LINES_MAX);
        let more = format!("{most}b();\n");
        for (before, after) in [
            ("", ""),
            ("impl A {\n", "}"),
            ("trait A {\n", "}"),
            ("mod a {\n", "}"),
        ] {
            let of = |body: &str| format!("{before}async fn long(x: u8) {{\n{body}}}\n{after}");
            let line = 1 + usize::from(!before.is_empty());
            check(Rule::LongFunctions, &of(&most), &[]);
            check(Rule::LongFunctions, &of(&more), &[(line, "fn long")]);
            check(
                Rule::LongFunctions,
                &format!("#[cfg(test)]\nmod tests {{\n{}}}", of(&more)),
                &[],
            );
        }
        check(
            Rule::LongFunctions,
            &format!("// ü\nfn long() {{\n{most}// é\n\n}}"),
            &[],
        );
        check(
            Rule::LongFunctions,
            &format!("fn outer() {{\nfn inner() {{\n{more}}}\n}}"),
            &[(1, "fn outer"), (2, "fn inner")],
        );
    }

    #[test]
    fn a_let_of_a_tuple_with_a_tuple_is_found() {
        let found = |text: &str, line| check(Rule::TupleLets, text, &[(line, "let (a, b) = (1, 2);")]);
        found("fn f() { 1; \n  let (a, b) = (1, 2);\n}", 2);
        found("fn f() { g(|| {\nlet (a, b) = (1, 2);\n}) }", 2);
        check(
            Rule::TupleLets,
            "fn f() {\nlet (mut a, b): (u8, u8) = (\n1, 2);\n}",
            &[(2, "let (mut a, b): (u8, u8) = (")],
        );
        for source in [
            "fn f() { let (a, b) = g(); }",
            "fn f() { let a = (1, 2); }",
            "fn f() { let (a, b); }",
            "fn f() { (a, b) = (b, a); }",
            "fn f() { let [a, b] = [1, 2]; }",
            "fn f() { if let (Some(a), b) = (g(), 2) {} }",
            "fn f() { let (Some(a), Some(b)) = (g(), h()) else { return }; }",
            "#[test]\nfn f() { let (a, b) = (1, 2); }",
        ] {
            check(Rule::TupleLets, source, &[]);
        }
    }

    #[test]
    fn short_comments_of_fields_are_found() {
        check(
            Rule::ShortFieldComments,
            "struct A {\n/// Its name.\npub name: u8,\n/// The time at which it began.\nbegan: u8,\n/// Begins a\n/// text.\nb: u8 }",
            &[(2, "A.name: Its name."), (6, "A.b: Begins a text.")],
        );
        check(
            Rule::ShortFieldComments,
            "struct A(/// The cause.\nu8, u8);",
            &[(1, "A.0: The cause.")],
        );
        check(
            Rule::ShortFieldComments,
            "#[derive(Error)]\nenum A {\n/// Cannot.\nB {\n/// The cause.\nsource: u8 } }",
            &[(5, "A::B.source: The cause.")],
        );
        for source in [
            "struct A {\n// Its name.\nname: u8 }",
            "struct A { name: u8 }",
            "#[derive(Debug, Args)] struct A {\n/// The name.\nname: u8 }",
            "#[derive(schemars::JsonSchema)] struct A {\n/// The name.\nname: u8 }",
            "#[cfg_attr(feature = \"schema\", derive(JsonSchema))] struct A {\n/// The name.\nname: u8 }",
            "#[derive(Subcommand)] enum A { B {\n/// The name.\nname: u8 } }",
            "/// Its name.\nstruct A;",
            "#[cfg(test)]\nstruct A {\n/// Its name.\nname: u8 }",
        ] {
            check(Rule::ShortFieldComments, source, &[]);
        }
    }

    #[test]
    fn public_items_have_documentation() {
        for (source, expected) in [
            ("pub struct A;", "struct A"),
            ("pub enum A {}", "enum A"),
            ("pub union A { a: u8 }", "union A"),
            ("pub trait A {}", "trait A"),
            ("pub type A = u8;", "type A"),
            ("pub fn a() {}", "fn a"),
            ("pub async fn a() {}", "fn a"),
            ("pub const A: u8 = 1;", "const A"),
            ("pub static A: u8 = 1;", "static A"),
            ("impl A { pub fn a() {} }", "fn a"),
            ("impl A { pub const B: u8 = 1; }", "const B"),
            ("/// A.\npub trait A { fn a(); }", "fn a"),
            ("/// A.\npub trait A { type B; }", "type B"),
            ("mod a { pub fn b() {} }", "fn b"),
            ("#[macro_export] macro_rules! a { () => {} }", "macro a"),
            ("// A comment is none.\npub fn a() {}", "fn a"),
        ] {
            let found = places(Rule::Undocumented, "crates/a/src/b.rs", source);
            assert!(
                matches!(found.as_slice(), [(_, what)] if what == expected),
                "{source}: {found:?}"
            );
        }
        for source in [
            "/// A.\npub struct A { pub a: u8 }",
            "/// A.\npub enum A { B, C { d: u8 } }",
            "#[doc(hidden)]\npub fn a() {}",
            "pub(crate) fn a() {}",
            "fn a() {}",
            "trait A { fn a(); }",
            "impl Clone for A { fn clone() {} }",
            "pub use crate::b::C;",
            "macro_rules! a { () => {} }",
            "#[cfg(test)]\npub fn a() {}",
        ] {
            check(Rule::Undocumented, source, &[]);
        }
    }

    #[test]
    fn crates_have_documentation() {
        for path in [
            "crates/a/src/lib.rs",
            "crates/a/src/main.rs",
            "crates/a/src/bin/b.rs",
        ] {
            assert_eq!(
                places(Rule::Undocumented, path, "mod a;"),
                [(1, "the crate".to_owned())],
                "{path}"
            );
            assert_eq!(places(Rule::Undocumented, path, "//! A.\nmod a;"), [], "{path}");
        }
    }

    #[test]
    fn a_write_in_a_fetch_is_found() {
        let source = "fn fetch() {\n  crate::catalogs::tell(a);\n  self.known.note(b).await;\n  c.get(d);\n}";
        let expected = [(2, "tell".to_owned()), (3, "note".to_owned())];
        assert_eq!(
            places(
                Rule::FetchWrites,
                "crates/provider/infra-controller/src/machine/fetch.rs",
                source
            ),
            expected
        );
        for path in [
            "crates/provider/infra-controller/src/machine/act.rs",
            "crates/provider/infra-controller/src/prefetch.rs",
        ] {
            assert_eq!(places(Rule::FetchWrites, path, source), [], "{path}");
        }
        for (path, call) in READS {
            let source = format!("fn fetch() {{ a.{call}(b) }}");
            assert_eq!(places(Rule::FetchWrites, path, &source), [], "{path}");
        }
    }
}
