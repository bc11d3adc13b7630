//! Answers requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{body::Body, extract::State};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use jiff::Timestamp;
use serde_json::json;

use super::{
    discovery,
    impersonate::{Requester, requester},
    negotiate, openapi,
    query::Options,
    read,
    request::RequestInfo,
    status::{ApiError, bytes_response, json_response},
    subresource::review,
    view::View,
    watch,
    write::Write,
};
use crate::{
    parse_cost::LARGE_BYTES,
    registry::ResourceType,
    store::{GroupResource, Key, Part, Store},
};

/// How many times as long it takes to parse a byte as to hand it out.
const READ_WEIGHT: usize = 16;

/// The API server of one cluster: a store and its settings. Cheap to clone, holds no connection.
#[derive(Clone)]
pub struct ApiServer {
    store: Arc<Store>,
    settings: Arc<Settings>,
    port_forward: Option<Arc<dyn PortForward>>,
}

/// The settings of an API server. Several servers may share them.
#[derive(Clone)]
pub struct Settings {
    pub version: Version,
    pub authentication: Authentication,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub observer: Option<Arc<dyn RequestObserver>>,
}

/// A Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub major: String,
    pub minor: String,
    pub git_version: String,
}

/// Who may send requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// Everybody.
    AllowAll,
    /// Requests that carry a [`UserInfo`] extension, set by the code that terminates TLS. `/healthz`, `/livez`,
    /// `/readyz` and `/version` answer everybody, as with kubeadm's default configuration.
    Required,
}

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub name: String,
    pub groups: Vec<String>,
}

/// The backend of `pods/portforward`.
pub trait PortForward: Send + Sync {
    /// Answers a request, GET (WebSocket) or POST (SPDY), for a pod that exists.
    fn handle(
        &self,
        namespace: String,
        pod: String,
        request: Request<Body>,
    ) -> BoxFuture<'static, Response<Body>>;
}

/// Receives each answered request, for metrics. A watch counts as answered when it starts.
pub trait RequestObserver: Send + Sync {
    /// `request` was answered with `code` after `duration`.
    fn observe(&self, request: &RequestInfo, code: u16, duration: Duration);
}

impl ApiServer {
    /// Serves `store`.
    #[must_use]
    pub fn new(store: Arc<Store>, settings: Arc<Settings>) -> Self {
        Self {
            store,
            settings,
            port_forward: None,
        }
    }

    /// Lets `port_forward` answer `pods/portforward`; without it the answer is 404.
    #[must_use]
    pub fn with_port_forward(mut self, port_forward: Arc<dyn PortForward>) -> Self {
        self.port_forward = Some(port_forward);
        self
    }

    /// The store behind the server.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A router for callers that serve one cluster only. Many clusters share [`ApiServer::handle`] instead: a
    /// router for each would cost more than its objects do.
    pub fn router(&self) -> axum::Router {
        async fn serve(State(server): State<ApiServer>, request: Request<Body>) -> Response<Body> {
            server.handle(request).await
        }
        axum::Router::new().fallback(serve).with_state(self.clone())
    }

