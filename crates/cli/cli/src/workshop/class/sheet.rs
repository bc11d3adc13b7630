//! The sheet of a class: a page for each person, to be printed. Pure. It has no token.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use super::plan::{Class, Person};
use crate::install::objects::NAMESPACE;

const STYLE: &str = "body{font:14px/1.5 sans-serif;margin:2em}section{break-after:page;max-width:46em}\
                     pre{padding:.6em 1em;border:1px solid #999;white-space:pre-wrap}h1{font-size:20px}";

/// The sheet.
pub(super) fn sheet(class: &Class, until: Option<Timestamp>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Class " (class.name) }
                style { (STYLE) }
            }
            body { @for person in class.everyone() { (page(class, &person, until)) } }
        }
    }
}

fn page(class: &Class, person: &Person, until: Option<Timestamp>) -> Markup {
    let namespace = &person.namespace;
    // Commands look there by themselves.
    let place = match class.manager_namespace.as_str() {
        NAMESPACE => String::new(),
        other => format!(" --manager-namespace {other}"),
    };
    html! {
        section {
            h1 { "Your namespace: " (namespace) }
            p { "Name: ______________________" }
            p {
                "You get two files, " code { (namespace) ".kubeconfig" } " and " code { (namespace) ".token" }
                ". Whoever has them has your rights"
                @if let Some(until) = until { " until " (format!("{until:.0}")) }
                ". Keep them in one folder, and type there:"
            }
            pre { "export KUBECONFIG=$PWD/" (namespace) ".kubeconfig" }
            p { "The workshop:" }
            pre { "nephele workshop list\nnephele workshop start 1\nnephele workshop check 1\nnephele workshop hint 1\nnephele workshop reset 1" }
            p { "Your part of the cloud, in a browser, in a terminal, and what has happened in it:" }
            pre { "nephele page" (place) "\nnephele top" (place) "\nnephele journal show" (place) }
            p { "The API servers of your clusters:" }
            pre { "nephele connect --all" (place) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_person_has_a_page_with_commands_of_their_own_namespace() {
        let class = |manager_namespace: &str| Class {
            name: "monday".into(),
            people: 30,
            manager_namespace: manager_namespace.into(),
        };
        let text = sheet(&class("nephele-system"), None).into_string();
        assert_eq!(text.matches("<section>").count(), 30);
        assert_eq!(
            text.matches("export KUBECONFIG=$PWD/monday-07.kubeconfig")
                .count(),
            1
        );
        assert!(text.contains("nephele journal show</pre>"), "{text}");
        let elsewhere = sheet(&class("cloud"), None).into_string();
        assert!(
            elsewhere.contains("nephele journal show --manager-namespace cloud</pre>"),
            "{elsewhere}"
        );
    }
}
