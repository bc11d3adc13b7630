//! One SPDY connection: its streams, paired and served.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::frame::{self, Frame, FrameError};
use crate::header_block::{Deflater, HeaderError, Inflater};
use crate::pair::{self, Pair, Target};

/// Streams that may be open at a time: 128 forwarded connections, as many as a browser behind `kubectl` opens at
/// worst. With 8 queued frames of at most 256 KiB each that bounds a hostile session; an honest one queues a few KiB.
const STREAMS_MAX: usize = 256;

/// Frames queued towards one target, and towards the client.
const QUEUE: usize = 8;

/// Why a session ended early.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The connection was not handed over after the answer.
    #[error("failed to upgrade the connection")]
    Upgrade(#[source] hyper::Error),
    /// The connection broke.
    #[error("failed to read from or write to the client")]
    Io(#[source] std::io::Error),
    /// The client broke the protocol.
    #[error("failed to understand the client: {0}")]
    Protocol(String),
}

impl From<FrameError> for SessionError {
    fn from(error: FrameError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<HeaderError> for SessionError {
    fn from(error: HeaderError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// What a stream is for.
enum Stream {
    /// An error stream whose data stream has not come yet, or is being served.
    Error,
    /// A data stream that is being served.
    Data(mpsc::Sender<Bytes>),
    /// A data stream whose client is done sending.
    Finished,
}

struct State {
    target: Arc<dyn Target>,
    inflater: Inflater,
    deflater: Deflater,
    streams: BTreeMap<u32, Stream>,
    /// Error streams by the request id that their data stream will name.
    waiting: BTreeMap<String, u32>,
    pairs: JoinSet<Pair>,
    outgoing: mpsc::Sender<Frame>,
}

/// Serves a connection until the client goes.
pub(crate) async fn run<IO>(io: IO, target: Arc<dyn Target>) -> Result<(), SessionError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut reader, writer) = tokio::io::split(io);
    let (outgoing, frames) = mpsc::channel(QUEUE);
    let mut state = State {
        target,
        inflater: Inflater::new(),
        deflater: Deflater::new(),
        streams: BTreeMap::new(),
        waiting: BTreeMap::new(),
        pairs: JoinSet::new(),
        outgoing,
    };
    let read = async {
        let mut buffer = BytesMut::new();
        loop {
            while let Some(frame) = frame::decode(&mut buffer)? {
                if !state.on_frame(frame).await? {
                    return Ok(());
                }
            }
            buffer.reserve(4096);
            tokio::select! {
                read = reader.read_buf(&mut buffer) => {
                    if read.map_err(SessionError::Io)? == 0 {
                        return Ok(());
                    }
                }
                Some(done) = state.pairs.join_next() => {
                    // A pair that panicked has been reported by the runtime; its streams stay until the session ends.
                    if let Ok(pair) = done {
                        state.streams.remove(&pair.data);
                        state.streams.remove(&pair.error);
                    }
                }
            }
        }
    };
    // Reading and writing go on side by side, so that a client that waits for us is never waited for.
    tokio::select! {
        result = read => result,
        result = write_frames(writer, frames) => result,
    }
}

async fn write_frames(
    mut writer: impl AsyncWrite + Unpin,
    mut frames: mpsc::Receiver<Frame>,
) -> Result<(), SessionError> {
    let mut out = BytesMut::new();
    while let Some(frame) = frames.recv().await {
        frame::encode(&frame, &mut out);
        // What is queued goes out in one write.
        while let Ok(frame) = frames.try_recv() {
            frame::encode(&frame, &mut out);
        }
        writer.write_all(&out).await.map_err(SessionError::Io)?;
        writer.flush().await.map_err(SessionError::Io)?;
        out.clear();
    }
    Ok(())
}

impl State {
    /// Acts on a frame; false when the client is done.
    async fn on_frame(&mut self, frame: Frame) -> Result<bool, SessionError> {
        match frame {
            Frame::SynStream { id, fin, header_block } => self.on_open(id, fin, &header_block).await?,
            Frame::Headers { header_block } | Frame::SynReply { header_block, .. } => {
                self.inflater.read(&header_block)?;
            }
            Frame::Data { id, fin, bytes } => self.on_data(id, fin, bytes).await,
            Frame::Reset { id, .. } => {
                self.streams.remove(&id);
            }
            // Ours would have even ids, and we send none.
            Frame::Ping { id } if id % 2 == 1 => self.send(Frame::Ping { id }).await,
            Frame::GoAway => return Ok(false),
            Frame::Ping { .. } | Frame::Ignored => {}
        }
        Ok(true)
    }

    async fn on_open(&mut self, id: u32, fin: bool, header_block: &[u8]) -> Result<(), SessionError> {
        let headers = self.inflater.read(header_block)?;
        let header =
            |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        if id % 2 == 0 || self.streams.contains_key(&id) {
            return Err(SessionError::Protocol(format!("stream id {id} is not the client's to open")));
        }
        if self.streams.len() >= STREAMS_MAX {
            // REFUSED_STREAM
            self.send(Frame::Reset { id, status: 3 }).await;
            return Ok(());
        }
        let request = header("requestid").unwrap_or_default().to_owned();
        let port = header("port").and_then(|port| port.parse::<u16>().ok()).filter(|&port| port > 0);
        let paired = self.waiting.get(&request).copied();
        match (header("streamtype"), port, paired) {
            (Some("error"), Some(_), None) => {
                self.waiting.insert(request, id);
                self.streams.insert(id, Stream::Error);
                self.reply(id).await;
            }
            (Some("data"), Some(port), Some(error)) => {
                self.waiting.remove(&request);
                let (sender, receiver) = mpsc::channel(QUEUE);
                let stream = if fin { Stream::Finished } else { Stream::Data(sender) };
                self.streams.insert(id, stream);
                // The reply comes before any data: a client drops data of a stream that was not accepted yet.
                self.reply(id).await;
                let pair = Pair { error, data: id, port };
                self.pairs.spawn(pair::serve(pair, self.target.clone(), receiver, self.outgoing.clone()));
            }
            // PROTOCOL_ERROR, for the stream only.
            _ => self.send(Frame::Reset { id, status: 1 }).await,
        }
        Ok(())
    }

    async fn on_data(&mut self, id: u32, fin: bool, bytes: Bytes) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Stream::Data(sender) = stream {
            if !bytes.is_empty() {
                // A target that is gone takes no more; its pair says so on the error stream.
                let _ = sender.send(bytes).await;
            }
            if fin {
                *stream = Stream::Finished;
            }
        }
    }

    async fn reply(&mut self, id: u32) {
        let header_block = self.deflater.write(&[]);
        self.send(Frame::SynReply { id, header_block }).await;
    }

    async fn send(&self, frame: Frame) {
        // The writer ends with the session only.
        let _ = self.outgoing.send(frame).await;
    }
}
