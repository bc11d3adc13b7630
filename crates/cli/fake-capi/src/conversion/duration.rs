//! Durations, which are texts of Go in `v1beta1`, and whole seconds of 32 bits in `v1beta2`.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// The whole seconds of a text, at most those of 32 bits. None if it is not a duration of zero or more.
pub(super) fn seconds(text: &str) -> Option<i32> {
    let duration = nephele_go_duration::parse(text).ok()?;
    Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX))
}

/// Seconds as Go writes them, such as `1h0m5s`. None for what [`seconds`] does not make.
pub(super) fn text(seconds: i64) -> Option<String> {
    i32::try_from(seconds).ok().filter(|seconds| *seconds >= 0)?;
    let hours = seconds / HOUR;
    let minutes = seconds % HOUR / MINUTE;
    let rest = seconds % MINUTE;
    Some(match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them_and_cut_to_whole_seconds() {
        for (given, kept, written) in [
            ("0", 0, "0s"),
            ("10s", 10, "10s"),
            ("300s", 300, "5m0s"),
            ("90m", 5400, "1h30m0s"),
            ("1h0m5.9s", 3605, "1h0m5s"),
            ("999ms", 0, "0s"),
            ("2562047h", i32::MAX, "596523h14m7s"),
        ] {
            assert_eq!(seconds(given), Some(kept), "{given}");
            assert_eq!(text(i64::from(kept)).as_deref(), Some(written), "{given}");
            assert_eq!(seconds(written), Some(kept), "{given}");
        }
        for odd in ["", "5", "-5s", "soon"] {
            assert_eq!(seconds(odd), None, "{odd}");
        }
        assert_eq!((text(-1), text(i64::from(i32::MAX) + 1)), (None, None));
    }
}
