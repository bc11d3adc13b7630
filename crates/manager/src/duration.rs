use std::time::Duration;

/// Why a text is no duration.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("failed to read {0:?} as a duration such as 10m, 1h30m, 1.5s or 250ms")]
pub struct DurationError(String);

/// Reads a duration as Go's flags have it: numbers with a unit each, one after the other; `0` needs no unit.
/// Negative ones are refused, as no flag of ours has a use for them.
///
/// # Errors
///
/// When the text is not such a duration, or too long to be one.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let failed = || DurationError(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(failed)?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| failed())?;
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        seconds += number * unit_seconds(unit).ok_or_else(failed)?;
        rest = after;
    }
    if text.is_empty() {
        return Err(failed());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| failed())
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let millis = |millis| Ok(Duration::from_millis(millis));
        let refused = |text: &str| Err(DurationError(text.to_owned()));
        let cases = [
            ("0", millis(0)),
            ("0s", millis(0)),
            ("15s", millis(15_000)),
            ("10m", millis(600_000)),
            ("600s", millis(600_000)),
            ("1h30m", millis(5_400_000)),
            ("1m0.5s", millis(60_500)),
            ("250ms", millis(250)),
            ("", refused("")),
            ("10", refused("10")),
            ("s", refused("s")),
            ("-1s", refused("-1s")),
            ("1 s", refused("1 s")),
            ("1.2.3s", refused("1.2.3s")),
            ("99999999999999999999h", refused("99999999999999999999h")),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text), expected, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.hmsnuµ -]{0,12}") {
            let _ = parse_duration(&text);
        }
    }
}
