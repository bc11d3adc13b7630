//! The answers of the cloud.

use nephele_model::{CloudError, SimTime};
use serde::{Deserialize, Serialize};

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The request is done, or has begun. The answer to a read may be fetched.
    Accepted,
    /// The cloud was already in the requested state.
    AlreadyDone,
    /// Nothing was done yet; ask again later.
    Delayed { until: SimTime },
    /// The cloud refuses.
    Refused(CloudError),
}
