//! Times in objects.

use jiff::Timestamp;

/// A time in RFC 3339 with seconds, as Kubernetes writes it.
pub(crate) fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
