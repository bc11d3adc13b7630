//! When to call the cloud again after it refused or delayed an operation.

use nephele_cloud::ErrorClass;
use nephele_kit::Outcome;

/// When to call again, by the class of the error. Errors that only a change can remove wait for that change.
pub(crate) fn retry(class: ErrorClass) -> Outcome {
    match class {
        ErrorClass::RetryAfter(after) => Outcome::After(after),
        ErrorClass::WaitForChange | ErrorClass::GiveUp => Outcome::WaitingOn("change"),
    }
}
