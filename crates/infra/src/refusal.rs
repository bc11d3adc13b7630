//! When to ask the cloud again that refused or delayed something.

use nephele_cloud::ErrorClass;
use nephele_kit::Outcome;

/// When to ask again, by what the error says. What only a change can help waits for that.
pub(crate) fn retry(class: ErrorClass) -> Outcome {
    match class {
        ErrorClass::RetryAfter(after) => Outcome::After(after),
        ErrorClass::WaitForChange | ErrorClass::GiveUp => Outcome::WaitingOn("change"),
    }
}
