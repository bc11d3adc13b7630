//! Calls as they came, kept in a folder: to see what a caller sends, and for tests that replay it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::body::Bytes;
use http::{HeaderMap, StatusCode, Version, request::Parts};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use crate::hooks::HookId;

/// What is kept of headers: what a caller says of itself and of the body, and nothing that could be a secret.
const HEADERS: [&str; 5] = ["accept", "accept-encoding", "content-type", "host", "user-agent"];
/// Calls kept of a handler, each in a file of the length of its bodies, which in Cluster API's calls is tens of KiB.
const CALLS_MAX: u32 = 500;

/// Keeps calls of an extension in a folder, a file of JSON for each: the first 500 of each handler in the life of the
/// process. It is for looking into what is called; bodies have whatever the objects in them have.
#[derive(Clone, Debug)]
pub struct Recorder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// By the name of the handler.
    kept: Mutex<BTreeMap<String, u32>>,
}

/// A call as it came, and what was answered to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub protocol: String,
    /// `POST`; nothing else is a call.
    pub method: String,
    /// The path, with the prefix of the mount.
    pub path: String,
    /// What follows it: `timeout=10s`.
    pub query: String,
    /// The headers `accept`, `accept-encoding`, `content-type`, `host` and `user-agent`, where they came.
    pub headers: BTreeMap<String, String>,
    /// The body; as text, where it is no JSON.
    pub request: Value,
    /// The code of the answer.
    pub status: u16,
    /// The response; `null`, where there is none.
    pub response: Value,
}

impl Recorder {
    /// Keeps calls in this folder, which is made where it is not there. Files in it stay.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn in_folder(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(Self { inner: Arc::new(Inner { folder, kept: Mutex::default() }) })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// Whether a further call of the handler is kept, which counts as one.
    fn takes(&self, name: &str) -> Option<u32> {
        let mut kept = self.inner.kept.lock();
        let count = kept.entry(name.to_owned()).or_default();
        (*count < CALLS_MAX).then(|| {
            *count += 1;
            *count
        })
    }

    /// Writes it, without anybody waiting for that.
    fn keep(&self, file: String, recording: Recording) {
        let path = self.inner.folder.join(file);
        tokio::task::spawn_blocking(move || {
            let text = serde_json::to_vec_pretty(&recording).expect("text and JSON can be written");
            if let Err(error) = fs::write(&path, text) {
                warn!(%error, path = %path.display(), "Failed to record a call");
            }
        });
    }
}

/// A call that is being recorded.
pub(super) struct Recorded {
    recorder: Recorder,
    file: String,
    head: Parts,
    /// The body, once it was read.
    pub(super) body: Option<Bytes>,
}

impl Recorded {
    pub(super) fn begin(recorder: &Recorder, head: &Parts, handler: &str, hook: &HookId) -> Option<Self> {
        let name = if handler.is_empty() { &hook.hook } else { handler };
        let number = recorder.takes(name)?;
        // In the order in which they came, also after a restart.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let file = format!("{since}-{name}-{number}.json");
        Some(Self { recorder: recorder.clone(), file, head: head.clone(), body: None })
    }

    pub(super) fn end(self, status: StatusCode, response: Option<&[u8]>) {
        let Self { recorder, file, head, body } = self;
        let recording = Recording {
            protocol: protocol(head.version).to_owned(),
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: headers(&head.headers),
            request: json(body.as_deref()),
            status: status.as_u16(),
            response: json(response),
        };
        recorder.keep(file, recording);
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_11 => "HTTP/1.1",
        _ => "another",
    }
}

fn headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let said = |name: &&str| {
        let value = headers.get(*name)?;
        Some(((*name).to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
    };
    HEADERS.iter().filter_map(said).collect()
}

fn json(body: Option<&[u8]>) -> Value {
    let Some(body) = body else { return Value::Null };
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into())
}