    /// Answers one request.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let started = Instant::now();
        let info = RequestInfo::of(&request);
        let response = self
            .answer(&info, request)
            .await
            .unwrap_or_else(|error| error.response());
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
        let requester = requester(user, request.headers())?;
        if request.uri().path().starts_with("/openapi/v3/") {
            // A document is made of many definitions, which are parsed for it.
            let _place = self.store.allowance().place()?;
            let server = self.clone();
            return self
                .store
                .allowance()
                .large_part(move || server.plain_path(&request))
                .await;
        }
        if !info.is_resource() {
            return self.plain_path(&request);
        }
        if info.resource == "pods" && info.group.is_empty() && info.subresource == "portforward" {
            let pod = Key::new("", "pods", &info.namespace, &info.name);
            read::find(&self.store, &pod)?;
            let port_forward = self.port_forward.as_ref().ok_or_else(ApiError::unknown_path)?;
            if !matches!(info.verb, "get" | "create") {
                return Err(ApiError::method_not_allowed());
            }
            return Ok(port_forward.handle(pod.namespace, pod.name, request).await);
        }
        let (parts, body) = request.into_parts();
        let allowance = self.store.allowance();
        let place = allowance.place()?;
        // The body's memory stays reserved until the response is built.
        let body = allowance.read(body).await?;
        let response = if self.weight(info, &parts, body.bytes.len()) > LARGE_BYTES {
            let server = self.clone();
            let info = info.clone();
            let work = move |body: &Bytes| server.answer_resource(&info, &parts, body, &requester);
            allowance.large(body, work).await?
        } else {
            allowance
                .small(&body, || {
                    self.answer_resource(info, &parts, &body.bytes, &requester)
                })
                .await?
        };
        drop(place);
        if is_write(info.verb) && discovery::review_named(&info.group, &info.resource).is_none() {
            // Other clients may see the change before it is kept. Only its writer waits until it is kept.
            self.store
                .kept()
                .await
                .map_err(|error| ApiError::not_kept(&error))?;
        }
        Ok(response)
    }

    /// How many bytes a request works on: its body, and the stored objects that are parsed for it.
    fn weight(&self, info: &RequestInfo, parts: &Parts, body: usize) -> usize {
        let reads = match info.verb {
            // These hand out the bytes of objects as they are, mostly.
            "get" | "list" => {
                let as_is = parts
                    .headers
                    .get(header::ACCEPT)
                    .is_none_or(|accept| accept.to_str().is_ok_and(|accept| !accept.contains("as=")));
                let selects = parts
                    .uri
                    .query()
                    .is_some_and(|query| query.contains("fieldSelector"));
                let kind = self
                    .store
                    .resource_type(&GroupResource::new(&info.group, &info.resource));
                let converts = kind.is_some_and(|kind| {
                    kind.conversion.is_some() && kind.versions.first() != Some(&info.version)
                });
                if as_is && !selects && !converts {
                    1
                } else {
                    READ_WEIGHT
                }
            }
            "create" => 0,
            _ => READ_WEIGHT,
        };
        if reads == 0 || info.verb == "watch" {
            return body;
        }
        let name = Some(info.name.as_str()).filter(|name| !name.is_empty());
        // Events have two groups and one collection.
        let group = if info.group == "events.k8s.io" {
            ""
        } else {
            &info.group
        };
        let resource = GroupResource::new(group, &info.resource);
        let bytes = match name.filter(|_| info.verb == "delete") {
            Some(name) => self.store.bytes_deleted_with(&resource, &info.namespace, name),
            None => self.store.bytes_of(&resource, &info.namespace, name),
        };
        body.saturating_add(bytes / READ_WEIGHT * reads)
    }

    fn answer_resource(
        &self,
        info: &RequestInfo,
        parts: &Parts,
        body: &Bytes,
        requester: &Requester,
    ) -> Result<Response<Body>, ApiError> {
        let options = Options::parse(parts.uri.query())?;
        let shape = negotiate::shape(&parts.headers)?;
        let now = (self.settings.clock)();
        if let Some(reviewed) = discovery::review_named(&info.group, &info.resource) {
            return answer_review(reviewed, info, parts, requester, body);
        }
        let kind = read::served(&self.store, info)?;
        self.check_request(&kind, info)?;
        let view = View::new(kind.clone(), &info.version, shape, &options);
        let key = read::key(&kind, info);
        let get = || -> Result<Response<Body>, ApiError> {
            Ok(view.response(StatusCode::OK, &*read::find(&self.store, &key)?, now))
        };
        let headers = &parts.headers;
        let write = |view: &View| Write {
            store: &self.store,
            info,
            options: &options,
            headers,
            view: view.clone(),
            key: key.clone(),
            body,
            now,
            api_version: kind.api_version(&info.version),
        };
        match (info.subresource.as_str(), info.verb) {
            ("", "get") => get(),
            ("", "list") => {
                let page = read::select(&self.store, &kind, info, &options)?;
                Ok(bytes_response(
                    StatusCode::OK,
                    view.list(&page.objects, &page.metadata(), now),
                ))
            }
            ("", "watch") => {
                let place = self.store.allowance().watch()?;
                watch::watch(&self.store, info, &options, view, &self.settings.clock, place)
            }
            ("", "create") if info.resource == "bindings" && info.group.is_empty() => {
                write(&view).bind_named()
            }
            ("", "create") if info.name.is_empty() => write(&view).create(),
            ("", "update") if !info.name.is_empty() => write(&view).update(Part::Main),
            ("", "patch") if !info.name.is_empty() => write(&view).patch(Part::Main),
            ("", "delete") => write(&view).delete(),
            ("", "deletecollection") => write(&view).delete_collection(),
            ("", _) => Err(ApiError::method_not_allowed()),
            ("status", verb) if kind.status => match verb {
                "get" => get(),
                "update" => write(&view).update(Part::Status),
                "patch" => write(&view).patch(Part::Status),
                _ => Err(ApiError::method_not_allowed()),
            },
            (name, verb) if kind.subresources.contains(&name) => match (name, verb) {
                // Conditions are the only field of the status that an approval changes upstream.
                ("approval", "get") => get(),
                ("approval", "update") => write(&view).update(Part::Status),
                ("approval", "patch") => write(&view).patch(Part::Status),
                ("scale", _) => write(&view).scale(&parts.method),
                ("eviction", "create") => write(&view).evict(),
                ("binding", "create") => write(&view).bind(),
                ("log", "get") => read::find(&self.store, &key).map(|_| text_response(String::new())),
                _ => Err(ApiError::method_not_allowed()),
            },
            _ => Err(ApiError::unknown_path()),
        }
    }

    /// Checks that a kind can be asked for what a request asks for, and that the store takes writes.
    fn check_request(&self, kind: &ResourceType, info: &RequestInfo) -> Result<(), ApiError> {
        if !kind.namespaced && !info.namespace.is_empty() {
            return Err(ApiError::unknown_path());
        }
        // Across namespaces, a namespaced kind can only be listed and watched.
        if kind.namespaced && info.namespace.is_empty() && !matches!(info.verb, "list" | "watch") {
            return Err(ApiError::method_not_allowed());
        }
        if info.subresource.is_empty() && !kind.verbs.contains(&info.verb) {
            return Err(ApiError::method_not_allowed());
        }
        if is_write(info.verb) {
            self.store
                .admits()
                .map_err(|error| ApiError::not_admitted(&error))?;
        }
        Ok(())
    }

    /// Answers paths that need no authentication.
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
                Some(text_response(text))
            }
            "/version" => {
                let Version {
                    major,
                    minor,
                    git_version,
                } = &self.settings.version;
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

    /// Answers paths that are not resource paths.
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
        openapi::answer(
            &self.store,
            &self.settings.version.git_version,
            path,
            request.headers(),
        )
        .or_else(|| discovery::answer(&self.store, path, request.headers()))
        .ok_or_else(ApiError::unknown_path)
    }
}

fn answer_review(
    reviewed: &discovery::Review,
    info: &RequestInfo,
    parts: &Parts,
    requester: &Requester,
    body: &Bytes,
) -> Result<Response<Body>, ApiError> {
    if info.version != "v1" || reviewed.namespaced == info.namespace.is_empty() {
        return Err(ApiError::unknown_path());
    }
    let api_version = format!("{}/v1", reviewed.group);
    match info.verb {
        "create" => review(&api_version, reviewed.kind, requester, &parts.headers, body),
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn text_response(text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn is_write(verb: &str) -> bool {
    matches!(
        verb,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    )
}
