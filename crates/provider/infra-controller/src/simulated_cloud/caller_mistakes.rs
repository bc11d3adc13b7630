//! What was found about the callers of a cloud: in its status, and the events about it.

use kube::Resource as _;
use nephele_api::cloud::v1alpha1::{MistakesByCaller, SimulatedCloud};
use nephele_cloud::CallerMistakes;
use nephele_controller::{Event, Events, Severity};
use nephele_model::Caller;

/// The findings as a status shows them.
pub(crate) fn status(found: &nephele_cloud::MistakesByCaller) -> Vec<MistakesByCaller> {
    let number = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
    let of_caller = |caller: Caller| {
        let caller = caller.as_str();
        let CallerMistakes {
            double_creates,
            missed_reads,
        } = found.get(caller).copied()?;
        Some(MistakesByCaller {
            caller: caller.to_owned(),
            double_creates: number(double_creates),
            missed_reads: number(missed_reads),
        })
    };
    Caller::ALL.into_iter().filter_map(of_caller).collect()
}

/// What an earlier manager had found, according to the status.
pub(crate) fn history(listed: &[MistakesByCaller]) -> nephele_cloud::MistakesByCaller {
    let number = |value: Option<i64>| {
        value
            .and_then(|value| u64::try_from(value).ok())
            .unwrap_or_default()
    };
    let of_caller = |MistakesByCaller {
                         caller,
                         double_creates,
                         missed_reads,
                     }: &MistakesByCaller| {
        let double_creates = number(*double_creates);
        let missed_reads = number(*missed_reads);
        (
            caller.clone(),
            CallerMistakes {
                double_creates,
                missed_reads,
            },
        )
    };
    listed.iter().map(of_caller).collect()
}

/// Publishes what was found about a caller for the first time.
pub(crate) fn publish(
    object: &SimulatedCloud,
    before: &[MistakesByCaller],
    after: &[MistakesByCaller],
    events: &Events,
) {
    for News { reason, action, note } in news(before, after) {
        let regarding = object.object_ref(&());
        let severity = Severity::Warning;
        events.publish(Event {
            regarding,
            severity,
            reason,
            action,
            note,
        });
    }
}

/// A first finding.
#[derive(Debug, PartialEq, Eq)]
struct News {
    reason: &'static str,
    action: &'static str,
    note: String,
}

/// What was found about a caller for the first time between two statuses. Pure.
fn news(before: &[MistakesByCaller], after: &[MistakesByCaller]) -> Vec<News> {
    let before = history(before);
    let after = history(after);
    let mut news = Vec::new();
    for (caller, now) in after {
        let known = before.get(&caller).copied().unwrap_or_default();
        if known.double_creates == 0 && now.double_creates > 0 {
            news.push(News {
                reason: "DoubleCreate",
                action: "CreateInstance",
                note: format!(
                    "The caller {caller} created another instance for a machine that had one; status.findings counts on"
                ),
            });
        }
        if known.missed_reads == 0 && now.missed_reads > 0 {
            news.push(News {
                reason: "MissedRead",
                action: "Describe",
                note: format!(
                    "A read of the caller {caller} did not show a change that it had made before; status.findings counts on"
                ),
            });
        }
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(all: &[(&str, u64, u64)]) -> Vec<MistakesByCaller> {
        let one = |&(caller, double_creates, missed_reads): &(&str, _, _)| {
            (
                caller.to_owned(),
                CallerMistakes {
                    double_creates,
                    missed_reads,
                },
            )
        };
        status(&all.iter().map(one).collect())
    }

    #[test]
    fn a_status_lists_the_callers_of_faults_and_reads_back() {
        let listed = found(&[("machinePool", 0, 4), ("machine", 2, 1), ("infrastructure", 9, 9)]);
        let expected = |caller: &str, double_creates, missed_reads| MistakesByCaller {
            caller: caller.into(),
            double_creates: Some(double_creates),
            missed_reads: Some(missed_reads),
        };
        assert_eq!(listed, [expected("machine", 2, 1), expected("machinePool", 0, 4)]);
        assert_eq!(status(&history(&listed)), listed);
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn the_first_finding_of_a_kind_about_a_caller_is_news() {
        let told = |before: &[(&str, u64, u64)], after: &[(&str, u64, u64)]| {
            let news = news(&found(before), &found(after));
            news.into_iter()
                .map(|News { reason, note, .. }| format!("{reason}: {note}"))
                .collect::<Vec<_>>()
        };
        let double = "DoubleCreate: The caller machine created another instance for a machine that had one; \
                      status.findings counts on";
        let missed = "MissedRead: A read of the caller cluster did not show a change that it had made before; \
                      status.findings counts on";
        assert_eq!(
            told(&[], &[("machine", 1, 0), ("cluster", 0, 2)]),
            [missed, double]
        );
        assert_eq!(told(&[("cluster", 1, 0)], &[("cluster", 1, 1)]), [missed]);
        assert_eq!(told(&[("machine", 1, 1)], &[("machine", 5, 2)]), [""; 0]);
    }
}
