//! The handlers of calls, and the dispatch to them.

use std::{
    any::Any,
    cell::Cell,
    collections::BTreeMap,
    fmt,
    future::ready,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::StatusCode;
use nephele_listen::{Owner, Parse, Turns, largest_parsed_size, parsed_size};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use tracing::error;

use crate::{
    admission::{
        AdmissionRequest, Change, Denial,
        review::{self, Answer},
    },
    conversion,
    metrics::Outcome,
};

/// The path of conversion, in all definitions.
const CONVERT: &str = "/convert";
/// The API server's default timeout is 10 s (`timeoutSeconds`). An answer before that gives it a better message.
const PATIENCE: Duration = Duration::from_secs(9);

/// The largest admission review: an object before and after the change, of at most 3 MiB each, which is an API server's
/// limit, and the rest of the review.
pub(crate) const ADMISSION_BYTES_MAX: usize = 8 << 20;
/// The largest conversion review. A list is converted in one call: about 10,000 pools.
pub(crate) const CONVERSION_BYTES_MAX: usize = 32 << 20;

type Handler = Arc<dyn Fn(Call) -> BoxFuture<'static, Reply> + Send + Sync>;
type Converter = Arc<dyn Fn(Value, &str) -> Result<Value, String> + Send + Sync>;

/// Handlers by path, served by [`serve`](fn@crate::serve).
#[derive(Clone, Default)]
pub struct Webhook {
    routes: BTreeMap<String, Route>,
    converters: BTreeMap<String, Converter>,
}

#[derive(Clone)]
pub(crate) struct Route {
    handler: Handler,
    pub(crate) bytes_max: usize,
    pub(crate) made: Made,
}

/// What is made of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// A tree of all of it, and then objects.
    Tree,
    /// One object after the other, and an answer of all of them.
    Objects,
}

impl Made {
    /// The most bytes that are made of a body.
    pub(crate) fn of(self, body: &[u8]) -> usize {
        match self {
            Self::Tree => parsed_size(body, Parse::Types).saturating_mul(2),
            // The list of converted objects is written, and then the answer around it.
            Self::Objects => largest_parsed_size(body, Parse::Types, conversion::LEVELS)
                .saturating_mul(2)
                .saturating_add(body.len().saturating_mul(2)),
        }
    }
}

/// A call of a route.
pub(crate) struct Call {
    pub(crate) body: Bytes,
    pub(crate) peer: Owner,
    /// The turns of large bodies.
    pub(crate) turns: Turns,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) code: StatusCode,
    pub(crate) outcome: Outcome,
    pub(crate) body: Body,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    Review(Value),
    /// A review as JSON.
    Written(Vec<u8>),
    Text(String),
}

/// The answer with what `handler` changes in an object.
fn changed(handler: impl Fn(Option<&Value>, &mut Value), old: Option<&Value>, object: &Value) -> Answer {
    let mut changed = object.clone();
    handler(old, &mut changed);
    Answer::Changed {
        patch: json_patch::diff(object, &changed),
    }
}

impl Webhook {
    /// No handlers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `handler` to decide whether a request is allowed. If it allows the request, it can return warnings for the
    /// client.
    ///
    /// # Panics
    /// When the path already has a handler.
    #[must_use]
    pub fn validate<K, F, R>(self, path: impl Into<String>, handler: F) -> Self
    where
        K: DeserializeOwned + Send + 'static,
        F: Fn(AdmissionRequest<K>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<String>, Denial>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.admission(&path.into(), move |review| {
            let request = review.into_request();
            let handler = handler.clone();
            async move {
                match request {
                    Ok(request) => match handler(request).await {
                        Ok(warnings) => Answer::Allowed { warnings },
                        Err(denial) => Answer::Denied(denial),
                    },
                    Err(denial) => Answer::Denied(denial),
                }
            }
        })
    }

