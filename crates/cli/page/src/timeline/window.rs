//! Which part of the time is shown, and of what: the query of the address. Pure.

use jiff::Timestamp;
use nephele_model::GoDuration;
use thiserror::Error;

use crate::{
    objects::Key,
    timeline::lane::{LaneId, LaneKind},
};

/// How much is shown if nothing else is asked for.
pub(crate) const LAST: &str = "5m";
const LAST_MILLISECONDS: i64 = 5 * 60_000;
/// Everything that the journal has.
pub(crate) const ALL: &str = "all";
/// The shortest window, in milliseconds: records have their times to the millisecond.
const SHORTEST: i64 = 10;
/// The most times on the axis.
const TIMES_MAX: i64 = 8;
/// Between two times on the axis, in milliseconds.
const STEPS: [i64; 17] = [
    1,
    5,
    20,
    100,
    500,
    1_000,
    5_000,
    10_000,
    30_000,
    60_000,
    300_000,
    600_000,
    1_800_000,
    3_600_000,
    21_600_000,
    86_400_000,
    604_800_000,
];

/// Why a query cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum AskedError {
    #[error("{0:?} is not a time such as 2026-03-04T05:06:07Z")]
    Time(String),
    #[error("the time {from} is not before {until}")]
    Order { from: Timestamp, until: Timestamp },
    #[error("a window needs both from and until")]
    Half,
    #[error("{0:?} is not a duration such as 5m, and not {ALL:?}")]
    Last(String),
    #[error("{0:?} is not NAMESPACE/CLUSTER")]
    Cluster(String),
    #[error("{0:?} is not a lane of the timeline")]
    Lane(String),
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The only namespace that is shown; all if there is none.
    pub(crate) namespace: Option<String>,
    /// Only this cluster, with the clouds and Faults of its namespace.
    pub(crate) cluster: Option<Key>,
    pub(crate) span: Option<Shown>,
    /// The lane whose records are listed.
    pub(crate) lane: Option<LaneId>,
}

/// The time that is shown. The last five minutes, if nothing is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// So many milliseconds until now, and what was written.
    Last(i64, String),
    All,
    Between(Timestamp, Timestamp),
}

impl Shown {
    /// The time until now that a word stands for.
    ///
    /// # Errors
    /// When it is neither a duration nor [`ALL`].
    pub(crate) fn last(word: &str) -> Result<Self, AskedError> {
        if word == ALL {
            return Ok(Self::All);
        }
        let duration = GoDuration::parse(word).ok();
        let milliseconds = duration.and_then(|duration| i64::try_from(duration.get().as_millis()).ok());
        match milliseconds {
            Some(milliseconds) if milliseconds > 0 => Ok(Self::Last(milliseconds, word.to_owned())),
            _ => Err(AskedError::Last(word.to_owned())),
        }
    }
}

