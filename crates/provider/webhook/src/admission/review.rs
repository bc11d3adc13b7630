//! `AdmissionReview`, version `admission.k8s.io/v1`: reads requests and writes answers.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{AdmissionRequest, Change, Denial};
use crate::envelope;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A review, with its objects not yet parsed.
#[derive(Debug)]
pub(crate) struct Review {
    pub(crate) uid: String,
    request: Request,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    operation: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

impl envelope::Request for Request {
    fn uid(&self) -> &str {
        &self.uid
    }
}

#[derive(Debug, Default, Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
}

/// The result of a review.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Allowed { warnings: Vec<String> },
    Changed { patch: json_patch::Patch },
    Denied(Denial),
}

/// Reads a review. The error says what is wrong with the body.
pub(crate) fn read(body: &[u8]) -> Result<Review, String> {
    let request: Request = envelope::open(body, API_VERSION, KIND)?;
    Ok(Review {
        uid: request.uid.clone(),
        request,
    })
}

impl Review {
    /// The request with its objects.
    pub(crate) fn into_request<K: DeserializeOwned>(self) -> Result<AdmissionRequest<K>, Denial> {
        let Request {
            operation,
            name,
            namespace,
            user_info,
            dry_run,
            object,
            old_object,
            ..
        } = self.request;
        let change = match operation.as_str() {
            "CREATE" => Change::Create(object_of("object", object)?),
            "UPDATE" => Change::Update {
                old: object_of("oldObject", old_object)?,
                new: object_of("object", object)?,
            },
            "DELETE" => Change::Delete(object_of("oldObject", old_object)?),
            other => return Err(Denial::bad_request(format!("unknown operation {other:?}"))),
        };
        Ok(AdmissionRequest {
            name: name.unwrap_or_default(),
            namespace: namespace.filter(|namespace| !namespace.is_empty()),
            user: user_info.username,
            dry_run: dry_run.unwrap_or_default(),
            change,
        })
    }
}

fn object_of<K: DeserializeOwned>(field: &str, value: Value) -> Result<K, Denial> {
    serde_json::from_value(value)
        .map_err(|error| Denial::bad_request(format!("failed to read {field} of the request: {error}")))
}

/// The review that answers the request of this uid.
pub(crate) fn write(uid: &str, answer: Answer) -> Value {
    let mut response = json!({ "uid": uid, "allowed": true });
    match answer {
        Answer::Allowed { warnings } if warnings.is_empty() => {}
        Answer::Allowed { warnings } => response["warnings"] = warnings.into(),
        Answer::Changed { patch } if patch.0.is_empty() => {}
        Answer::Changed { patch } => {
            let patch = serde_json::to_vec(&patch).expect("a patch is JSON");
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch).into();
        }
        Answer::Denied(denial) => {
            response["allowed"] = false.into();
            response["status"] = serde_json::to_value(denial.status()).expect("a status is JSON");
        }
    }
    json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response })
}
