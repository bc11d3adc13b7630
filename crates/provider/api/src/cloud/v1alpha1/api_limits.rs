//! What the API of a `SimulatedCloud` does to its callers.

use nephele_model::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{schema, start_up::DURATION_PATTERN};

/// How often the API of a cloud may be called, and how soon reads show what was created. Changes take effect at once.
/// Times are real ones and do not follow the cloud's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("has(self.rate) || !has(self.burst)", "burst can only be set with rate"),
]))]
pub struct CloudApi {
    /// How many operations in a second, on average; by default any number. An operation beyond that is refused with the
    /// reason Throttled, and the manager tries again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub rate: Option<i32>,
    /// How many operations at once, after a time without any; by default as many as in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub burst: Option<i32>,
    /// How long reads do not show a new machine or load balancer; by default they show it at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub read_after_write_lag: Option<GoDuration>,
}
