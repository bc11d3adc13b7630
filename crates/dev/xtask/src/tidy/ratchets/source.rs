//! A source file as a syntax tree without its tests.

use anyhow::Context;
use syn::{
    Attribute, Block, FieldsNamed, File, ImplItem, Item, ItemImpl, ItemMod, ItemTrait, Meta, Stmt, Token,
    TraitItem,
    punctuated::{Pair, Punctuated},
    visit_mut::{self, VisitMut},
};

/// A file that is no test, without the tests in it.
pub(super) struct Source {
    /// From the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) syntax: File,
}

impl Source {
    pub(super) fn parse(path: &str, text: String) -> anyhow::Result<Self> {
        let mut syntax = syn::parse_file(&text).with_context(|| format!("failed to parse {path}"))?;
        WithoutTests.visit_file_mut(&mut syntax);
        Ok(Self {
            path: path.to_owned(),
            text,
            syntax,
        })
    }

    /// Whether the whole file is for tests alone.
    pub(super) fn is_test(&self) -> bool {
        is_test(&self.syntax.attrs)
    }
}

/// Whether attributes leave an item out of everything but tests.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let is_condition =
            path.is_ident("cfg") && attribute.parse_args::<Meta>().is_ok_and(|meta| needs_test(&meta));
        is_condition || path.segments.last().is_some_and(|last| last.ident == "test")
    })
}

/// Whether a condition holds in tests alone.
fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        return condition.path().is_ident("test");
    };
    let parts = list
        .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
        .unwrap_or_default();
    match list.path.get_ident() {
        Some(name) if name == "all" => parts.iter().any(needs_test),
        Some(name) if name == "any" => !parts.is_empty() && parts.iter().all(needs_test),
        _ => false,
    }
}

/// The attributes of an item.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether there is documentation, or a reason why there is none: `#[doc(hidden)]`.
pub(super) fn has_documentation(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("doc"))
}

/// Removes tests.
struct WithoutTests;

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut File) {
        file.items.retain(|item| !is_test(attributes(item)));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !is_test(attributes(item)));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut ItemImpl) {
        block.items.retain(|item| {
            !is_test(match item {
                ImplItem::Const(item) => &item.attrs,
                ImplItem::Fn(item) => &item.attrs,
                ImplItem::Type(item) => &item.attrs,
                ImplItem::Macro(item) => &item.attrs,
                _ => &[],
            })
        });
        visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_item_trait_mut(&mut self, item: &mut ItemTrait) {
        item.items.retain(|item| {
            !is_test(match item {
                TraitItem::Const(item) => &item.attrs,
                TraitItem::Fn(item) => &item.attrs,
                TraitItem::Type(item) => &item.attrs,
                TraitItem::Macro(item) => &item.attrs,
                _ => &[],
            })
        });
        visit_mut::visit_item_trait_mut(self, item);
    }

    fn visit_fields_named_mut(&mut self, fields: &mut FieldsNamed) {
        let pairs = std::mem::take(&mut fields.named).into_pairs();
        fields.named = pairs
            .filter(|pair: &Pair<_, _>| !is_test(&pair.value().attrs))
            .collect();
        visit_mut::visit_fields_named_mut(self, fields);
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        block.stmts.retain(|statement| {
            !is_test(match statement {
                Stmt::Local(local) => &local.attrs,
                Stmt::Item(item) => attributes(item),
                Stmt::Macro(call) => &call.attrs,
                Stmt::Expr(..) => &[],
            })
        });
        visit_mut::visit_block_mut(self, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_have_is_left_out() {
        for (attribute, expected) in [
            ("#[test]", true),
            ("#[tokio::test(start_paused = true)]", true),
            ("#[cfg(test)]", true),
            ("#[cfg(all(unix, test))]", true),
            ("#[cfg(any(test))]", true),
            ("#[cfg(any(test, feature = \"server\"))]", false),
            ("#[cfg(not(test))]", false),
            ("#[cfg(feature = \"test\")]", false),
            ("#[cfg_attr(test, derive(Debug))]", false),
        ] {
            for source in [
                format!("{attribute}\nfn one() {{}}"),
                format!("mod inner {{ {attribute}\nfn one() {{}} }}"),
                format!("impl A {{ {attribute}\nfn one() {{}} }}"),
                format!("trait A {{ {attribute}\nfn one(); }}"),
                format!("struct A {{ {attribute}\none: u8 }}"),
                format!("fn a() {{ {attribute}\nlet one = 1; }}"),
            ] {
                let source = Source::parse("a.rs", source).expect("Rust");
                let mut names = Names::default();
                let mut tree = source.syntax;
                names.visit_file_mut(&mut tree);
                assert_eq!(!names.0.contains(&"one".to_owned()), expected, "{}", source.text);
            }
            let file = Source::parse("a.rs", attribute.replace('#', "#!")).expect("Rust");
            assert_eq!(file.is_test(), expected, "{}", file.text);
        }
    }

    #[derive(Default)]
    struct Names(Vec<String>);

    impl VisitMut for Names {
        fn visit_ident_mut(&mut self, name: &mut syn::Ident) {
            self.0.push(name.to_string());
        }
    }
}
