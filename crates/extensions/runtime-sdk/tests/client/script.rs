//! A transport that answers from a script and records calls.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use nephele_runtime_sdk::{
    catalog::Catalog,
    client::{
        Client, ClientBuilder, ClientConfig, Handler, LabelSelector, Labels, OnError, Registration, Registry,
        Subject,
        transport::{Incoming, Outgoing, Transport, TransportError},
    },
    hooks::{BeforeClusterCreate, BeforeClusterCreateRequest, Hook},
    wire::Object,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

/// The behaviour of a scripted extension.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Answers with status 200 and this body.
    Json(Value),
    /// Answers with this status and this body.
    Raw(u16, &'static [u8]),
    /// Refuses connections.
    Refuse,
    /// Ends the connection.
    Reset,
    /// Does not answer.
    Silent,
    /// Answers later.
    After(Duration, Box<Answer>),
}

/// A recorded call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

type Behaviour = Box<dyn Fn(&Asked) -> Answer + Send + Sync>;

pub(crate) struct Script {
    behaviour: Behaviour,
    asked: Mutex<Vec<Asked>>,
}

impl Script {
    pub(crate) fn new(behaviour: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            behaviour: Box::new(behaviour),
            asked: Mutex::default(),
        })
    }

    pub(crate) fn always(answer: Answer) -> Arc<Self> {
        Self::new(move |_| answer.clone())
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().len()
    }
}

impl Transport for Script {
    fn send(&self, call: Outgoing) -> BoxFuture<'_, Result<Incoming, TransportError>> {
        let asked = Asked {
            host: call.uri.host().unwrap().to_owned(),
            path: call.uri.path().to_owned(),
            query: call.uri.query().unwrap().to_owned(),
            body: serde_json::from_slice(&call.body).unwrap(),
        };
        let answer = (self.behaviour)(&asked);
        self.asked.lock().push(asked);
        play(answer, call.deadline).boxed()
    }
}

async fn play(mut answer: Answer, deadline: Instant) -> Result<Incoming, TransportError> {
    loop {
        answer = match answer {
            Answer::Json(value) => {
                return Ok(Incoming {
                    code: 200,
                    body: value.to_string().into_bytes().into(),
                });
            }
            Answer::Raw(code, body) => {
                return Ok(Incoming {
                    code,
                    body: Bytes::from_static(body),
                });
            }
            Answer::Refuse => return Err(TransportError::Connect("connection refused".into())),
            Answer::Reset => return Err(TransportError::Exchange("connection reset".into())),
            Answer::Silent => {
                sleep_until(deadline).await;
                return Err(TransportError::Timeout);
            }
            Answer::After(wait, answer) => {
                if Instant::now() + wait >= deadline {
                    Answer::Silent
                } else {
                    sleep(wait).await;
                    *answer
                }
            }
        };
    }
}

pub(crate) fn success() -> Answer {
    Answer::Json(json!({ "status": "Success" }))
}

pub(crate) fn failure() -> Answer {
    Answer::Json(json!({ "status": "Failure", "message": "no" }))
}

pub(crate) fn handler<H: Hook>(name: &str, on_error: OnError) -> Handler {
    Handler {
        name: name.into(),
        hook: H::id(),
        timeout: Duration::from_secs(10),
        on_error,
    }
}

/// An extension whose host is its name, called for all namespaces.
pub(crate) fn registration(name: &str, handlers: Vec<Handler>) -> Registration {
    Registration {
        name: name.into(),
        resource_version: "15".into(),
        client_config: ClientConfig {
            url: format!("https://{name}"),
            ..ClientConfig::default()
        },
        namespace_selector: Some(LabelSelector::default()),
        handlers,
        ..Registration::default()
    }
}

pub(crate) fn builder(
    script: &Arc<Script>,
    registrations: impl IntoIterator<Item = Registration>,
) -> ClientBuilder {
    let namespaces: BTreeMap<String, Labels> = ["foo", "bar"]
        .map(|name| {
            let labels = [("kubernetes.io/metadata.name".to_owned(), name.to_owned())].into();
            (name.to_owned(), labels)
        })
        .into();
    Client::builder(Catalog::cluster_api())
        .registry(Registry::of(registrations).unwrap())
        .namespaces(namespaces)
        .transport(script.clone())
}

pub(crate) fn client(script: &Arc<Script>, registrations: impl IntoIterator<Item = Registration>) -> Client {
    builder(script, registrations).build()
}

pub(crate) fn subject() -> Subject {
    Subject::new("foo", "cluster")
}

pub(crate) fn request() -> BeforeClusterCreateRequest {
    let cluster = json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster" });
    BeforeClusterCreateRequest {
        cluster: Object::try_from(cluster).unwrap(),
        ..BeforeClusterCreateRequest::default()
    }
}

/// One extension, `ext`, with one handler, `valid-extension`.
pub(crate) fn one(on_error: OnError) -> Registration {
    registration(
        "ext",
        vec![handler::<BeforeClusterCreate>("valid-extension", on_error)],
    )
}

pub(crate) const ONE: &str = "valid-extension.ext";
