//! What both kinds of reviews come in.

use serde::{Deserialize, de::DeserializeOwned};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<R> {
    api_version: String,
    kind: String,
    request: R,
}

/// The request of a review; each has a uid, by which it is answered.
pub(crate) trait Request: DeserializeOwned {
    fn uid(&self) -> &str;
}

/// Reads a review of this version and kind. The text says what is wrong with what is none.
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