    /// Lets `handler` change an object that is being created or updated; it also gets the object before an update.
    /// Deletions are allowed without a call.
    ///
    /// # Panics
    /// When the path already has a handler.
    #[must_use]
    pub fn mutate<F>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Option<&Value>, &mut Value) + Send + Sync + 'static,
    {
        self.admission(&path.into(), move |review| {
            ready(
                match review.into_request::<Value>().map(|request| request.change) {
                    Ok(Change::Create(object)) => changed(&handler, None, &object),
                    Ok(Change::Update { old, new }) => changed(&handler, Some(&old), &new),
                    Ok(Change::Delete(_)) => Answer::Allowed { warnings: Vec::new() },
                    Err(denial) => Answer::Denied(denial),
                },
            )
        })
    }

    /// Converts objects of an API group. The handler gets one object at a time, and the `apiVersion` to convert it to.
    ///
    /// # Panics
    /// When the group already has a handler.
    #[must_use]
    pub fn convert<F, E>(mut self, group: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Value, &str) -> Result<Value, E> + Send + Sync + 'static,
        E: fmt::Display,
    {
        let group = group.into();
        let handler: Converter =
            Arc::new(move |object, version| handler(object, version).map_err(|error| error.to_string()));
        assert!(
            self.converters.insert(group.clone(), handler).is_none(),
            "two conversions of {group}"
        );
        // One path serves all groups, so the route is replaced for each added group.
        self.routes.remove(CONVERT);
        let converters = Arc::new(self.converters.clone());
        self.route(
            CONVERT,
            CONVERSION_BYTES_MAX,
            Made::Objects,
            move |Call { body, peer, turns }| {
                let converters = converters.clone();
                let bytes = body.len();
                let convert = move || match conversion::read(&body) {
                    Err(text) => Reply::malformed(text),
                    Ok(review) => {
                        let panicked = Cell::new(false);
                        let result = review
                            .convert(|object, version| convert_one(&converters, object, version, &panicked));
                        let outcome = match &result {
                            Ok(_) => Outcome::Converted,
                            Err(_) if panicked.get() => Outcome::Panicked,
                            Err(_) => Outcome::NotConverted,
                        };
                        let body = Body::Written(conversion::write(&review.uid, result));
                        Reply {
                            code: StatusCode::OK,
                            outcome,
                            body,
                        }
                    }
                };
                async move {
                    let converting = AssertUnwindSafe(turns.work(peer, bytes, convert)).catch_unwind();
                    converting.await.unwrap_or_else(|_| Reply::panicked())
                }
                .boxed()
            },
        )
    }

    /// The paths that have a handler, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.routes.keys().map(String::as_str)
    }

    /// The status and the text of the answer to a call, without a server, for tests of handlers. `None` when the path has no
    /// handler.
    pub async fn answer(&self, path: &str, body: Vec<u8>) -> Option<(StatusCode, String)> {
        let call = Call {
            body: body.into(),
            peer: Owner::unique(),
            turns: Turns::default(),
        };
        let Reply { code, body, .. } = self.at(path)?.call(call).await;
        let text = match body {
            Body::Review(review) => review.to_string(),
            Body::Written(written) => String::from_utf8_lossy(&written).into_owned(),
            Body::Text(text) => text,
        };
        Some((code, text))
    }

    pub(crate) fn at(&self, path: &str) -> Option<&Route> {
        self.routes.get(path)
    }

    fn admission<F, R>(self, path: &str, answer: F) -> Self
    where
        F: Fn(review::Review) -> R + Send + Sync + 'static,
        R: Future<Output = Answer> + Send + 'static,
    {
        let answer = Arc::new(answer);
        self.route(
            path,
            ADMISSION_BYTES_MAX,
            Made::Tree,
            move |Call { body, peer, turns }| {
                let answer = answer.clone();
                async move {
                    // To make an object of a review, and to drop what is left of it, takes as long as to read it.
                    let bytes = body.len();
                    let begin = move || {
                        review::read(&body).map(|review| {
                            let uid = review.uid.clone();
                            (uid, catch_unwind(AssertUnwindSafe(|| answer(review))))
                        })
                    };
                    let (uid, answer) = match turns.work(peer, bytes, begin).await {
                        Ok(begun) => begun,
                        Err(text) => return Reply::malformed(text),
                    };
                    let answer = AssertUnwindSafe(async move {
                        match answer {
                            Ok(answer) => answer.await,
                            Err(panic) => resume_unwind(panic),
                        }
                    });
                    let answer = answer.catch_unwind();
                    let (outcome, answer) = match timeout(PATIENCE, answer).await {
                        Ok(Ok(answer @ (Answer::Allowed { .. } | Answer::Changed { .. }))) => {
                            (Outcome::Allowed, answer)
                        }
                        Ok(Ok(answer @ Answer::Denied(_))) => (Outcome::Denied, answer),
                        Ok(Err(panic)) => {
                            error!(panic = panic_text(&*panic), "A webhook panicked");
                            (
                                Outcome::Panicked,
                                Answer::Denied(Denial::internal("failed to decide: the webhook panicked")),
                            )
                        }
                        Err(_elapsed) => {
                            let text = format!("failed to decide within {} s", PATIENCE.as_secs());
                            (Outcome::TimedOut, Answer::Denied(Denial::internal(text)))
                        }
                    };
                    Reply::review(outcome, review::write(&uid, answer))
                }
                .boxed()
            },
        )
    }

    fn route(
        mut self,
        path: &str,
        bytes_max: usize,
        made: Made,
        handler: impl Fn(Call) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        let route = Route {
            handler: Arc::new(handler),
            bytes_max,
            made,
        };
        assert!(
            self.routes.insert(path.to_owned(), route).is_none(),
            "two handlers for {path}"
        );
        self
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.paths()).finish()
    }
}

impl Route {
    pub(crate) async fn call(&self, call: Call) -> Reply {
        (self.handler)(call).await
    }
}

impl Reply {
    fn review(outcome: Outcome, review: Value) -> Self {
        Self {
            code: StatusCode::OK,
            outcome,
            body: Body::Review(review),
        }
    }

    fn malformed(text: String) -> Self {
        Self::text(StatusCode::BAD_REQUEST, Outcome::Malformed, text)
    }

    fn panicked() -> Self {
        Self::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            Outcome::Panicked,
            "the webhook panicked",
        )
    }

    pub(crate) fn text(code: StatusCode, outcome: Outcome, text: impl Into<String>) -> Self {
        Self {
            code,
            outcome,
            body: Body::Text(text.into()),
        }
    }
}

/// Converts an object to another version. If the handler panics, only this review fails.
fn convert_one(
    converters: &BTreeMap<String, Converter>,
    object: Value,
    version: &str,
    panicked: &Cell<bool>,
) -> Result<Value, String> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(convert) = converters.get(group) else {
        return Err(format!(
            "failed to convert an object of {api_version:?}: no such conversion"
        ));
    };
    let converted = std::panic::catch_unwind(AssertUnwindSafe(|| convert(object, version)));
    converted.unwrap_or_else(|panic| {
        error!(panic = panic_text(&*panic), "A conversion panicked");
        panicked.set(true);
        Err("failed to convert: the webhook panicked".to_owned())
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("")
}

#[cfg(test)]
mod tests;
