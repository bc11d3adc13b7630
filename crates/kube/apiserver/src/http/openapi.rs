//! OpenAPI documents. `kubectl` requests them before it creates or applies: it looks for the patch operation of a kind and
//! whether that takes `fieldValidation`; if so, it leaves validation to the server. `kubectl explain` shows their schemas:
//! those of custom kinds with the descriptions of their definitions, those of built-in kinds without descriptions.

use std::collections::BTreeMap;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::{field_manager::APPLY, status::json_response};
use crate::{
    parse_cost::are_too_dense,
    protobuf::open_api,
    registry::ResourceType,
    store::{Store, definition_key},
};

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
            let version = path.rsplit('/').next().unwrap_or_default();
            let schemas = schemas(store, version, &kinds);
            let document =
                json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}});
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

/// How many bytes of definitions a document describes at most. The schemas of all of Cluster API have fewer. Their parse is
/// bounded like that of a body.
const DEFINITIONS_MAX: usize = 4 * 1024 * 1024;

fn schemas(store: &Store, version: &str, kinds: &Kinds) -> Map<String, Value> {
    let built_in = kinds.iter().filter(|kind| !kind.custom);
    let mut schemas = open_api::schemas(built_in.map(|kind| (&*kind.group, version, &*kind.kind)));
    let custom: Vec<_> = kinds.iter().filter(|kind| kind.custom).collect();
    let names = custom
        .iter()
        .map(|kind| format!("{}.{}", kind.plural, kind.group));
    let definitions: Vec<_> = names.map(|name| store.get(&definition_key(&name))).collect();
    let bytes: usize = definitions
        .iter()
        .flatten()
        .map(|definition| definition.bytes.len())
        .sum();
    let stored = definitions.iter().flatten().map(|definition| &*definition.bytes);
    if custom.is_empty() || bytes > DEFINITIONS_MAX || are_too_dense(stored) {
        return schemas;
    }
    schemas.extend(open_api::metadata());
    for (kind, definition) in custom.into_iter().zip(definitions) {
        let schema = definition.and_then(|definition| schema_of(definition.value(), version));
        let mut schema = schema.unwrap_or_else(|| json!({"type": "object"}));
        let object = json!({"$ref": "#/components/schemas/ObjectMeta"});
        let text = json!({"type": "string"});
        let Some(fields) = schema.as_object_mut() else {
            continue;
        };
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("metadata".to_owned(), object);
            for field in ["apiVersion", "kind"] {
                properties.entry(field).or_insert_with(|| text.clone());
            }
        }
        fields.insert(
            "x-kubernetes-group-version-kind".to_owned(),
            json!([{"group": kind.group, "version": version, "kind": kind.kind}]),
        );
        // As upstream names them: `io.x-k8s.cluster.v1beta2.Machine`.
        let group: Vec<_> = kind.group.rsplit('.').collect();
        schemas.insert(format!("{}.{version}.{}", group.join("."), kind.kind), schema);
    }
    schemas
}

/// The schema of a version of a definition.
fn schema_of(mut definition: Value, version: &str) -> Option<Value> {
    let versions = definition["spec"]["versions"].as_array_mut()?;
    let found = versions.iter_mut().find(|found| found["name"] == version)?;
    Some(found.get_mut("schema")?.get_mut("openAPIV3Schema")?.take()).filter(Value::is_object)
}

fn patch_operation(path: &str, kind: &ResourceType) -> (String, Value) {
    let namespace = if kind.namespaced {
        "namespaces/{namespace}/"
    } else {
        ""
    };
    let version = path.rsplit('/').next().unwrap_or_default();
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let strategic = (!kind.custom).then_some("application/strategic-merge-patch+json");
    let formats = [
        "application/json-patch+json",
        "application/merge-patch+json",
        APPLY,
    ];
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
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
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
