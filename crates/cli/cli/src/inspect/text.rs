//! Words.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The time since then, in one or two units, as kubectl shows it.
pub(super) fn age(since: Option<&Time>, now: Timestamp) -> String {
    let Some(since) = since else {
        return "<unknown>".to_owned();
    };
    let seconds = now.as_second().saturating_sub(since.0.as_second()).max(0);
    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let days = seconds / 86_400;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 != 0 => format!("{days}d{}h", hours % 24),
        172_800..63_072_000 => format!("{days}d"),
        _ => format!("{}y", days / 365),
    }
}

/// The text in one line.
pub(super) fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text, or what stands for none.
pub(super) fn or_dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_that_of_kubectl() {
        let now: Timestamp = "2026-03-04T00:00:00Z".parse().expect("a time");
        let of = |seconds: i64| age(Some(&Time(now - jiff::SignedDuration::from_secs(seconds))), now);
        let ages = [
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (7_300, "121m"),
        ];
        for (seconds, text) in ages {
            assert_eq!(of(seconds), text);
        }
        let ages = [
            (10_860, "3h1m"),
            (90_000, "25h"),
            (176_400, "2d1h"),
            (864_000, "10d"),
            (-5, "0s"),
        ];
        for (seconds, text) in ages {
            assert_eq!(of(seconds), text);
        }
        assert_eq!(age(None, now), "<unknown>");
    }
}
