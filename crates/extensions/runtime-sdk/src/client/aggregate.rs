//! Aggregates several responses into one.

use crate::hooks::{Response, ResponseStatus};

/// The smaller of two `retryAfterSeconds`, where 0 counts only if both are 0. Zero does not block, and to Cluster API
/// every other value does, even a negative one.
#[must_use]
pub fn lowest_non_zero(a: i32, b: i32) -> i32 {
    match (a, b) {
        (0, other) | (other, 0) => other,
        (a, b) => a.min(b),
    }
}

/// Combines successful responses into one (Cluster API, `internal/runtime/client`). The result has the status
/// `Success`, the messages joined by a comma, and the lowest `retryAfterSeconds` of the responses and of `into` that is
/// not 0. Other fields are not merged: `into` keeps its own.
#[must_use]
pub fn aggregate<'a, R: Response>(mut into: R, responses: impl IntoIterator<Item = &'a R>) -> R {
    let mut messages = Vec::new();
    let mut retry = into.retry_after_seconds().unwrap_or_default();
    for response in responses {
        retry = lowest_non_zero(retry, response.retry_after_seconds().unwrap_or_default());
        if !response.message().is_empty() {
            messages.push(response.message());
        }
    }
    into.set_status(ResponseStatus::Success);
    into.set_retry_after_seconds(retry);
    into.set_message(messages.join(", "));
    into
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hooks::{
        AfterControlPlaneInitializedResponse as Plain, BeforeClusterCreateResponse as Retry, ResponseStatus,
    };

    fn retry((retry_after_seconds, message): &(i32, &str)) -> Retry {
        Retry {
            status: ResponseStatus::Success,
            message: (*message).to_owned(),
            retry_after_seconds: *retry_after_seconds,
        }
    }

    /// AGG-1.
    #[test]
    fn a_plain_response_alone_is_as_it_was() {
        let one = Plain {
            message: "test".into(),
            ..Plain::default()
        };
        assert_eq!(aggregate(Plain::default(), [&one]), one);
        assert_eq!(aggregate(Plain::default(), []), Plain::default());
    }

    /// AGG-2, AGG-3.
    #[test]
    fn the_lowest_wait_wins_and_messages_are_joined() {
        for (responses, expected) in [
            (vec![(5, "test")], (5, "test")),
            (
                vec![(0, "test1"), (1, "test2"), (5, ""), (4, ""), (3, "")],
                (1, "test1, test2"),
            ),
            (vec![(0, ""), (0, "")], (0, "")),
            (vec![], (0, "")),
        ] {
            let responses: Vec<Retry> = responses.iter().map(retry).collect();
            assert_eq!(aggregate(Retry::default(), &responses), retry(&expected));
        }
        let into = Retry {
            status: ResponseStatus::Failure,
            ..retry(&(3, "before"))
        };
        assert_eq!(aggregate(into, [&retry(&(7, "after"))]), retry(&(3, "after")));
    }

    proptest! {
        #[test]
        fn the_wait_does_not_depend_on_the_order_of_responses(
            (waits, shuffled) in prop::collection::vec(-3..50_i32, 0..8)
                .prop_flat_map(|waits| (Just(waits.clone()), Just(waits).prop_shuffle()))
        ) {
            let aggregated = |waits: &[i32]| {
                let responses: Vec<Retry> = waits.iter().map(|wait| retry(&(*wait, ""))).collect();
                aggregate(Retry::default(), &responses)
            };
            prop_assert_eq!(aggregated(&waits), aggregated(&shuffled));
            let expected = waits.iter().copied().filter(|wait| *wait != 0).min().unwrap_or(0);
            prop_assert_eq!(aggregated(&waits).retry_after_seconds, expected);
        }

        #[test]
        fn responses_aggregated_in_groups_are_those_aggregated_at_once(
            waits in prop::collection::vec(0..50_i32, 1..8), split in 0..8_usize
        ) {
            let responses: Vec<Retry> = waits.iter().map(|wait| retry(&(*wait, "m"))).collect();
            let (first, second) = responses.split_at(split.min(responses.len()));
            let groups: Vec<Retry> = [first, second]
                .into_iter()
                .filter(|group| !group.is_empty())
                .map(|group| aggregate(Retry::default(), group))
                .collect();
            prop_assert_eq!(aggregate(Retry::default(), &groups), aggregate(Retry::default(), &responses));
        }
    }
}
