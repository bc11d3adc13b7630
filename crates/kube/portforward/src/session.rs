//! One session: a single future moves bytes between the client and the targets, as [`Streams`] decides.
//!
//! ```text
//!  reader ─▶ Decoder ─▶ Streams ─▶ actions ─┬─ Deliver ─▶ 4 pieces per stream ─▶ target
//!    ▲ only while no action is stuck         └─ Send ────▶ 2 frames ─▶ writer ◀── target's bytes
//! ```
//!
//! A session buffers up to 8 KiB that are read but not decoded (a control frame and a part of the next), per connection
//! up to 4 + 1 pieces of at most 8 KiB to the target and one to the client, and 2 frames in the queue to the client and
//! 3 that are being written. A normal session with one connection stays under 100 KiB and usually under 30 KiB. A
//! session that fills all 128 connections to a target that does not read stays under 128 × 48 KiB = 6 MiB. The clients
//! implement no flow control of SPDY, so a target that does not read stops the whole session, as in the kubelet.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::{
    future::{AbortHandle, Abortable, BoxFuture, FutureExt as _},
    stream::{FuturesUnordered, StreamExt as _},
};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc::{self, OwnedPermit},
    time::{Instant, sleep_until, timeout},
};

use crate::{
    frame::{self, CONTROL_MAX, Decoder, Frame, FrameError},
    header_block::HeaderError,
    streams::{Action, Streams},
    target::{Target, forward},
};

/// The bytes that are read from the client at a time: enough for the longest control frame.
const READ_BYTES: usize = 2 * CONTROL_MAX;

/// Pieces of data in the queue to a target.
const DELIVERIES: usize = 4;

/// Frames in the queue to the client.
const OUTGOING: usize = 2;

