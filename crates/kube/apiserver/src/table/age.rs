//! Ages, as `kubectl` shows them (`apimachinery/pkg/util/duration.HumanDuration`).

use jiff::Timestamp;

/// The time from an RFC 3339 instant to now. `<unknown>` if there is none, `<invalid>` if it cannot be parsed.
pub(super) fn age(since: Option<&str>, now: Timestamp) -> String {
    match since.map(str::parse::<Timestamp>) {
        Some(Ok(since)) => between(since, now),
        Some(Err(_)) => "<invalid>".to_owned(),
        None => "<unknown>".to_owned(),
    }
}

/// The time from one instant to another.
pub(super) fn between(since: Timestamp, until: Timestamp) -> String {
    human(until.duration_since(since).as_secs())
}

/// A number of seconds.
pub(super) fn human(seconds: i64) -> String {
    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let days = seconds / 86_400;
    let two = |whole: i64, unit: char, rest: i64, small: char| {
        if rest == 0 {
            format!("{whole}{unit}")
        } else {
            format!("{whole}{unit}{rest}{small}")
        }
    };
    match seconds {
        // Clocks may differ by two seconds.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_writes_them() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
            (-1, "0s"),
            (-2, "<invalid>"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn no_instant_is_unknown_and_nonsense_is_invalid() {
        let now: Timestamp = "2026-03-04T05:06:07.9Z".parse().unwrap();
        assert_eq!(age(Some("2026-03-04T05:06:00Z"), now), "7s");
        assert_eq!(age(None, now), "<unknown>");
        assert_eq!(age(Some("soon"), now), "<invalid>");
    }
}
