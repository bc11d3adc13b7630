//! The clock of a `SimulatedCloud`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_model::{ClockRate, GoDuration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{schema, start_up::DURATION_PATTERN};

/// A decimal number from 0.01 to 1000, with up to six decimal places.
pub(super) const RATE_PATTERN: &str =
    r"^(0\.0[1-9][0-9]{0,4}|0\.[1-9][0-9]{0,5}|[1-9][0-9]{0,2}(\.[0-9]{1,6})?|1000(\.0{1,6})?)$";

/// How fast time passes for the machines of a cloud: for the stages of their start, their updates in place and their
/// deletions. Changes take effect at once. Other durations, such as those of Faults, do not follow this clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudClock {
    /// How much time passes in the cloud for each second, from 0.01 to 1000; by default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 16), regex(pattern = RATE_PATTERN))]
    pub rate: Option<ClockRate>,
    /// Whether the clock stands still. Then no stage, update or deletion ends, not even one that takes no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// A counter for a paused clock. When it grows by one, one stage, update or deletion ends: the one that would be
    /// next. A step for which nothing is under way does nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub steps: Option<i64>,
    /// A total. When it grows, so much time passes in the cloud at once, also while the clock is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub ahead: Option<GoDuration>,
}

/// The clock of a cloud as the manager has last set it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudClockStatus {
    /// How much time passes in the cloud for each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 16), regex(pattern = RATE_PATTERN))]
    pub rate: Option<ClockRate>,
    /// Whether the clock stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The steps that were carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub steps: Option<i64>,
    /// The time ahead that was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub ahead: Option<GoDuration>,
    /// When the clock last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub since: Option<MicroTime>,
    /// The time in the cloud when the clock last changed. It equals the real time until the first change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub time: Option<MicroTime>,
}
