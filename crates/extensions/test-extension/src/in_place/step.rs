//! Decides what to do about a machine that has to be updated. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_api::infrastructure::v1beta2::{
    InMemoryMachine,
    update::{Software, Update},
};
use nephele_go_duration::DurationError;
use nephele_model::{Fraction, FractionError, GoDuration};
use nephele_runtime_sdk::hooks::{ResponseStatus, Settings, UpdateMachineResponse};
use thiserror::Error;

use crate::settings::{IN_PLACE_UPDATE_DURATION, IN_PLACE_UPDATE_JITTER};

/// How long an update takes by default.
const DURATION: &str = "10s";
/// The longest `retryAfterSeconds`: the update may fail before it should be over.
const RETRY_AFTER_SECONDS_MAX: u16 = 10;

/// Why the settings for the time of updates are invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PaceError {
    /// The duration is invalid.
    #[error("failed to read the setting {IN_PLACE_UPDATE_DURATION}")]
    Duration(#[source] DurationError),
    /// The jitter is invalid.
    #[error("failed to read the setting {IN_PLACE_UPDATE_JITTER}")]
    Jitter(#[source] FractionError),
}

/// How long updates take: a duration, plus up to a fraction of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    duration: GoDuration,
    jitter: Option<Fraction>,
}

impl Pace {
    /// The pace in the settings.
    ///
    /// # Errors
    /// When a setting is not a duration or not a fraction.
    pub fn of(settings: &Settings) -> Result<Self, PaceError> {
        let duration = settings
            .get(IN_PLACE_UPDATE_DURATION)
            .map_or(DURATION, String::as_str);
        let jitter = settings
            .get(IN_PLACE_UPDATE_JITTER)
            .filter(|jitter| !jitter.is_empty());
        Ok(Self {
            duration: GoDuration::parse(duration).map_err(PaceError::Duration)?,
            jitter: jitter
                .map(|jitter| Fraction::parse(jitter))
                .transpose()
                .map_err(PaceError::Jitter)?,
        })
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Answer with this response.
    Answer(UpdateMachineResponse),
    /// Write this request to the machine's object, and answer with this response, which makes the caller wait.
    Ask(Box<Update>, UpdateMachineResponse),
}

/// The step for a machine that has to run `target`, with the `preloaded` response if there is one.
#[must_use]
pub fn step(
    object: &InMemoryMachine,
    target: &Software,
    preloaded: Option<UpdateMachineResponse>,
    pace: &Pace,
    now: Timestamp,
) -> Step {
    let failure = match preloaded {
        Some(response) if response.status == ResponseStatus::Failure => {
            let said = !response.message.is_empty();
            if said {
                response.message
            } else {
                "a preloaded response makes it fail".to_owned()
            }
        }
        Some(response) if response.retry_after_seconds > 0 => return Step::Answer(response),
        _ => String::new(),
    };
    let runs = object.origin().and_then(|origin| origin.software).as_ref() == Some(target);
    let asked = object
        .update()
        .filter(|update| update.software == *target && update.failure == failure);
    match asked {
        Some(update) if update.ended.is_none() => Step::Answer(waits(&update, now)),
        Some(_) if !failure.is_empty() => Step::Answer(UpdateMachineResponse {
            status: ResponseStatus::Failure,
            message: failure,
            ..Default::default()
        }),
        // The machine runs the target, and no update is in progress.
        _ if runs && failure.is_empty() && object.update().is_none_or(|update| update.ended.is_some()) => {
            Step::Answer(UpdateMachineResponse::default())
        }
        _ => {
            let Pace { duration, jitter } = pace.clone();
            let update = Update {
                software: target.clone(),
                // The object keeps microseconds.
                asked_at: MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)),
                duration: Some(duration),
                jitter,
                failure,
                ended: None,
            };
            let answer = waits(&update, now);
            Step::Ask(Box::new(update), answer)
        }
    }
}

/// Makes the caller call again when the update should be over. The message does not change until then, because Cluster
/// API shows it in a condition.
fn waits(update: &Update, now: Timestamp) -> UpdateMachineResponse {
    let duration = update.duration.as_ref().map(GoDuration::get).unwrap_or_default();
    let passed = now.duration_since(update.asked_at.0);
    let left = duration.saturating_sub(Duration::try_from(passed).unwrap_or_default());
    let seconds = left.as_secs().saturating_add(u64::from(left.subsec_nanos() > 0));
    let seconds = u16::try_from(seconds)
        .unwrap_or(u16::MAX)
        .clamp(1, RETRY_AFTER_SECONDS_MAX);
    UpdateMachineResponse::retry_after(
        seconds,
        format!("the simulated machine is updated to {}", update.software.version),
    )
}

#[cfg(test)]
mod tests;
