//! Finds the object or objects of a request.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::StatusCode;
use serde_json::{Value, json};

use super::{convert::stored_in, query::Options, request::RequestInfo, status::ApiError};
use crate::{
    registry::ResourceType,
    store::{GroupResource, Key, Object, Store, StoreError},
};

/// The kind of a request, if it is served in the requested version.
pub(crate) fn served(store: &Store, info: &RequestInfo) -> Result<Arc<ResourceType>, ApiError> {
    let resource = GroupResource::new(&info.group, &info.resource);
    store
        .resource_type(&resource)
        .filter(|kind| kind.versions.contains(&info.version))
        .ok_or_else(ApiError::unknown_path)
}

/// The key of the object of a request.
pub(crate) fn key(kind: &ResourceType, info: &RequestInfo) -> Key {
    Key {
        resource: stored_in(kind),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
    }
}

pub(crate) fn find(store: &Store, key: &Key) -> Result<Arc<Object>, ApiError> {
    store.get(key).ok_or_else(|| {
        StoreError::NotFound {
            resource: key.resource.clone(),
            name: key.name.clone(),
        }
        .into()
    })
}

/// One page of a list.
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) resource_version: u64,
    continue_token: Option<String>,
    /// How many objects follow this page. None for a list with selectors.
    remaining: Option<usize>,
}

impl Page {
    /// The metadata of the list.
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.resource_version.to_string()});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = token.as_str().into();
            if let Some(remaining) = self.remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        metadata
    }
}

/// The objects of a list request.
pub(crate) fn select(
    store: &Store,
    kind: &ResourceType,
    info: &RequestInfo,
    options: &Options,
) -> Result<Page, ApiError> {
    options.fields.check(kind, &info.version)?;
    let resource = stored_in(kind);
    let namespace = Some(info.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let start = options.continue_token.as_deref().map(Token::parse).transpose()?;
    let newest = store.resource_version();
    let wanted = start
        .as_ref()
        .map(|token| token.version)
        .or(options.resource_version);
    if let Some(wanted) = wanted.filter(|&wanted| wanted > newest) {
        return Err(too_large(wanted, newest));
    }
    // Later pages, and lists of an exact version, show the past.
    let past = match &start {
        Some(token) => Some(token.version),
        None => options.resource_version.filter(|_| options.exact),
    };
    let after = start
        .as_ref()
        .map(|token| (token.after.0.as_str(), token.after.1.as_str()));
    let (mut objects, resource_version) = match past {
        None => {
            let listed = store.list(&resource, namespace);
            (listed.objects, listed.resource_version)
        }
        Some(version) => {
            let listed = store.list_at(&resource, namespace, version, after, usize::MAX).map_err(|expired| {
            let mut error = ApiError::from(expired);
            if start.is_some() {
                "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter."
                    .clone_into(&mut error.message);
            }
            error
            })?;
            (listed, version)
        }
    };
    objects.retain(|object| options.labels.matches(object) && options.fields.matches(kind, object));
    let limit = options.limit.unwrap_or(usize::MAX);
    let remaining = objects.len().saturating_sub(limit);
    objects.truncate(limit);
    let continue_token = objects.last().filter(|_| remaining > 0).map(|last| {
        Token {
            version: resource_version,
            after: (last.namespace.to_string(), last.name.to_string()),
        }
        .render()
    });
    let everything = options.labels.is_everything() && options.fields.is_everything();
    Ok(Page {
        objects,
        resource_version,
        continue_token,
        remaining: everything.then_some(remaining),
    })
}

/// The client has seen a version that this server has not reached.
fn too_large(wanted: u64, newest: u64) -> ApiError {
    let mut error = ApiError::new(
        StatusCode::GATEWAY_TIMEOUT,
        "Timeout",
        format!("Too large resource version: {wanted}, current: {newest}"),
    );
    error.details = json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    });
    error
}

/// Where the next page begins.
struct Token {
    version: u64,
    after: (String, String),
}

impl Token {
    fn render(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!([self.version, self.after.0, self.after.1]).to_string())
    }

    fn parse(token: &str) -> Result<Self, ApiError> {
        let parsed = URL_SAFE_NO_PAD
            .decode(token)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<(u64, String, String)>(&bytes).ok());
        let (version, namespace, name) =
            parsed.ok_or_else(|| ApiError::bad_request("continue key is not valid"))?;
        Ok(Self {
            version,
            after: (namespace, name),
        })
    }
}
