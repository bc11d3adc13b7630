//! From a request to an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use jiff::Timestamp;
use serde_json::json;

use super::query::Options;
use super::read::find;
use super::request::RequestInfo;
use super::status::{ApiError, json_response};
use super::write::Write;
use super::{discovery, negotiate, read, watch};
use crate::store::{Part, Store};

/// The largest request body, as the real server's: 3 MiB.
const BODY_MAX: usize = 3 * 1024 * 1024;

/// The API server of one cluster: a store and how it is served. Cheap to clone, holds no connection.
#[derive(Clone)]
pub struct ApiServer {
    store: Arc<Store>,
    settings: Arc<Settings>,
    port_forward: Option<Arc<dyn PortForward>>,
}

/// What the API servers of one process share.
#[derive(Clone)]
pub struct Settings {
    /// What `/version` says.
    pub version: Version,
    /// Who is let in.
    pub authentication: Authentication,
    /// The wall clock.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Told of each answered request.
    pub observer: Option<Arc<dyn RequestObserver>>,
}

/// A Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `1`.
    pub major: String,
    /// `36`.
    pub minor: String,
    /// `v1.36.3`.
    pub git_version: String,
}

/// Who is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// Everybody.
    AllowAll,
    /// Requests that carry a [`UserInfo`] extension, which whoever terminates TLS puts there. `/healthz`, `/livez`,
    /// `/readyz` and `/version` answer everybody, as kubeadm's default configuration does.
    Required,
}

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// User name.
    pub name: String,
    /// Groups.
    pub groups: Vec<String>,
}

/// What is behind `pods/portforward`.
pub trait PortForward: Send + Sync {
    /// Answers a request, GET (WebSocket) or POST (SPDY), for a pod that exists.
    fn handle(
        &self,
        namespace: String,
        pod: String,
        request: Request<Body>,
    ) -> BoxFuture<'static, Response<Body>>;
}

/// Told of each answered request, for metrics. A watch is answered when it begins.
pub trait RequestObserver: Send + Sync {
    /// `request` was answered with `code` after `duration`.
    fn observe(&self, request: &RequestInfo, code: u16, duration: Duration);
}

impl ApiServer {
    /// Serves `store`.
    #[must_use]
    pub fn new(store: Arc<Store>, settings: Arc<Settings>) -> Self {
        Self { store, settings, port_forward: None }
    }

    /// Lets `port_forward` answer `pods/portforward`, which is 404 without.
    #[must_use]
    pub fn with_port_forward(mut self, port_forward: Arc<dyn PortForward>) -> Self {
        self.port_forward = Some(port_forward);
        self
    }

    /// The store behind it.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The server as a router, for those who serve one cluster only. Many clusters share [`ApiServer::handle`]
    /// instead: a router of its own would cost each of them more than its objects do.
    pub fn router(&self) -> axum::Router {
        async fn serve(State(server): State<ApiServer>, request: Request<Body>) -> Response<Body> {
            server.handle(request).await
        }
        axum::Router::new().fallback(serve).with_state(self.clone())
    }

