//! Remembers responses that make the caller wait.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{aggregate::lowest_non_zero, call::Subject};
use crate::hooks::{Hook, Response};

/// When hooks may be called again for objects, after an extension has made its caller wait.
///
/// Since 1.12, Cluster API does not call an extension again before the requested time is over, even when the object
/// is reconciled earlier (`util/cache`). A restart forgets the wait. Before calling a hook, check [`Waits::get`]: it
/// returns the answer to use instead of a call. After the call, pass the response to [`Waits::put`].
#[derive(Debug)]
pub struct Waits {
    capacity: usize,
    waits: Mutex<BTreeMap<(String, Subject), Wait>>,
}

#[derive(Clone, Debug)]
struct Wait {
    until: Instant,
    message: String,
}

impl Default for Waits {
    /// Room for 16384 waits: 3 MiB, at about 200 bytes each.
    fn default() -> Self {
        Self::new(16_384)
    }
}

impl Waits {
    /// Room for this many waits, at least one. When it is full, the wait that ends first is forgotten. Its hook is then
    /// called too early, which extensions have to tolerate anyway.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            waits: Mutex::default(),
        }
    }

    /// The answer to use instead of a call that would be too early; `None` when the hook may be called. The answer has
    /// the status `Success`, the message of the last response, and the remaining seconds, at least one.
    #[must_use]
    pub fn get<H: Hook>(&self, now: Instant, subject: &Subject) -> Option<H::Response> {
        let key = key::<H>(subject);
        let mut waits = self.waits.lock();
        let wait = waits.get(&key)?.clone();
        let seconds = seconds(wait.until.saturating_duration_since(now));
        if seconds == 0 {
            waits.remove(&key);
            return None;
        }
        let mut response = H::Response::default();
        response.set_retry_after_seconds(seconds);
        response.set_message(wait.message);
        Some(response)
    }

    /// Remembers a response that makes the caller wait. Any other response ends the wait.
    pub fn put<H: Hook>(&self, now: Instant, subject: &Subject, response: &H::Response) {
        let key = key::<H>(subject);
        let seconds = response
            .retry_after_seconds()
            .and_then(|seconds| u64::try_from(seconds).ok());
        let mut waits = self.waits.lock();
        let Some(seconds) = seconds.filter(|seconds| *seconds > 0) else {
            waits.remove(&key);
            return;
        };
        if waits.len() >= self.capacity && !waits.contains_key(&key) {
            let first = waits
                .iter()
                .min_by_key(|(_, wait)| wait.until)
                .map(|(key, _)| key.clone());
            first.map(|key| waits.remove(&key));
        }
        let until = now + Duration::from_secs(seconds);
        waits.insert(
            key,
            Wait {
                until,
                message: response.message().to_owned(),
            },
        );
    }
}

fn key<H: Hook>(subject: &Subject) -> (String, Subject) {
    (H::id().group_hook(), subject.clone())
}

/// The remaining time of a wait in whole seconds: 0 when it is over, otherwise at least 1.
fn seconds(left: Duration) -> i32 {
    if left.is_zero() {
        return 0;
    }
    i32::try_from(
        left.as_secs()
            .saturating_add(u64::from(left.subsec_millis() >= 500)),
    )
    .unwrap_or(i32::MAX)
    .max(1)
}

/// The answers of the hooks in one reconcile: whether a hook blocks, for how long, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Seconds and message, by name of the hook.
    answers: BTreeMap<String, (i32, String)>,
}

impl Answers {
    /// Adds the response of a hook.
    pub fn add<H: Hook>(&mut self, response: &H::Response) {
        let seconds = response.retry_after_seconds().unwrap_or_default();
        self.answers
            .insert(H::NAME.to_owned(), (seconds, response.message().to_owned()));
    }

    /// Whether a hook blocks.
    #[must_use]
    pub fn is_blocking<H: Hook>(&self) -> bool {
        self.answers
            .get(H::NAME)
            .is_some_and(|(seconds, _)| *seconds != 0)
    }

