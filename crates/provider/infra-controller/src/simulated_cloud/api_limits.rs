//! The limits of the API of a SimulatedCloud. Pure.

use nephele_api::cloud::v1alpha1::CloudApi;
use nephele_cloud::ApiLimits;
use nephele_model::{CallRate, GoDuration};

/// The limits, and the first mistake in them. The schema refuses mistakes; this is for objects that got past the schema.
/// A field with a mistake has its default.
pub(crate) fn limits(api: &CloudApi) -> (ApiLimits, Option<String>) {
    let CloudApi {
        rate,
        burst,
        read_after_write_lag,
    } = api;
    let mut mistake = None;
    let mut number = |field: &str, number: i32| {
        u32::try_from(number)
            .ok()
            .filter(|number| *number > 0)
            .unwrap_or_else(|| {
                mistake.get_or_insert(format!("spec.api.{field} must be at least 1"));
                1
            })
    };
    let calls = rate.map(|rate| {
        let per_second = number("rate", rate);
        CallRate {
            per_second,
            burst: burst.map_or(per_second, |burst| number("burst", burst)),
        }
    });
    let read_after_write_lag = read_after_write_lag
        .as_ref()
        .map(GoDuration::get)
        .unwrap_or_default();
    (
        ApiLimits {
            calls,
            read_after_write_lag,
        },
        mistake,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_cloud_without_limits_answers_any_number_of_calls_at_once() {
        assert_eq!(limits(&CloudApi::default()), (ApiLimits::default(), None));
    }

    #[test]
    fn a_rate_allows_as_many_calls_at_once_as_in_a_second_unless_it_says_otherwise() {
        let calls = |burst| {
            limits(&CloudApi {
                rate: Some(20),
                burst,
                ..CloudApi::default()
            })
        };
        let allows = |burst| {
            let calls = Some(CallRate {
                per_second: 20,
                burst,
            });
            (
                ApiLimits {
                    calls,
                    ..ApiLimits::default()
                },
                None,
            )
        };
        assert_eq!([calls(None), calls(Some(40))], [allows(20), allows(40)]);
    }

    #[test]
    fn mistakes_are_named_and_have_no_effect() {
        let lag = GoDuration::parse("2s").ok();
        let wrong = CloudApi {
            rate: Some(0),
            burst: None,
            read_after_write_lag: lag,
        };
        let calls = Some(CallRate {
            per_second: 1,
            burst: 1,
        });
        let mistake = "spec.api.rate must be at least 1".to_owned();
        assert_eq!(
            limits(&wrong),
            (
                ApiLimits {
                    calls,
                    read_after_write_lag: Duration::from_secs(2)
                },
                Some(mistake)
            )
        );
    }
}
