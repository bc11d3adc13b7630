//! The envelope of both kinds of reviews.

use serde::{Deserialize, de::DeserializeOwned};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<R> {
    api_version: String,
    kind: String,
    request: R,
}

/// The request of a review; the answer carries its uid.
pub(crate) trait Request: DeserializeOwned {
    fn uid(&self) -> &str;
}

/// Reads a review of this version and kind. The error says what is wrong with the body.
pub(crate) fn open<R: Request>(body: &[u8], api_version: &str, kind: &str) -> Result<R, String> {
    let envelope: Envelope<R> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if (envelope.api_version.as_str(), envelope.kind.as_str()) != (api_version, kind) {
        return Err(format!(
            "expected {kind} of {api_version}, got {} of {}",
            envelope.kind, envelope.api_version
        ));
    }
    if envelope.request.uid().is_empty() {
        return Err("expected a request with a uid".to_owned());
    }
    Ok(envelope.request)
}