    /// How long to wait: the shortest requested time. `None` when no hook blocks.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self
            .answers
            .values()
            .fold(0, |lowest, (seconds, _)| lowest_non_zero(lowest, *seconds));
        u64::try_from(seconds)
            .ok()
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs)
    }

    /// A message about the hooks that an action waits for; empty when no hook blocks. Hooks are sorted by name, so that
    /// the text is stable.
    #[must_use]
    pub fn message(&self, action: &str) -> String {
        let blocking: Vec<String> = self
            .answers
            .iter()
            .filter(|(_, (seconds, _))| *seconds != 0)
            .map(|(hook, (_, message))| {
                if message.is_empty() {
                    hook.clone()
                } else {
                    format!("{hook}: {message}")
                }
            })
            .collect();
        if blocking.is_empty() {
            return String::new();
        }
        format!("{action} waits for {}", blocking.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::{
        AfterControlPlaneInitialized, AfterControlPlaneInitializedResponse, BeforeClusterCreate,
        BeforeClusterCreateResponse as Created, BeforeClusterUpgrade,
        BeforeClusterUpgradeResponse as Upgraded,
    };

    /// HC-1.
    #[test]
    fn what_is_left_is_rounded_but_never_to_nothing() {
        let left = [0, 1, 1500, 3000].map(|milliseconds| seconds(Duration::from_millis(milliseconds)));
        assert_eq!(left, [0, 1, 2, 3]);
        assert_eq!(seconds(Duration::MAX), i32::MAX);
    }

    /// HC-2.
    #[test]
    fn a_hook_is_not_called_again_too_soon() {
        let waits = Waits::default();
        let now = Instant::now();
        let one = Subject::new("ns", "one");
        let other = Subject::new("ns", "other");
        let get = |seconds: u64, subject| {
            waits.get::<BeforeClusterCreate>(now + Duration::from_secs(seconds), subject)
        };
        assert_eq!(get(0, &one), None);
        waits.put::<BeforeClusterCreate>(now, &one, &Created::retry_after(15, "busy"));
        assert_eq!(get(0, &one), Some(Created::retry_after(15, "busy")));
        assert_eq!(get(14, &one), Some(Created::retry_after(1, "busy")));
        assert_eq!(
            (get(0, &other), waits.get::<BeforeClusterUpgrade>(now, &one)),
            (None, None)
        );
        assert_eq!((get(15, &one), get(0, &one)), (None, None));
        waits.put::<BeforeClusterCreate>(now, &one, &Created::retry_after(15, ""));
        waits.put::<BeforeClusterCreate>(now, &one, &Created::default());
        assert_eq!(get(0, &one), None);
        waits.put::<BeforeClusterCreate>(
            now,
            &one,
            &Created {
                retry_after_seconds: -1,
                ..Created::default()
            },
        );
        assert_eq!(get(0, &one), None);
        let plain = AfterControlPlaneInitializedResponse::default();
        waits.put::<AfterControlPlaneInitialized>(now, &one, &plain);
        assert_eq!(waits.get::<AfterControlPlaneInitialized>(now, &one), None);
    }

    #[test]
    fn the_wait_that_is_over_first_makes_room() {
        let waits = Waits::new(2);
        let now = Instant::now();
        let subjects = ["a", "b", "c"].map(|name| Subject::new("ns", name));
        for (subject, seconds) in subjects.iter().zip([9, 5, 7]) {
            waits.put::<BeforeClusterCreate>(now, subject, &Created::retry_after(seconds, ""));
        }
        let left = subjects.map(|subject| waits.get::<BeforeClusterCreate>(now, &subject).is_some());
        assert_eq!(left, [true, false, true]);
    }

    /// TRK-1 to TRK-3.
    #[test]
    fn the_shortest_wait_counts_and_every_hook_that_blocks_is_named() {
        let mut answers = Answers::default();
        assert_eq!(
            (answers.retry_after(), answers.message("it").as_str()),
            (None, "")
        );
        answers.add::<AfterControlPlaneInitialized>(&AfterControlPlaneInitializedResponse {
            message: "plain".into(),
            ..AfterControlPlaneInitializedResponse::default()
        });
        answers.add::<BeforeClusterUpgrade>(&Upgraded::default());
        assert_eq!(
            (answers.retry_after(), answers.message("it").as_str()),
            (None, "")
        );
        answers.add::<BeforeClusterUpgrade>(&Upgraded::retry_after(60, "not now"));
        answers.add::<BeforeClusterCreate>(&Created::retry_after(10, ""));
        assert_eq!(answers.retry_after(), Some(Duration::from_secs(10)));
        assert_eq!(
            answers.message("Creation of the topology"),
            "Creation of the topology waits for BeforeClusterCreate; BeforeClusterUpgrade: not now"
        );
        assert!(
            answers.is_blocking::<BeforeClusterCreate>() && answers.is_blocking::<BeforeClusterUpgrade>()
        );
        assert!(!answers.is_blocking::<AfterControlPlaneInitialized>());
        assert!(!answers.is_blocking::<crate::hooks::BeforeClusterDelete>());
    }
}
