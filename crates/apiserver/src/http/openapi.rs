//! OpenAPI documents without schemas, which `kubectl` requests before it creates or applies. It looks for the patch
//! operation of a kind and whether that takes `fieldValidation`; if so, it leaves validation to the server.

use std::collections::BTreeMap;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::field_manager::APPLY;
use super::status::json_response;
use crate::registry::ResourceType;
use crate::store::Store;

/// Answers `/openapi/…`. None if there is no such document.
pub(crate) fn answer(
    store: &Store,
    git_version: &str,
    path: &str,
    headers: &HeaderMap,
) -> Option<Response<Body>> {
    let info = json!({"title": "Kubernetes", "version": git_version});
    match path.strip_prefix("/openapi/")? {
        "v2" if wants_protobuf(headers) => Some(empty_v2(git_version)),
        "v2" => {
            let document = json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}});
            Some(json_response(StatusCode::OK, &document))
        }
        "v3" => {
            let paths: BTreeMap<_, _> = group_versions(store)
                .into_keys()
                .map(|path| {
                    let url = format!("/openapi/v3/{path}");
                    (path, json!({"serverRelativeURL": url}))
                })
                .collect();
            Some(json_response(StatusCode::OK, &json!({"paths": paths})))
        }
        rest => {
            let path = rest.strip_prefix("v3/")?;
            let kinds = group_versions(store).remove(path)?;
            let paths: BTreeMap<_, _> = kinds.iter().map(|kind| patch_operation(path, kind)).collect();
            let document =
                json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}});
            Some(json_response(StatusCode::OK, &document))
        }
    }
}

type Kinds = Vec<std::sync::Arc<ResourceType>>;

/// Kinds by the path of their group and version.
fn group_versions(store: &Store) -> BTreeMap<String, Kinds> {
    let mut paths: BTreeMap<String, Kinds> = BTreeMap::new();
    for kind in store.resource_types() {
        for version in &kind.versions {
            let path = match kind.group.as_str() {
                "" => format!("api/{version}"),
                group => format!("apis/{group}/{version}"),
            };
            paths.entry(path).or_default().push(kind.clone());
        }
    }
    paths
}

fn patch_operation(path: &str, kind: &ResourceType) -> (String, Value) {
    let namespace = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
    let version = path.rsplit('/').next().unwrap_or_default();
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let strategic = (!kind.custom).then_some("application/strategic-merge-patch+json");
    let formats = ["application/json-patch+json", "application/merge-patch+json", APPLY];
    let content: Map<_, _> = formats
        .into_iter()
        .chain(strategic)
        .map(|format| (format.to_owned(), json!({"schema": {"type": "object"}})))
        .collect();
    let operation = json!({"patch": {
        "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation"), parameter("force")],
        "requestBody": {"content": content, "required": true},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": version, "kind": kind.kind},
    }});
    (format!("/{path}/{namespace}{}/{{name}}", kind.plural), operation)
}

fn wants_protobuf(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.contains("proto-openapi")
}

/// An `openapi.v2.Document` with `swagger` (1) and `info` (2) of `title` (1) and `version` (2) only
/// (`google/gnostic-models/openapiv2/OpenAPIv2.proto`).
fn empty_v2(git_version: &str) -> Response<Body> {
    let field = |number: u8, bytes: &[u8]| {
        // Versions and titles are far below the 128 bytes that a one-byte length can express.
        let bytes = &bytes[..bytes.len().min(100)];
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap_or(100)];
        out.extend_from_slice(bytes);
        out
    };
    let info = [field(1, b"Kubernetes"), field(2, git_version.as_bytes())].concat();
    let mut response = Response::new(Body::from([field(1, b"2.0"), field(2, &info)].concat()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf"),
    );
    response
}
