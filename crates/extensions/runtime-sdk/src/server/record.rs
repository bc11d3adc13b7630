//! Recordings of calls in a folder, to see a caller's requests and to replay them in tests.

use std::{
    collections::BTreeMap,
    fs::{DirBuilder, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::body::Bytes;
use http::{HeaderMap, StatusCode, Version, request::Parts};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;
use tracing::warn;

use crate::hooks::HookId;

/// The recorded headers. They describe the caller and the body; headers that could contain a secret are not recorded.
const HEADERS: [&str; 5] = ["accept", "accept-encoding", "content-type", "host", "user-agent"];
/// The most recorded calls of a handler.
const CALLS_MAX: u32 = 500;
/// The longest recorded request, in bytes. Requests of Cluster API have tens of KiB.
const BODY_MAX: usize = 512 << 10;
/// The most recordings written at a time. Beyond that, calls are not recorded. 32 requests have at most 16 MiB, and can
/// need sixteen times that while they are parsed.
const WRITES_MAX: usize = 32;

/// Records calls of an extension in a folder, one JSON file each: the first 500 calls of each handler since the start
/// of the process, except calls with a request of more than 512 KiB. Requests can contain secrets, so only the user of
/// the process can read the files.
#[derive(Clone, Debug)]
pub struct Recorder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// The number of recorded calls, by name of the handler.
    kept: Mutex<BTreeMap<String, u32>>,
    writes: Arc<Semaphore>,
}

/// A call and the answer to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    pub protocol: String,
    /// `POST`; nothing else is a call.
    pub method: String,
    /// The path, with the prefix of the mount.
    pub path: String,
    pub query: String,
    /// The headers `accept`, `accept-encoding`, `content-type`, `host` and `user-agent` of the request.
    pub headers: BTreeMap<String, String>,
    /// The body: a value, or a string if it is not JSON.
    pub request: Value,
    /// The status code of the answer.
    pub status: u16,
    /// The response; `null` when there is none.
    pub response: Value,
}

impl Recorder {
    /// Records calls in this folder. If missing, it is created, accessible only by its owner. Existing files stay.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn in_folder(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        let writes = Arc::new(Semaphore::new(WRITES_MAX));
        Ok(Self {
            inner: Arc::new(Inner {
                folder,
                kept: Mutex::default(),
                writes,
            }),
        })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// Whether further calls of the handler are recorded.
    fn takes(&self, name: &str) -> bool {
        self.inner
            .kept
            .lock()
            .get(name)
            .is_none_or(|count| *count < CALLS_MAX)
    }

    /// The number of the next call of the handler, if it is recorded.
    fn number(&self, name: &str) -> Option<u32> {
        let mut kept = self.inner.kept.lock();
        let count = kept.entry(name.to_owned()).or_default();
        (*count < CALLS_MAX).then(|| {
            *count += 1;
            *count
        })
    }

    /// Writes a recording in the background. The caller of the hook does not wait for it.
    fn keep(&self, since: u128, name: &str, recording: impl FnOnce() -> Recording + Send + 'static) {
        let Ok(place) = Arc::clone(&self.inner.writes).try_acquire_owned() else {
            return warn!(handler = name, "Call is not recorded: too many calls at once");
        };
        let Some(number) = self.number(name) else { return };
        let path = self.inner.folder.join(format!("{since}-{name}-{number}.json"));
        tokio::task::spawn_blocking(move || {
            let text = serde_json::to_vec_pretty(&recording()).expect("text and JSON can be written");
            if let Err(error) = write(&path, &text) {
                warn!(%error, path = %path.display(), "Failed to record a call");
            }
            drop(place);
        });
    }
}

/// Writes a new file that only its owner can read. Fails if a file or link of that name exists.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text)
}

/// A call that is being recorded.
pub(super) struct Recorded {
    recorder: Recorder,
    /// When the recording began, in milliseconds since 1970: file names sort in the order of the calls, also after a
    /// restart.
    since: u128,
    /// The name of the handler, or of the hook if it is a singleton.
    name: String,
    head: Parts,
    /// The body, once it has been read.
    pub(super) body: Option<Bytes>,
}

impl Recorded {
    pub(super) fn begin(recorder: &Recorder, head: &Parts, handler: &str, hook: &HookId) -> Option<Self> {
        let name = if handler.is_empty() { &hook.hook } else { handler };
        if !recorder.takes(name) {
            return None;
        }
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis();
        Some(Self {
            recorder: recorder.clone(),
            since,
            name: name.to_owned(),
            head: head.clone(),
            body: None,
        })
    }

    pub(super) fn end(self, status: StatusCode, response: Option<Vec<u8>>) {
        let Self {
            recorder,
            since,
            name,
            head,
            body,
        } = self;
        if body.as_ref().is_some_and(|body| body.len() > BODY_MAX) {
            return warn!(handler = name, "Call is not recorded: its request is too long");
        }
        recorder.keep(since, &name, move || Recording {
            protocol: protocol(head.version).to_owned(),
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: headers(&head.headers),
            request: json(body.as_deref()),
            status: status.as_u16(),
            response: json(response.as_deref()),
        });
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
        Some((
            (*name).to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        ))
    };
    HEADERS.iter().filter_map(said).collect()
}

fn json(body: Option<&[u8]>) -> Value {
    let Some(body) = body else { return Value::Null };
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into())
}
