//! Combines several answers into one. Pure.

use nephele_runtime_sdk::{
    client::lowest_non_zero,
    hooks::{Hook, Response as _},
};

/// The longest text of one handler in the message, in characters.
const TEXT_MAX: usize = 512;
/// The most handlers whose text is in the message. With 63 characters for each part of a name, 16 texts have less than
/// 16 KiB of ASCII. A condition has room for 32 KiB.
const SHOWN_MAX: usize = 16;

/// The combined answer of the handlers of a hook. It blocks when a handler blocks, for the shortest of their times, and
/// its message names the blocking handlers with their messages. It changes only when their answers change. As in
/// Cluster API, any time but 0 seconds blocks; a negative time counts as one second.
pub(super) fn verdict<H: Hook>(responses: &[(String, H::Response)]) -> H::Response {
    let seconds = |response: &H::Response| response.retry_after_seconds().unwrap_or_default();
    let blocking: Vec<_> = responses
        .iter()
        .filter(|(_, response)| seconds(response) != 0)
        .collect();
    let mut verdict = H::Response::default();
    if blocking.is_empty() {
        return verdict;
    }
    let shortest = blocking
        .iter()
        .fold(0, |lowest, (_, response)| {
            lowest_non_zero(lowest, seconds(response))
        })
        .max(1);
    let mut texts: Vec<String> = blocking
        .iter()
        .take(SHOWN_MAX)
        .map(|(handler, response)| said(handler, response.message()))
        .collect();
    if blocking.len() > SHOWN_MAX {
        texts.push(format!("and {} more", blocking.len() - SHOWN_MAX));
    }
    verdict.set_retry_after_seconds(shortest);
    verdict.set_message(format!(
        "{} waits for {}; asked again every {shortest}s",
        H::NAME,
        texts.join("; ")
    ));
    verdict
}

fn said(handler: &str, message: &str) -> String {
    let message = message.trim();
    match message.char_indices().nth(TEXT_MAX) {
        _ if message.is_empty() => handler.to_owned(),
        None => format!("{handler}: {message}"),
        Some((end, _)) => format!("{handler}: {}...", &message[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::{BeforeMachineCreate, BeforeMachineCreateResponse as Response};

    fn of(responses: &[(&str, i32, &str)]) -> (i32, String) {
        let responses: Vec<_> = responses
            .iter()
            .map(|(handler, seconds, message)| {
                let response = Response {
                    retry_after_seconds: *seconds,
                    message: (*message).to_owned(),
                    ..Response::default()
                };
                ((*handler).to_owned(), response)
            })
            .collect();
        let Response {
            retry_after_seconds,
            message,
            ..
        } = verdict::<BeforeMachineCreate>(&responses);
        (retry_after_seconds, message)
    }

    #[test]
    fn whoever_blocks_is_named_and_the_shortest_wait_counts() {
        for (responses, expected) in [
            (vec![], (0, "")),
            (vec![("a.x", 0, "fine"), ("b.x", 0, "")], (0, "")),
            (
                vec![("a.x", 0, "fine"), ("quota.x", 30, " no quota left\n")],
                (
                    30,
                    "BeforeMachineCreate waits for quota.x: no quota left; asked again every 30s",
                ),
            ),
            (
                vec![("a.x", 30, "later"), ("b.y", 10, "")],
                (
                    10,
                    "BeforeMachineCreate waits for a.x: later; b.y; asked again every 10s",
                ),
            ),
            (
                vec![("a.x", -5, "")],
                (1, "BeforeMachineCreate waits for a.x; asked again every 1s"),
            ),
        ] {
            assert_eq!(
                of(&responses),
                (expected.0, expected.1.to_owned()),
                "{responses:?}"
            );
        }
    }

    #[test]
    fn what_is_shown_fits_into_a_condition() {
        let name = format!("{}.{}", "h".repeat(63), "e".repeat(63));
        let text = "ü".repeat(100_000);
        let responses: Vec<_> = (0..100).map(|_| (name.as_str(), 5, text.as_str())).collect();
        let (_, message) = of(&responses);
        assert!(
            message.ends_with("...; and 84 more; asked again every 5s"),
            "{message}"
        );
        assert!(message.len() < 32_768, "{}", message.len());
    }
}
