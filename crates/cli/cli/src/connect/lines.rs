//! What the command prints. Results go to the standard output, problems to the standard error.

use std::{io::Write as _, net::SocketAddr, sync::Mutex};

use super::plan::{ClusterId, Waiting};

/// Prints a line, unless its reader is gone: the kubeconfigs still have to be removed at the end.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

pub(super) fn explanation(waiting: Waiting) -> &'static str {
    match waiting {
        Waiting::Missing => "waiting until it exists again",
        Waiting::NotOurs => "it is of another infrastructure provider now",
        Waiting::Starting => "waiting until it has an endpoint",
    }
}

/// The line about a cluster that can be reached.
pub(super) fn line(id: &ClusterId, address: SocketAddr, arguments: &[String]) -> String {
    let arguments: Vec<_> = arguments.iter().map(|argument| quoted(argument)).collect();
    format!(
        "{id}: https://{address}  kubectl {} get nodes",
        arguments.join(" ")
    )
}

/// The argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+@%,".contains(c);
    if argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// Says why connections to a cluster fail, once for each reason, and when they work again.
pub(super) fn teller(id: ClusterId) -> impl Fn(&str) + Send + Sync {
    let last = Mutex::new(String::new());
    move |reason| {
        let Ok(mut last) = last.lock() else { return };
        if *last == reason {
            return;
        }
        match reason {
            "" => say(&format!("{id}: connected again")),
            reason => eprintln!("{id}: cannot connect, trying again: {reason}"),
        }
        reason.clone_into(&mut last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_cluster_can_be_pasted_into_a_shell() {
        let id = ClusterId::parse("demo", "default");
        let arguments = ["--kubeconfig".to_owned(), "my files/it's".to_owned()];
        assert_eq!(
            line(&id, ([127, 0, 0, 1], 20_001).into(), &arguments),
            r"default/demo: https://127.0.0.1:20001  kubectl --kubeconfig 'my files/it'\''s' get nodes"
        );
    }
}
