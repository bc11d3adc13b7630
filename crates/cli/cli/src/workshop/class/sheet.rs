//! The sheet of a class: a page for each person, to be printed. Pure. It has no token.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use super::plan::{Class, Person};

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
    let manager = format!(
        "-n {namespace} --manager-namespace {} --token-file {namespace}.token",
        class.manager_namespace
    );
    html! {
        section {
            h1 { "Your namespace: " (namespace) }
            p {
                "You get two files, " code { (namespace) ".kubeconfig" } " and " code { (namespace) ".token" }
                ". Whoever has them has your rights"
                @if let Some(until) = until { " until " (format!("{until:.0}")) }
                ". In the folder with these files:"
            }
            pre { "export KUBECONFIG=" (namespace) ".kubeconfig" }
            p { "The workshop:" }
            pre { "nephele workshop list\nnephele workshop start 1" }
            p { "Your part of the cloud, in a browser, in a terminal, and what has happened in it:" }
            pre { "nephele page " (manager) "\nnephele top " (manager) "\nnephele journal show " (manager) }
            p { "The API servers of your clusters:" }
            pre { "nephele connect --all -n " (namespace) " --manager-namespace " (class.manager_namespace) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_person_has_a_page_with_commands_of_their_own_namespace() {
        let class = Class {
            name: "monday".into(),
            people: 30,
            manager_namespace: "nephele-system".into(),
        };
        let text = sheet(&class, None).into_string();
        assert_eq!(text.matches("<section>").count(), 30);
        let own = "nephele journal show -n monday-07 --manager-namespace nephele-system --token-file monday-07.token";
        assert_eq!(text.matches(own).count(), 1);
    }
}
