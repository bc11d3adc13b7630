use std::time::Duration;

use nephele_runtime_sdk::wire::{DurationError, GoDuration};

/// Reads a duration as Go's flags have it. Negative ones are refused, as no flag of ours has a use for them.
///
/// # Errors
///
/// When the text is not such a duration, or too long to be one.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let GoDuration(duration) = text.parse()?;
    Ok(duration)
}
