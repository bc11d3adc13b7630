//! Conversions between versions of a hook.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use crate::{hooks::Hook, wire};

/// Why a message cannot be converted to another version.
#[derive(Debug, Error)]
pub enum ConversionError {
    /// The other version cannot express the message.
    #[error("{0}")]
    Unsaid(String),
    /// The message is not the JSON of its version.
    #[error("failed to read or write the message")]
    Json(#[source] serde_json::Error),
}

/// Lets a caller with this version of a hook call an extension with another version. Requests are converted to the
/// extension's version, and responses are converted back.
pub trait Convert<Extension: Hook>: Hook {
    /// The request in the extension's version.
    ///
    /// # Errors
    /// When the extension's version cannot express the request.
    fn request(request: Self::Request) -> Result<Extension::Request, ConversionError>;

    /// The response in the caller's version.
    ///
    /// # Errors
    /// When the caller's version cannot express the response.
    fn response(response: Extension::Response) -> Result<Self::Response, ConversionError>;
}

/// Makes a conversion of JSON values from a conversion of types.
pub(super) fn value<From, To>(
    convert: fn(From) -> Result<To, ConversionError>,
) -> impl Fn(Value) -> Result<Value, ConversionError> + Send + Sync
where
    From: DeserializeOwned + 'static,
    To: Serialize + 'static,
{
    move |value| {
        let from = wire::from_value(value).map_err(ConversionError::Json)?;
        serde_json::to_value(convert(from)?).map_err(ConversionError::Json)
    }
}
