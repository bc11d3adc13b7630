//! A lane of the timeline, and what stands in it. Pure.

use nephele_cloud::JournalLine;

use crate::objects::Key;

/// What a lane is for. The order is that of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneKind {
    Cloud,
    Fault,
    /// The load balancer of a cluster stands for the cluster.
    Cluster,
    Machine,
}

impl LaneKind {
    pub(super) const ALL: [Self; 4] = [Self::Cloud, Self::Fault, Self::Cluster, Self::Machine];

    /// The kind in words, which is also its name in addresses.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cloud => "cloud",
            Self::Fault => "fault",
            Self::Cluster => "cluster",
            Self::Machine => "machine",
        }
    }

    /// The kind of the lane that a record stands in.
    fn of(line: &JournalLine) -> Option<Self> {
        match line.kind.as_str() {
            "SimulatedCloud" => Some(Self::Cloud),
            "Fault" => Some(Self::Fault),
            "LoadBalancer" => Some(Self::Cluster),
            "Machine" => Some(Self::Machine),
            _ => None,
        }
    }
}

/// Which lane it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneId {
    pub(crate) namespace: String,
    /// Empty for a cloud or a Fault, whose lanes stand above those of the clusters.
    pub(crate) cluster: String,
    pub(crate) kind: LaneKind,
    /// The name of the object, which is an `InMemoryMachine` for a machine.
    pub(crate) name: String,
}

impl LaneId {
    pub(crate) fn of_cluster(key: &Key) -> Self {
        Self {
            namespace: key.namespace.clone(),
            cluster: key.name.clone(),
            kind: LaneKind::Cluster,
            name: key.name.clone(),
        }
    }

    /// The lane of what belongs to no cluster.
    pub(crate) fn alone(key: &Key, kind: LaneKind) -> Self {
        Self {
            namespace: key.namespace.clone(),
            cluster: String::new(),
            kind,
            name: key.name.clone(),
        }
    }

    pub(crate) fn of_record(line: &JournalLine) -> Option<Self> {
        let kind = LaneKind::of(line)?;
        let name = match kind {
            LaneKind::Cluster => &line.cluster,
            _ => &line.name,
        };
        Some(Self {
            namespace: line.namespace.clone(),
            cluster: line.cluster.clone(),
            kind,
            name: name.clone(),
        })
    }

    /// The lane as one word of an address.
    pub(crate) fn word(&self) -> String {
        let Self {
            namespace,
            cluster,
            kind,
            name,
        } = self;
        format!("{}/{namespace}/{cluster}/{name}", kind.word())
    }

    /// The lane of a word. None for any other text.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let mut parts = word.split('/');
        let mut next = || parts.next().map(str::to_owned);
        let kind = next()?;
        let id = Self {
            kind: LaneKind::ALL.into_iter().find(|known| known.word() == kind)?,
            namespace: next()?,
            cluster: next()?,
            name: next()?,
        };
        parts.next().is_none().then_some(id)
    }
}

/// What something was for some time. Times are milliseconds since 1970, within the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: i64,
    pub(crate) until: i64,
    /// Such as "running", or "affected" while a Fault affects it.
    pub(crate) state: &'static str,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) at: i64,
    pub(crate) kind: MarkKind,
    /// The record that it stands for, in words.
    pub(crate) says: String,
}

/// How a mark looks. The order is that in which marks cover each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MarkKind {
    Event,
    Operation,
    /// An operation that the cloud refused.
    Refused,
    /// An operation that a Fault hit.
    Hit,
}

impl MarkKind {
    pub(super) fn of(line: &JournalLine) -> Self {
        match (line.hit, line.outcome.as_str()) {
            (true, _) => Self::Hit,
            (_, "") => Self::Event,
            _ if is_done(line) => Self::Operation,
            _ => Self::Refused,
        }
    }
}

/// Whether the cloud carries out the operation of a record.
pub(super) fn is_done(line: &JournalLine) -> bool {
    matches!(line.outcome.as_str(), "Accepted" | "AlreadyDone" | "Delayed")
}

/// Something over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    /// The path of what it is for, if that still exists.
    pub(crate) href: Option<String>,
    pub(crate) spans: Vec<Span>,
    pub(crate) marks: Vec<Mark>,
}