    /// Answers one request.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let started = Instant::now();
        let watch = request.uri().query().is_some_and(|query| query.split('&').any(is_watch));
        let info = RequestInfo::parse(request.method(), request.uri().path(), watch);
        let response = self.answer(&info, request).await.unwrap_or_else(|error| error.response());
        if let Some(observer) = &self.settings.observer {
            observer.observe(&info, response.status().as_u16(), started.elapsed());
        }
        response
    }

    async fn answer(&self, info: &RequestInfo, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        if let Some(response) = self.open_path(request.uri().path(), request.uri().query()) {
            return Ok(response);
        }
        let user = request.extensions().get::<UserInfo>().cloned();
        if self.settings.authentication == Authentication::Required && user.is_none() {
            return Err(ApiError::unauthorized());
        }
        if !info.is_resource() {
            return self.plain_path(&request);
        }
        if info.resource == "pods" && info.group.is_empty() && info.subresource == "portforward" {
            find(&self.store, info)?;
            let port_forward = self.port_forward.as_ref().ok_or_else(ApiError::unknown_path)?;
            return Ok(port_forward.handle(info.namespace.clone(), info.name.clone(), request).await);
        }
        let (parts, body) = request.into_parts();
        let options = Options::parse(parts.uri.query())?;
        let shape = negotiate::shape(&parts.headers)?;
        let body = read_body(body).await?;
        let now = (self.settings.clock)();
        let write = Write {
            store: &self.store,
            info,
            options: &options,
            headers: &parts.headers,
            shape,
            body: &body,
            now,
        };
        if let Some((_, _, kind)) = discovery::REVIEWS
            .iter()
            .find(|(group, plural, _)| *group == info.group && *plural == info.resource)
        {
            return if info.verb == "create" {
                write.review(kind, user.as_ref())
            } else {
                Err(ApiError::method_not_allowed())
            };
        }
        let kind = read::served(&self.store, info)?;
        match info.subresource.as_str() {
            "" => {}
            "status" if kind.status => {
                return match info.verb {
                    "get" => read::get(&self.store, info, &options, shape, now),
                    "update" => write.update(Part::Status),
                    "patch" => write.patch(Part::Status),
                    _ => Err(ApiError::method_not_allowed()),
                };
            }
            name if kind.subresources.contains(&name) => {
                return match (name, info.verb) {
                    ("scale", _) => write.scale(&parts.method),
                    ("eviction", "create") => write.evict(),
                    ("binding", "create") => write.bind(),
                    ("log", "get") => find(&self.store, info).map(|_| Response::new(Body::empty())),
                    _ => Err(ApiError::method_not_allowed()),
                };
            }
            _ => return Err(ApiError::unknown_path()),
        }
        // A namespaced kind is reached across namespaces by lists and watches only.
        let all_namespaces = kind.namespaced && info.namespace.is_empty();
        if all_namespaces && !matches!(info.verb, "list" | "watch") {
            return Err(ApiError::method_not_allowed());
        }
        if !kind.namespaced && !info.namespace.is_empty() {
            return Err(ApiError::unknown_path());
        }
        match info.verb {
            "get" => read::get(&self.store, info, &options, shape, now),
            "list" => read::list(&self.store, info, &options, shape, now),
            "watch" => watch::watch(&self.store, info, &options, shape, &self.settings.clock),
            "create" if info.name.is_empty() => write.create(),
            "update" if !info.name.is_empty() => write.update(Part::Main),
            "patch" if !info.name.is_empty() => write.patch(Part::Main),
            "delete" => write.delete(),
            "deletecollection" => write.delete_collection(),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// Paths that answer everybody.
    fn open_path(&self, path: &str, query: Option<&str>) -> Option<Response<Body>> {
        match path.trim_end_matches('/') {
            name @ ("/healthz" | "/livez" | "/readyz") => {
                let verbose = Options::parse(query).is_ok_and(|options| options.verbose);
                let word = &name[1..];
                let text = if verbose {
                    format!("[+]ping ok\n[+]etcd ok\n{word} check passed\n")
                } else {
                    "ok".to_owned()
                };
                let mut response = Response::new(Body::from(text));
                response.headers_mut().insert(
                    header::CONTENT_TYPE,
                    http::HeaderValue::from_static("text/plain; charset=utf-8"),
                );
                Some(response)
            }
            "/version" => {
                let Version { major, minor, git_version } = &self.settings.version;
                Some(json_response(
                    StatusCode::OK,
                    &json!({
                        "major": major, "minor": minor, "gitVersion": git_version, "gitCommit": "",
                        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "",
                        "compiler": "", "platform": "linux/amd64",
                    }),
                ))
            }
            _ => None,
        }
    }

    /// Paths that are no resource's.
    fn plain_path(&self, request: &Request<Body>) -> Result<Response<Body>, ApiError> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        let path = request.uri().path();
        if path == "/" {
            let paths = [
                "/api",
                "/api/v1",
                "/apis",
                "/healthz",
                "/livez",
                "/openapi/v2",
                "/openapi/v3",
                "/readyz",
                "/version",
            ];
            return Ok(json_response(StatusCode::OK, &json!({"paths": paths})));
        }
        let openapi = self.openapi(path, request.headers());
        openapi
            .or_else(|| discovery::answer(&self.store, path, request.headers()))
            .ok_or_else(ApiError::unknown_path)
    }

    /// Documents that name no schema: enough for clients that ask for one before they print or apply.
    fn openapi(&self, path: &str, _headers: &HeaderMap) -> Option<Response<Body>> {
        let info = json!({"title": "Kubernetes", "version": self.settings.version.git_version});
        let document = match path {
            "/openapi/v2" => json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}),
            "/openapi/v3" => json!({"paths": {}}),
            _ => return None,
        };
        Some(json_response(StatusCode::OK, &document))
    }
}

fn is_watch(pair: &str) -> bool {
    pair == "watch" || pair.strip_prefix("watch=").is_some_and(|value| !matches!(value, "false" | "0"))
}

async fn read_body(body: Body) -> Result<Bytes, ApiError> {
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(BODY_MAX)),
        Err(error) => Err(ApiError::bad_request(format!("failed to read the body: {error}"))),
    }
}