impl Asked {
    /// What a query asks for.
    ///
    /// # Errors
    /// When a field cannot be read.
    pub(crate) fn of(query: &str) -> Result<Self, AskedError> {
        let mut asked = Self::default();
        let mut from = None;
        let mut until = None;
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            match &*name {
                _ if value.is_empty() => {}
                "namespace" => asked.namespace = Some(value.to_owned()),
                "cluster" => asked.cluster = Some(cluster(value)?),
                "last" => asked.span = Some(Shown::last(value)?),
                "from" => from = Some(time(value)?),
                "until" => until = Some(time(value)?),
                "lane" => {
                    let lane = LaneId::of_word(value);
                    asked.lane = Some(lane.ok_or_else(|| AskedError::Lane(value.to_owned()))?);
                }
                _ => {}
            }
        }
        match (from, until) {
            (None, None) => {}
            (Some(from), Some(until)) if from < until => asked.span = Some(Shown::Between(from, until)),
            (Some(from), Some(until)) => return Err(AskedError::Order { from, until }),
            _ => return Err(AskedError::Half),
        }
        Ok(asked)
    }

    /// The timeline of a namespace, or of all.
    pub(crate) fn of_namespace(namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            ..Self::default()
        }
    }

    /// A lane, beside the others of its cluster or of its namespace.
    pub(crate) fn of_lane(lane: &LaneId) -> Self {
        let cluster = Key::new(&lane.namespace, &lane.cluster);
        Self {
            namespace: Some(lane.namespace.clone()),
            cluster: Some(cluster).filter(|cluster| !cluster.name.is_empty()),
            span: None,
            lane: Some(lane.clone()),
        }
    }

    /// The path of the timeline that it asks for.
    pub(crate) fn path(&self) -> String {
        match self.query() {
            query if query.is_empty() => "/timeline".to_owned(),
            query => format!("/timeline?{query}"),
        }
    }

    /// The query that asks for it.
    pub(crate) fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(namespace) = &self.namespace {
            query.append_pair("namespace", namespace);
        }
        if let Some(cluster) = &self.cluster {
            query.append_pair("cluster", &cluster.to_string());
        }
        match &self.span {
            None => {}
            Some(Shown::Last(_, written)) => {
                query.append_pair("last", written);
            }
            Some(Shown::All) => {
                query.append_pair("last", ALL);
            }
            Some(Shown::Between(from, until)) => {
                query.append_pair("from", &from.to_string());
                query.append_pair("until", &until.to_string());
            }
        }
        if let Some(lane) = &self.lane {
            query.append_pair("lane", &lane.word());
        }
        query.finish()
    }

    /// The word for the time until now. None for a time that is over.
    pub(crate) fn last(&self) -> Option<&str> {
        match &self.span {
            None => Some(LAST),
            Some(Shown::Last(_, written)) => Some(written),
            Some(Shown::All) => Some(ALL),
            Some(Shown::Between(..)) => None,
        }
    }

    /// The same for another time.
    pub(crate) fn during(&self, span: Option<Shown>) -> Self {
        Self { span, ..self.clone() }
    }

    /// The same with another lane whose records are listed.
    pub(crate) fn about(&self, lane: Option<LaneId>) -> Self {
        Self { lane, ..self.clone() }
    }

    /// Whether a lane is asked for.
    pub(super) fn wants(&self, id: &LaneId) -> bool {
        let of_namespace = self.namespace.as_ref().is_none_or(|one| *one == id.namespace);
        let of_cluster = self.cluster.as_ref().is_none_or(|one| {
            one.namespace == id.namespace
                && match id.kind {
                    LaneKind::Cloud | LaneKind::Fault => true,
                    LaneKind::Cluster | LaneKind::Machine => one.name == id.cluster,
                }
        });
        of_namespace && of_cluster
    }
}

fn cluster(value: &str) -> Result<Key, AskedError> {
    let parts = value.split_once('/').filter(|(_, name)| !name.contains('/'));
    let (namespace, name) = parts.ok_or_else(|| AskedError::Cluster(value.to_owned()))?;
    Ok(Key::new(namespace, name))
}

fn time(value: &str) -> Result<Timestamp, AskedError> {
    value.parse().map_err(|_| AskedError::Time(value.to_owned()))
}

/// A part of the time, in milliseconds since 1970. It is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: i64,
    pub(crate) until: i64,
    /// Whether it ends now, and goes with the time.
    pub(crate) is_live: bool,
}

impl Window {
    /// The window that is asked for, when the journal begins at `first`.
    pub(super) fn new(asked: &Asked, first: i64, now: i64) -> Self {
        let (from, until, is_live) = match &asked.span {
            Some(Shown::Between(from, until)) => (from.as_millisecond(), until.as_millisecond(), false),
            Some(Shown::All) => (first.min(now), now, true),
            Some(Shown::Last(milliseconds, _)) => (now.saturating_sub(*milliseconds), now, true),
            None => (now.saturating_sub(LAST_MILLISECONDS), now, true),
        };
        Self {
            from,
            until: until.max(from.saturating_add(SHORTEST)),
            is_live,
        }
    }

    /// Whether a time is in it.
    pub(crate) fn has(&self, at: i64) -> bool {
        (self.from..=self.until).contains(&at)
    }

    /// Where a time stands, in hundredths of a percent of the window.
    pub(crate) fn place(&self, at: i64) -> i64 {
        self.part(at, 10_000)
    }

    /// The number of the part in which a time is, of so many equal ones.
    pub(crate) fn part(&self, at: i64, parts: i64) -> i64 {
        let passed = i128::from(at.clamp(self.from, self.until)) - i128::from(self.from);
        let length = i128::from(self.until) - i128::from(self.from);
        i64::try_from(passed * i128::from(parts) / length.max(1)).unwrap_or(parts)
    }

    /// Round times in it, for the axis, and whether they need their milliseconds.
    pub(crate) fn times(&self) -> (Vec<i64>, bool) {
        let length = self.until.saturating_sub(self.from);
        let fits = |step: &&i64| length / **step <= TIMES_MAX;
        let step = STEPS.iter().find(fits).copied();
        let step = step.unwrap_or(length / TIMES_MAX).max(1);
        let first = self
            .from
            .saturating_add(step - 1)
            .div_euclid(step)
            .saturating_mul(step);
        let times = std::iter::successors(Some(first), |time| time.checked_add(step));
        (times.take_while(|time| self.has(*time)).collect(), step < 1_000)
    }
}
