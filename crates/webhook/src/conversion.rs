//! `ConversionReview`, version `apiextensions.k8s.io/v1`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::envelope;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";

/// A review as received.
#[derive(Debug)]
pub(crate) struct Review {
    pub(crate) uid: String,
    request: Request,
}

#[derive(Debug, Deserialize)]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    objects: Vec<Value>,
}

impl envelope::Request for Request {
    fn uid(&self) -> &str {
        &self.uid
    }
}

/// Reads a review. The error says what is wrong with the body.
pub(crate) fn read(body: &[u8]) -> Result<Review, String> {
    let request: Request = envelope::open(body, API_VERSION, KIND)?;
    Ok(Review { uid: request.uid.clone(), request })
}

impl Review {
    /// Converts every object to the desired version, in order. One failure fails the whole review.
    pub(crate) fn convert(
        self,
        one: impl Fn(Value, &str) -> Result<Value, String>,
    ) -> Result<Vec<Value>, String> {
        let Request { desired_api_version, objects, .. } = self.request;
        objects.into_iter().map(|object| one(object, &desired_api_version)).collect()
    }
}

/// The review that answers the request of this uid.
pub(crate) fn write(uid: &str, result: Result<Vec<Value>, String>) -> Value {
    let response = match result {
        Ok(objects) => json!({ "uid": uid, "convertedObjects": objects, "result": { "status": "Success" } }),
        Err(message) => json!({
            "uid": uid, "convertedObjects": [], "result": { "status": "Failure", "message": message },
        }),
    };
    json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response })
}
