//! The HTML of what people see who are not signed in. Pure.

use maud::{Markup, html};

use crate::html::shell;

/// The path of the form.
pub(crate) const SIGN_IN: &str = "/sign-in";

/// The form, and why the last attempt failed.
pub(crate) fn sign_in(namespace: &str, why: Option<&str>) -> Markup {
    let content = html! {
        main .sign-in {
            h1 { "Sign in" }
            p { "This page acts with the rights of your token, and keeps it in memory until you sign out." }
            @if let Some(why) = why { p .refusal role="alert" { (why) } }
            form method="post" action=(SIGN_IN) {
                label for="token" { "Token" }
                input #token name="token" type="password" autocomplete="off" required spellcheck="false";
                p .none { "For instance of " code { "kubectl create token NAME --duration 8h" } }
                label for="namespace" { "Namespace" }
                input #namespace name="namespace" value=(namespace) autocomplete="off" spellcheck="false";
                p .none { "Empty for all, if your token may list all." }
                button { "Sign in" }
            }
        }
    };
    shell("Sign in - Nephele", &content, None)
}
