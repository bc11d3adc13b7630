//! People who use the page of this manager, each with their own token.
//!
//! Whoever may read the journal may open the page: all of it with the path, or the part of a namespace with its InMemoryClusters.
//! What else they see, and what they can do, the API server decides: their client has their token, and nothing of the manager's.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Extension, Router,
    body::Body,
    http::{Request, Response, StatusCode},
    response::IntoResponse as _,
    routing::get,
};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use nephele_access::Server;
use prometheus::IntCounterVec;
use tokio::sync::Semaphore;
use tower::{ServiceExt as _, util::MapResponseLayer};

use super::{
    namespace::Namespace,
    reviews::{AccessRequest, Judgement, Permission, ReviewError, Reviews, Verdict},
    serve::CallerAddress,
};
use crate::{
    core_version,
    managed_fields::emptied,
    throttle::{RequestRate, ThrottleLayer},
};

/// The rate of requests with the token of one visitor: lists of all that the page shows, and then what a person clicks.
const VISITOR_RATE: RequestRate = RequestRate {
    per_second: 10.0,
    burst: 40,
};
/// The bytes of an answer to a visitor's request that is no watch. Lists are read fifty objects at a time, which have 250 KiB.
const ANSWER_MAX: usize = 1024 * 1024;
/// Such answers that are under way for all visitors.
const ANSWERS_MAX: usize = 8;
/// What a visitor has to be allowed to read.
const JOURNAL: &str = "/journal";

/// The management API, for clients of visitors.
#[derive(Clone)]
pub struct ForVisitors {
    pub(crate) server: Server,
    pub(crate) requests: IntCounterVec,
    pub(crate) host: String,
    pub(crate) answers: Arc<Semaphore>,
}

/// Lets visitors in.
#[derive(Clone)]
pub struct Visitors {
    pub(crate) reviews: Reviews,
    pub(crate) journal: Router,
    pub(crate) management: ForVisitors,
}

/// Someone who may use the page.
pub struct Visitor {
    /// A client with their token.
    pub client: Client,
    /// `/journal`, the part that they may read, for as long as they may.
    pub journal: Router,
    permission: Permission,
}

/// Why someone may not use the page.
#[derive(Debug, thiserror::Error)]
pub enum VisitorError {
    /// Not the name of a namespace.
    #[error("failed to read the namespace")]
    Namespace(String),
    /// The API server does not know the token.
    #[error("the API server does not know the token")]
    UnknownToken,
    /// What the user lacks: a verb and a resource.
    #[error("the user may not {0}")]
    Forbidden(String),
    /// Too many reviews are in flight.
    #[error("too many reviews are in flight")]
    Busy,
    /// The management API did not answer.
    #[error("failed to review the visitor")]
    Review(#[source] kube::Error),
    /// The token cannot be sent.
    #[error("failed to set up a client with the token")]
    Client(#[source] kube::Error),
}

impl Visitor {
    /// A digest of the name of the user.
    #[must_use]
    pub fn user(&self) -> [u8; 32] {
        self.permission.allowed.user.digest()
    }

    /// Waits until they may not use the page any more.
    pub async fn ended(self) {
        self.permission.ended().await;
    }
}

impl Visitors {
    /// Someone with a token, who comes from this address to see a namespace, or all.
    ///
    /// # Errors
    /// When the API server does not know the token, or the user may not read the journal of the namespace.
    pub async fn admit(
        &self,
        token: &str,
        namespace: Option<&str>,
        from: IpAddr,
    ) -> Result<Visitor, VisitorError> {
        if token.is_empty() {
            return Err(VisitorError::UnknownToken);
        }
        let namespace = namespace
            .map(|namespace| Namespace::try_from(namespace.to_owned()))
            .transpose()
            .map_err(|error| VisitorError::Namespace(error.to_string()))?;
        let access = AccessRequest {
            token: token.to_owned(),
            audience: None,
            path: JOURNAL.to_owned(),
            verb: "get".to_owned(),
            namespace: namespace.clone(),
        };
        let reviewed = self.reviews.judge(&access, Some(CallerAddress(from))).await;
        let judgement = reviewed.map_err(|error| match error {
            ReviewError::Busy => VisitorError::Busy,
            ReviewError::Api(error) => VisitorError::Review(error),
        })?;
        let Judgement { verdict, until } = judgement;
        let allowed = match verdict {
            Verdict::Allowed(allowed) => allowed,
            Verdict::Unauthenticated => return Err(VisitorError::UnknownToken),
            Verdict::Forbidden => return Err(VisitorError::Forbidden(lacking(namespace.as_ref()))),
        };
        let permission = Permission {
            reviews: self.reviews.clone(),
            access,
            allowed,
            until,
        };
        Ok(Visitor {
            client: self.management.client(token).map_err(VisitorError::Client)?,
            journal: of_visitor(&self.journal, permission.clone(), namespace.as_ref()),
            permission,
        })
    }
}

impl ForVisitors {
    pub(crate) fn new(server: Server, requests: IntCounterVec, host: String) -> Self {
        Self {
            server,
            requests,
            host,
            answers: Arc::new(Semaphore::new(ANSWERS_MAX)),
        }
    }

    fn client(&self, token: &str) -> kube::Result<Client> {
        let builder = self.server.with_token(token).builder()?;
        let builder = builder.with_layer(&MapResponseLayer::new(emptied));
        let throttled = ThrottleLayer::new(VISITOR_RATE, self.requests.clone(), &self.host);
        let client = builder.with_layer(&throttled).build();
        Ok(core_version::speaking(bounded(client, Arc::clone(&self.answers))))
    }
}

/// A client whose answers have a bound: watches alone may last.
fn bounded(client: Client, answers: Arc<Semaphore>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let client = client.clone();
        let answers = Arc::clone(&answers);
        async move {
            let query = request.uri().query().unwrap_or_default();
            if form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "watch") {
                return client.send(request).await;
            }
            let _place = answers.acquire().await;
            let (head, body) = client.send(request).await?.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await;
            let body = body.map_err(kube::Error::Service)?;
            Ok(Response::from_parts(
                head,
                kube::client::Body::from(body.to_bytes()),
            ))
        }
    });
    Client::new(service, namespace)
}

/// What a user lacks who may not use the page.
fn lacking(namespace: Option<&Namespace>) -> String {
    match namespace {
        Some(namespace) => format!("get inmemoryclusters in namespace {}", namespace.as_str()),
        None => format!("get {JOURNAL} of the manager, which shows all namespaces: name one"),
    }
}

/// The journal for a visitor, whatever they ask for.
fn of_visitor(journal: &Router, permission: Permission, namespace: Option<&Namespace>) -> Router {
    let journal = journal.clone().layer(Extension(permission));
    let path = match namespace {
        Some(namespace) => format!("{JOURNAL}?follow=true&namespace={}", namespace.as_str()),
        None => format!("{JOURNAL}?follow=true"),
    };
    let ask = move || {
        let journal = journal.clone();
        let path = path.clone();
        async move {
            let Ok(request) = Request::get(path).body(Body::empty()) else {
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            };
            let answer: Response<Body> = match journal.oneshot(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            answer
        }
    };
    Router::new().route(JOURNAL, get(ask))
}

#[cfg(test)]
mod tests;
