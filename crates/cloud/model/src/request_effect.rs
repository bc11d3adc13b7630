//! What is wrong with the API servers and the load balancer of a cluster.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is wrong with the API servers of a cluster, for the requests that it selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiServerRequestEffect {
    /// The verbs of the requests, such as `list`. If empty, all.
    pub verbs: Vec<String>,
    /// The resources of the requests, such as `nodes`. If empty, all, and also requests without a resource.
    pub resources: Vec<String>,
    pub kind: ApiServerRequestEffectKind,
}

/// What happens to requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApiServerRequestEffectKind {
    /// No API server is in service. Connections end, whatever they ask.
    Down,
    /// They are answered with an error.
    Error {
        code: u16,
        /// How many of a million requests fail.
        per_million: u32,
    },
    /// They are answered late.
    Latency {
        /// By at least this time.
        base: Duration,
        /// How much may be added at random, in millionths of `base`.
        jitter_per_million: u32,
    },
    /// Their connection ends in the middle of the answer, after this time. For watches.
    Cut { after: Duration },
    /// Reads are answered from the objects as they were when this began.
    Stale,
}

/// What is wrong with the load balancer of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadBalancerEffect {
    /// It has no backends: connections are accepted and closed.
    NoBackends,
    /// Its backends are those of another cluster.
    WrongBackends,
    /// Connections break off.
    Reset {
        after: Duration,
        /// How many of a million connections do.
        per_million: u32,
    },
}
