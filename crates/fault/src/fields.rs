//! Fields of a Fault's spec. The schema refuses every mistake; this is for objects that got past the schema. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use nephele_api::cloud::v1alpha1::{FaultBudget, FaultSchedule, FaultSpec};
use nephele_api::start_up::StartupJitter;
use nephele_model::{Budget, Odds, Requirement, Schedule, Selector};
use serde_json::Value;
use thiserror::Error;

/// The shortest time for which a kubelet reports or is silent in turn, and for which a fault is in force or not. Each turn
/// writes the Node.
pub const TURN_MIN: Duration = Duration::from_secs(1);

/// Whether the IPAM provider carries out a Fault. If not, the infrastructure provider does.
#[must_use]
pub fn is_of_addresses(spec: &FaultSpec) -> bool {
    spec.effect.addresses.is_some()
}

/// A field of the spec that the schema would refuse.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("spec.{field}: {value:?} is not {expected}")]
pub struct Mistake {
    field: &'static str,
    value: String,
    expected: &'static str,
}

/// A mistake in a field.
pub fn mistake(field: &'static str, value: &(impl ToString + ?Sized), expected: &'static str) -> Mistake {
    Mistake { field, value: value.to_string(), expected }
}

/// A selector of labels. Without one, all labels fit.
///
/// # Errors
/// If the value is not a label selector.
pub fn selector(field: &'static str, value: Option<&Value>) -> Result<Selector, Mistake> {
    let Some(value) = value else { return Ok(Selector::default()) };
    let wrong = || mistake(field, value, "a label selector");
    let LabelSelector { match_labels, match_expressions } =
        serde_json::from_value(value.clone()).map_err(|_| wrong())?;
    let equal = match_labels.into_iter().flatten();
    let equal = equal.map(|(key, value)| Requirement::In(key, BTreeSet::from([value])));
    let expressions = match_expressions.into_iter().flatten().map(|requirement| {
        let LabelSelectorRequirement { key, operator, values } = requirement;
        let values: BTreeSet<_> = values.into_iter().flatten().collect();
        match (operator.as_str(), values.is_empty()) {
            ("In", false) => Ok(Requirement::In(key, values)),
            ("NotIn", false) => Ok(Requirement::NotIn(key, values)),
            ("Exists", true) => Ok(Requirement::Exists(key)),
            ("DoesNotExist", true) => Ok(Requirement::DoesNotExist(key)),
            _ => Err(wrong()),
        }
    });
    equal.map(Ok).chain(expressions).collect::<Result<_, _>>().map(Selector)
}

/// The budget of a Fault.
///
/// # Errors
/// With the first field that cannot be used.
pub fn budget(wanted: &FaultBudget) -> Result<Budget, Mistake> {
    let FaultBudget { probability, skip, count, lasts, schedule } = wanted;
    let number =
        |field, value: i32| u64::try_from(value).map_err(|_| mistake(field, &value, "a number from 0 on"));
    Ok(Budget {
        probability: Odds::new(fraction("budget.probability", probability)?.unwrap_or(1.0)),
        skip: number("budget.skip", skip.unwrap_or_default())?,
        count: count.map(|count| number("budget.count", count)).transpose()?,
        lasts: match lasts.as_str() {
            "" => None,
            text => Some(duration("budget.for", text)?),
        },
        schedule: schedule.as_ref().map(schedule_of).transpose()?,
    })
}

fn schedule_of(FaultSchedule { every, lasts, offset }: &FaultSchedule) -> Result<Schedule, Mistake> {
    let every = duration("budget.schedule.every", every)?;
    let window = duration("budget.schedule.for", lasts)?;
    if window < TURN_MIN || every.saturating_sub(window) < TURN_MIN {
        let expected = "at least 1s, and 1s shorter than every";
        return Err(mistake("budget.schedule.for", lasts, expected));
    }
    let offset = if offset.is_empty() { Duration::ZERO } else { duration("budget.schedule.offset", offset)? };
    Ok(Schedule { every, lasts: window, offset })
}

/// A duration.
///
/// # Errors
/// If the text is not one.
pub fn duration(field: &'static str, text: &str) -> Result<Duration, Mistake> {
    nephele_go_duration::parse(text).map_err(|_| mistake(field, text, "a duration such as 90s"))
}

/// A fraction from 0 to 1. None for an empty text.
///
/// # Errors
/// If the text is not one.
pub fn fraction(field: &'static str, text: &str) -> Result<Option<f64>, Mistake> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = StartupJitter::parse(text).map_err(|_| mistake(field, text, "a fraction from 0 to 1"))?;
    Ok(Some(parsed.get()))
}
