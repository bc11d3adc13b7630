//! Which lines of the journal a reader wants.

use jiff::Timestamp;
use nephele_model::ResourceId;
use serde::{Deserialize, Serialize};

use super::line::JournalLine;

/// Which lines a reader wants. A line has to meet all that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JournalFilter {
    /// Only lines about this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only lines about this cluster, its load balancer and its machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Only lines about this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Only this operation, such as `CreateInstance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Only operations that this fault hit, and its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Only lines of this time and later ones, in wall time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl JournalFilter {
    /// Whether the reader may want a line about this resource. No line is made of a record of another namespace.
    pub(super) fn may_want(&self, about: &ResourceId) -> bool {
        let namespace = self.namespace.as_deref();
        namespace.is_none_or(|wanted| wanted == about.namespace)
    }

    /// Whether the reader wants the line. A line that names no object is for every reader: it says that records are
    /// missing, or that the reading ends.
    #[must_use]
    pub fn wants(&self, line: &JournalLine) -> bool {
        if line.kind.is_empty() {
            return true;
        }
        let Self {
            namespace,
            cluster,
            machine,
            operation,
            fault,
            since,
        } = self;
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let is_machine = machine.is_none() || line.kind == "Machine";
        // An operation lists the faults that were asked before the one that hit it, too.
        let is_hit = fault
            .as_ref()
            .is_none_or(|fault| match line.operation.is_empty() {
                true => line.faults.contains(fault),
                false => line.hit && line.faults.last() == Some(fault),
            });
        is(namespace, &line.namespace)
            && is(cluster, &line.cluster)
            && is_machine
            && is(machine, &line.name)
            && is(operation, &line.operation)
            && is_hit
            && since.is_none_or(|since| line.time >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, name: &str) -> JournalLine {
        JournalLine {
            namespace: "default".into(),
            cluster: "demo".into(),
            kind: kind.into(),
            name: name.into(),
            ..JournalLine::default()
        }
    }

    #[test]
    fn a_line_has_to_meet_all_that_is_set() {
        let some = |text: &str| Some(text.to_owned());
        let all = JournalFilter::default();
        let machine = JournalFilter {
            machine: some("m"),
            cluster: some("demo"),
            ..all.clone()
        };
        assert!(all.wants(&line("Machine", "m")) && machine.wants(&line("Machine", "m")));
        assert!(!machine.wants(&line("Machine", "n")) && !machine.wants(&line("Fault", "m")));
        let elsewhere = JournalFilter {
            namespace: some("other"),
            ..machine
        };
        assert!(!elsewhere.wants(&line("Machine", "m")));
        let at = |second| Timestamp::from_second(second).expect("in range");
        let later = JournalFilter {
            since: Some(at(10)),
            ..all
        };
        let of_time = |second| JournalLine {
            time: at(second),
            ..line("Machine", "m")
        };
        assert_eq!([9, 10].map(|second| later.wants(&of_time(second))), [false, true]);
        assert!(elsewhere.wants(&JournalLine {
            event: "RecordsMissed".into(),
            ..JournalLine::default()
        }));
    }

    #[test]
    fn a_fault_is_shown_with_what_it_hit_and_not_with_what_it_spared() {
        let filter = JournalFilter {
            fault: Some("b".into()),
            ..JournalFilter::default()
        };
        let operation = |faults: &[&str], hit| JournalLine {
            operation: "CreateInstance".into(),
            faults: faults.iter().map(|name| (*name).to_owned()).collect(),
            hit,
            ..line("Machine", "m")
        };
        assert!(filter.wants(&operation(&["a", "b"], true)));
        assert!(
            !filter.wants(&operation(&["a", "b"], false)) && !filter.wants(&operation(&["b", "c"], true))
        );
        let event = JournalLine {
            event: "Healed".into(),
            faults: vec!["b".into()],
            ..line("Machine", "m")
        };
        assert!(filter.wants(&event) && !filter.wants(&line("Machine", "m")));
    }
}