/// A client that sends nothing for this long is gone: every client sends a PING each 5 or 10 seconds (client-go
/// `transport/spdy`, `tools/portforward`).
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a client may take to read the last frames.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a session ended early.
#[derive(Debug, Error)]
pub enum SessionError {
    /// hyper did not hand over the connection after the response.
    #[error("failed to upgrade the connection")]
    Upgrade(#[source] hyper::Error),
    /// The connection broke.
    #[error("failed to read from the client")]
    Read(#[source] std::io::Error),
    /// The connection broke.
    #[error("failed to write to the client")]
    Write(#[source] std::io::Error),
    /// The client broke the protocol.
    #[error("failed to read a frame")]
    Frame(#[source] FrameError),
    /// The client broke the protocol.
    #[error("failed to read the headers of a stream")]
    Headers(#[source] HeaderError),
    /// The client disappeared without closing the connection.
    #[error("the client sent nothing for {} s", IDLE_TIMEOUT.as_secs())]
    Idle,
}

impl SessionError {
    /// A short name for metrics, from a fixed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Upgrade(_) => "upgrade",
            Self::Read(_) | Self::Write(_) => "connection",
            Self::Frame(_) | Self::Headers(_) => "protocol",
            Self::Idle => "idle",
        }
    }

    fn is_protocol(&self) -> bool {
        matches!(self, Self::Frame(_) | Self::Headers(_))
    }
}

/// Serves a connection until the client closes it. Dropping the future drops the targets, too.
pub(crate) async fn run<IO>(io: IO, target: Arc<dyn Target>) -> Result<(), SessionError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (reader, writer) = tokio::io::split(io);
    let (outgoing, frames) = mpsc::channel(OUTGOING);
    let mut pump = Pump {
        target,
        streams: Streams::new(),
        actions: VecDeque::new(),
        connections: BTreeMap::new(),
        forwards: FuturesUnordered::new(),
        outgoing,
    };
    let mut writing = std::pin::pin!(write_frames(writer, frames));
    // Reading and writing run concurrently, so that the client and the server never wait for each other.
    let ended = tokio::select! {
        ended = pump.run(reader) => ended,
        // The writer ends only with an error, because the pump has a sender.
        written = &mut writing => return written,
    };
    let status = u32::from(ended.as_ref().is_err_and(SessionError::is_protocol));
    let last = pump.streams.last();
    let Pump {
        outgoing, forwards, ..
    } = pump;
    drop(forwards);
    let farewell = async move {
        // The writer may have failed. Then the client cannot get the frame.
        let _ = outgoing.send(Frame::GoAway { last, status }).await;
    };
    let _ = timeout(FAREWELL_TIMEOUT, futures::future::join(farewell, writing)).await;
    ended
}

/// Writes frames until all senders are dropped, then ends the stream.
async fn write_frames(
    mut writer: impl AsyncWrite + Unpin,
    mut frames: mpsc::Receiver<Frame>,
) -> Result<(), SessionError> {
    let mut out = BytesMut::new();
    while let Some(frame) = frames.recv().await {
        frame::encode(&frame, &mut out);
        // All queued frames go out in one write.
        for _ in 0..OUTGOING {
            if let Ok(frame) = frames.try_recv() {
                frame::encode(&frame, &mut out);
            }
        }
        writer.write_all(&out).await.map_err(SessionError::Write)?;
        writer.flush().await.map_err(SessionError::Write)?;
        out.clear();
        if frames.is_empty() {
            // Frees the buffer, because sessions are idle most of the time.
            out = BytesMut::new();
        }
    }
    writer.shutdown().await.map_err(SessionError::Write)
}

/// The connection to a target.
struct Connection {
    /// None after the client has ended its side.
    upload: Option<mpsc::Sender<Bytes>>,
    abort: AbortHandle,
}

/// A data stream, and the result of its connection; none if the connection was abandoned.
type Ended = (u32, Option<Result<(), String>>);

struct Pump {
    target: Arc<dyn Target>,
    streams: Streams,
    /// Pending actions. The client is not read while there are any, which bounds them: one frame or one timeout
    /// causes at most one action per stream.
    actions: VecDeque<Action>,
    /// The connections by data stream.
    connections: BTreeMap<u32, Connection>,
    forwards: FuturesUnordered<BoxFuture<'static, Ended>>,
    outgoing: mpsc::Sender<Frame>,
}

impl Pump {
    async fn run(&mut self, mut reader: impl AsyncRead + Unpin) -> Result<(), SessionError> {
        let begun = Instant::now();
        let mut heard = begun;
        let mut decoder = Decoder::default();
        let mut inbox = BytesMut::new();
        loop {
            self.act();
            if self.actions.is_empty() {
                if self.streams.is_over() {
                    return Ok(());
                }
                if let Some(frame) = decoder.decode(&mut inbox).map_err(SessionError::Frame)? {
                    let frame = self.streams.on_frame(begun.elapsed(), frame, &mut self.actions);
                    frame.map_err(SessionError::Headers)?;
                    continue;
                }
                inbox.reserve(READ_BYTES);
            }
            let idle = heard + IDLE_TIMEOUT;
            let wake = self
                .streams
                .next_deadline()
                .map_or(idle, |deadline| idle.min(begun + deadline));
            tokio::select! {
                read = reader.read_buf(&mut inbox), if self.actions.is_empty() => {
                    if read.map_err(SessionError::Read)? == 0 {
                        return Ok(());
                    }
                    heard = Instant::now();
                }
                room = room(self.actions.front(), &self.connections, &self.outgoing),
                        if !self.actions.is_empty() => {
                    let action = self.actions.pop_front();
                    match (room, action) {
                        (Room::Client(permit), Some(Action::Send(frame))) => drop(permit.send(frame)),
                        (Room::Target(permit), Some(Action::Deliver { bytes, .. })) => drop(permit.send(bytes)),
                        // The receiver is gone.
                        _ => {}
                    }
                    heard = Instant::now();
                }
                Some((data, ended)) = self.forwards.next() => {
                    self.connections.remove(&data);
                    if let Some(result) = ended {
                        self.actions.extend(self.streams.on_end(data, result));
                    }
                }
                () = sleep_until(wake) => {
                    if Instant::now() >= idle {
                        return Err(SessionError::Idle);
                    }
                    self.actions.extend(self.streams.on_time(begun.elapsed()));
                }
            }
        }
    }

    /// Does the pending actions up to the first one that needs room in a queue.
    fn act(&mut self) {
        while let Some(action) = self.actions.pop_front_if(|action| {
            matches!(
                action,
                Action::Connect { .. } | Action::Finish { .. } | Action::Abandon { .. }
            )
        }) {
            match action {
                Action::Connect { data, port } => self.connect(data, port),
                Action::Finish { data } => {
                    if let Some(connection) = self.connections.get_mut(&data) {
                        connection.upload = None;
                    }
                }
                Action::Abandon { data } => {
                    if let Some(connection) = self.connections.remove(&data) {
                        connection.abort.abort();
                    }
                }
                Action::Send(_) | Action::Deliver { .. } => {}
            }
        }
    }

    fn connect(&mut self, data: u32, port: u16) {
        let (upload, incoming) = mpsc::channel(DELIVERIES);
        let (abort, registration) = AbortHandle::new_pair();
        let forward = forward(self.target.connect(port), data, incoming, self.outgoing.clone());
        let forward = Abortable::new(forward, registration);
        self.forwards
            .push(forward.map(move |ended| (data, ended.ok())).boxed());
        self.connections.insert(
            data,
            Connection {
                upload: Some(upload),
                abort,
            },
        );
    }
}

enum Room {
    Client(OwnedPermit<Frame>),
    Target(OwnedPermit<Bytes>),
    /// The receiver is gone.
    Unneeded,
}

/// Waits until the queue for an action's frame or bytes has room.
async fn room(
    action: Option<&Action>,
    connections: &BTreeMap<u32, Connection>,
    outgoing: &mpsc::Sender<Frame>,
) -> Room {
    match action {
        Some(Action::Send(_)) => outgoing
            .clone()
            .reserve_owned()
            .await
            .map_or(Room::Unneeded, Room::Client),
        Some(Action::Deliver { data, .. }) => {
            let upload = connections
                .get(data)
                .and_then(|connection| connection.upload.clone());
            let Some(upload) = upload else {
                return Room::Unneeded;
            };
            upload.reserve_owned().await.map_or(Room::Unneeded, Room::Target)
        }
        Some(Action::Connect { .. } | Action::Finish { .. } | Action::Abandon { .. }) | None => {
            Room::Unneeded
        }
    }
}
