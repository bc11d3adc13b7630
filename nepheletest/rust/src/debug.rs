//! What a failed test shows of an error: `unwrap`, `expect` and `?` in a test print its `Debug` form.

use std::{error::Error, fmt};

/// Writes an error and its causes in words.
pub(crate) fn write(error: &dyn Error, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "{error}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(formatter, "\n  caused by: {error}")?;
        cause = error.source();
    }
    Ok(())
}

/// Implements `Debug` for errors with [`write()`].
macro_rules! in_words {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::debug::write(self, formatter)
            }
        })+
    };
}
pub(crate) use in_words;
