//! The streams of one session: turns frames into actions, without I/O. Behaves like the kubelet's server
//! (`k8s.io/cri-streaming`, `portforward/httpstream.go`).
//!
//! ```text
//!  error stream ──┐ same request id                       target done: error FIN (with a text if it failed),
//!                 ├──────────────────▶ pair ─ Connect ──▶             data FIN (or reset if it failed)
//!  data stream  ──┘ within 30 s                           data stream reset by the client: Abandon, error FIN
//! ```

use std::{collections::BTreeMap, time::Duration};

use bytes::{Bytes, BytesMut};

use crate::{
    frame::{Frame, ResetStatus},
    header_block::{HeaderError, Headers, Inflater, Writer},
};

/// The most streams that may be open at a time: 128 forwarded connections, more than a browser opens through `kubectl`.
pub(crate) const STREAMS_MAX: usize = 256;

/// How long a stream waits for the other stream of its pair, as in the kubelet.
pub(crate) const PAIR_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes that a data stream may receive before its error stream is open. Clients open the error stream first.
const EARLY_MAX: usize = 16 * 1024;

/// Bytes that all data streams of a session may receive before their error streams are open.
const EARLY_OF_ALL_MAX: usize = 4 * EARLY_MAX;

/// The longest request id, in bytes. Clients use small numbers.
const REQUEST_ID_MAX: usize = 64;

/// An action for the session. Actions have to be done in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send a frame to the client.
    Send(Frame),
    /// Connect the pair of data stream `data` to `port`.
    Connect { data: u32, port: u16 },
    /// Pass bytes to the target.
    Deliver { data: u32, bytes: Bytes },
    /// Tell the target that no more bytes will come.
    Finish { data: u32 },
    /// Drop the target.
    Abandon { data: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Error,
    Data,
}

/// A stream that waits for the other stream of its pair.
#[derive(Debug)]
struct Half {
    kind: Kind,
    id: u32,
    port: u16,
    /// Whether the client has ended its side.
    finished: bool,
    early: BytesMut,
    until: Duration,
}

/// A forwarded connection, by the id of its data stream.
#[derive(Debug)]
struct Pair {
    /// The error stream, unless the client has reset it.
    error: Option<u32>,
    port: u16,
    /// Whether the client may still send.
    receiving: bool,
}

/// The state of a session. Times are counted from its beginning.
pub(crate) struct Streams {
    inflater: Inflater,
    writer: Writer,
    /// Streams without their other half, by request id.
    waiting: BTreeMap<String, Half>,
    /// Forwarded connections, by data stream.
    pairs: BTreeMap<u32, Pair>,
    /// The highest id that the client has used.
    last: u32,
    /// Whether the client has announced that it opens no more streams.
    leaving: bool,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self {
            inflater: Inflater::new(),
            writer: Writer::default(),
            waiting: BTreeMap::new(),
            pairs: BTreeMap::new(),
            last: 0,
            leaving: false,
        }
    }

    /// Handles a frame from the client.
    pub(crate) fn on_frame(
        &mut self,
        now: Duration,
        frame: Frame,
        actions: &mut impl Extend<Action>,
    ) -> Result<(), HeaderError> {
        match frame {
            Frame::SynStream {
                id,
                fin,
                header_block,
            } => {
                let headers = self.inflater.read(&header_block)?;
                actions.extend(self.on_open(now, id, fin, &headers));
            }
            Frame::Headers {
                id,
                fin,
                header_block,
            } => {
                self.inflater.read(&header_block)?;
                actions.extend(self.on_data(id, fin, Bytes::new()));
            }
            // The server opens no streams, so this is no reply; the block is still part of the compression's history.
            Frame::SynReply { header_block, .. } => {
                self.inflater.read(&header_block)?;
            }
            Frame::Data { id, fin, bytes } => actions.extend(self.on_data(id, fin, bytes)),
            Frame::Reset { id, .. } => actions.extend(self.on_reset(id)),
            // Even ids are replies to pings of the server, which sends none.
            Frame::Ping { id } if id % 2 == 1 => actions.extend([Action::Send(Frame::Ping { id })]),
            Frame::Ping { .. } => {}
            Frame::GoAway { .. } => self.leaving = true,
        }
        Ok(())
    }

    /// Handles the end of a pair's connection; an error is sent to the client.
    pub(crate) fn on_end(&mut self, data: u32, result: Result<(), String>) -> Vec<Action> {
        let Some(pair) = self.pairs.remove(&data) else {
            return vec![];
        };
        let last = match &result {
            Ok(()) => fin(data, Bytes::new()),
            Err(_) => reset(data, ResetStatus::Cancel),
        };
        let text = result
            .err()
            .map(|error| format!("error forwarding port {}: {error}", pair.port));
        // As in the kubelet, the error stream ends first.
        let error = pair
            .error
            .map(|error| fin(error, text.unwrap_or_default().into()));
        error.into_iter().chain([last]).collect()
    }

    /// Ends streams that have waited too long for their other half.
    pub(crate) fn on_time(&mut self, now: Duration) -> Vec<Action> {
        let late = self.waiting.extract_if(.., |_, half| half.until <= now);
        late.map(|(request, half)| match half.kind {
            Kind::Error => fin(
                half.id,
                format!("request {request}: timed out waiting for streams").into(),
            ),
            Kind::Data => reset(half.id, ResetStatus::Cancel),
        })
        .collect()
    }

    /// The next deadline.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.waiting.values().map(|half| half.until).min()
    }

    /// Whether the client opens no more streams and all connections have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.leaving && self.pairs.is_empty()
    }

    /// The highest stream id that the client has used.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    fn on_open(&mut self, now: Duration, id: u32, finished: bool, headers: &Headers) -> Vec<Action> {
        if id.is_multiple_of(2) || id <= self.last {
            return vec![reset(id, ResetStatus::Protocol)];
        }
        self.last = id;
        if self.leaving || self.waiting.len() + 2 * self.pairs.len() >= STREAMS_MAX {
            return vec![reset(id, ResetStatus::Refused)];
        }
        let Some(Opening { kind, port, request }) = Opening::read(id, headers) else {
            return vec![reset(id, ResetStatus::Cancel)];
        };
        let half = Half {
            kind,
            id,
            port,
            finished,
            early: BytesMut::new(),
            until: now + PAIR_TIMEOUT,
        };
        let other = match self.waiting.remove(&request) {
            None => {
                self.waiting.insert(request, half);
                return vec![self.reply(id)];
            }
            Some(other) if other.kind == kind => {
                self.waiting.insert(request, other);
                return vec![reset(id, ResetStatus::Cancel)];
            }
            Some(other) => other,
        };
        let (error, data) = if kind == Kind::Data {
            (other, half)
        } else {
            (half, other)
        };
        let port = data.port;
        let finished = data.finished;
        let early = data.early.freeze();
        let data = data.id;
        self.pairs.insert(
            data,
            Pair {
                error: Some(error.id),
                port,
                receiving: !finished,
            },
        );
        // The reply has to come before any byte of the target, because a client drops data of a stream that has not
        // been accepted.
        let mut actions = vec![self.reply(id), Action::Connect { data, port }];
        actions.extend((!early.is_empty()).then_some(Action::Deliver { data, bytes: early }));
        actions.extend(finished.then_some(Action::Finish { data }));
        actions
    }

    fn on_data(&mut self, id: u32, finished: bool, bytes: Bytes) -> Vec<Action> {
        if let Some(pair) = self.pairs.get_mut(&id).filter(|pair| pair.receiving) {
            pair.receiving = !finished;
            let deliver = (!bytes.is_empty()).then_some(Action::Deliver { data: id, bytes });
            return deliver
                .into_iter()
                .chain(finished.then_some(Action::Finish { data: id }))
                .collect();
        }
        // The stream may have ended while the data was in flight; data on an error stream is ignored.
        let early = |half: &&mut Half| half.id == id && half.kind == Kind::Data && !half.finished;
        let of_all: usize = self.waiting.values().map(|half| half.early.len()).sum();
        let Some(half) = self.waiting.values_mut().find(early) else {
            return vec![];
        };
        if half.early.len() + bytes.len() > EARLY_MAX || of_all + bytes.len() > EARLY_OF_ALL_MAX {
            self.waiting.retain(|_, half| half.id != id);
            return vec![reset(id, ResetStatus::FlowControl)];
        }
        half.early.extend_from_slice(&bytes);
        half.finished = finished;
        vec![]
    }

    fn on_reset(&mut self, id: u32) -> Vec<Action> {
        if let Some(pair) = self.pairs.remove(&id) {
            // The client still waits for the end of the error stream (client-go `handleConnection`).
            let error = pair.error.map(|error| fin(error, Bytes::new()));
            return [Action::Abandon { data: id }].into_iter().chain(error).collect();
        }
        if let Some(pair) = self.pairs.values_mut().find(|pair| pair.error == Some(id)) {
            pair.error = None;
        }
        self.waiting.retain(|_, half| half.id != id);
        vec![]
    }

    fn reply(&mut self, id: u32) -> Action {
        Action::Send(Frame::SynReply {
            id,
            header_block: self.writer.empty(),
        })
    }
}

/// The headers with which a client opens a stream.
struct Opening {
    kind: Kind,
    port: u16,
    request: String,
}

impl Opening {
    fn read(id: u32, headers: &Headers) -> Option<Self> {
        let kind = match headers.get("streamtype")? {
            "error" => Kind::Error,
            "data" => Kind::Data,
            _ => return None,
        };
        let port = headers.get("port")?.parse().ok().filter(|&port| port > 0)?;
        let request = match headers.get("requestid").unwrap_or_default() {
            // Old clients send no request id, and open the two streams one after the other.
            "" if kind == Kind::Error => id.to_string(),
            "" => id.wrapping_sub(2).to_string(),
            request if request.len() > REQUEST_ID_MAX => return None,
            request => request.to_owned(),
        };
        Some(Self { kind, port, request })
    }
}

fn fin(id: u32, bytes: Bytes) -> Action {
    Action::Send(Frame::Data { id, fin: true, bytes })
}

fn reset(id: u32, status: ResetStatus) -> Action {
    Action::Send(Frame::Reset {
        id,
        status: status as u32,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::header_block::tests::Deflater;

    const EMPTY: Bytes = Bytes::new();

    /// A session and the client's compressor.
    struct Session {
        streams: Streams,
        deflater: Deflater,
        now: Duration,
    }

    impl Session {
        fn new() -> Self {
            Self {
                streams: Streams::new(),
                deflater: Deflater::new(),
                now: Duration::ZERO,
            }
        }

        fn frame(&mut self, frame: Frame) -> Vec<Action> {
            let mut actions = Vec::new();
            self.streams.on_frame(self.now, frame, &mut actions).unwrap();
            actions
        }

        fn open_with(&mut self, id: u32, fin: bool, headers: &[(&str, &str)]) -> Vec<Action> {
            let header_block = self.deflater.write(headers).into();
            self.frame(Frame::SynStream {
                id,
                fin,
                header_block,
            })
        }

        fn open(&mut self, id: u32, kind: &str, port: &str, request: &str) -> Vec<Action> {
            self.open_with(
                id,
                false,
                &[("streamtype", kind), ("port", port), ("requestid", request)],
            )
        }

        fn data(&mut self, id: u32, fin: bool, bytes: &'static [u8]) -> Vec<Action> {
            self.frame(Frame::Data {
                id,
                fin,
                bytes: Bytes::from_static(bytes),
            })
        }

        /// A session with one connection, on streams 1 and 3, to port 80.
        fn paired() -> Self {
            let mut session = Self::new();
            session.open(1, "error", "80", "0");
            session.open(3, "data", "80", "0");
            session
        }
    }

    fn is_reply(action: &Action, stream: u32) -> bool {
        matches!(action, Action::Send(Frame::SynReply { id, .. }) if *id == stream)
    }

    #[test]
    fn pair_is_replied_to_and_then_connected() {
        let mut session = Session::new();
        let opened = session.open(1, "error", "2379", "0");
        assert!(matches!(&opened[..], [reply] if is_reply(reply, 1)), "{opened:?}");
        assert_eq!(session.data(1, true, b""), []);
        let opened = session.open(3, "data", "2379", "0");
        assert!(is_reply(&opened[0], 3));
        assert_eq!(opened[1..], [Action::Connect { data: 3, port: 2379 }]);
        let deliver = Action::Deliver {
            data: 3,
            bytes: Bytes::from_static(b"hi"),
        };
        assert_eq!(
            session.data(3, true, b"hi"),
            [deliver, Action::Finish { data: 3 }]
        );
        assert_eq!(session.data(3, false, b"after the end"), []);
    }

    #[test]
    fn connections_of_one_session_are_told_apart_by_request_id() {
        let mut session = Session::new();
        session.open(1, "error", "80", "0");
        session.open(3, "error", "443", "1");
        assert_eq!(
            session.open(5, "data", "443", "1")[1..],
            [Action::Connect { data: 5, port: 443 }]
        );
        assert_eq!(
            session.open(7, "data", "80", "0")[1..],
            [Action::Connect { data: 7, port: 80 }]
        );
        assert_eq!(session.streams.on_end(7, Ok(())), [fin(1, EMPTY), fin(7, EMPTY)]);
        // The request id is free again as soon as its pair is complete.
        session.open(9, "error", "80", "0");
        assert_eq!(
            session.open(11, "data", "80", "0")[1..],
            [Action::Connect { data: 11, port: 80 }]
        );
    }

    #[test]
    fn data_that_comes_before_the_error_stream_is_kept() {
        let mut session = Session::new();
        session.open(1, "data", "80", "0");
        assert_eq!(session.data(1, false, b"a"), []);
        assert_eq!(session.data(1, true, b"b"), []);
        let opened = session.open(3, "error", "80", "0");
        assert!(is_reply(&opened[0], 3));
        let deliver = Action::Deliver {
            data: 1,
            bytes: Bytes::from_static(b"ab"),
        };
        assert_eq!(
            opened[1..],
            [
                Action::Connect { data: 1, port: 80 },
                deliver,
                Action::Finish { data: 1 }
            ]
        );
    }

    #[test]
    fn more_data_than_is_kept_resets_the_stream() {
        let mut session = Session::new();
        session.open(1, "data", "80", "0");
        assert_eq!(session.data(1, false, &[0; EARLY_MAX]), []);
        assert_eq!(session.data(1, false, b"x"), [reset(1, ResetStatus::FlowControl)]);
        assert_eq!(
            session.open(3, "error", "80", "0").len(),
            1,
            "its other half waits again"
        );
    }

    #[test]
    fn streams_that_wait_share_what_is_kept_for_them() {
        let mut session = Session::new();
        let ids: Vec<u32> = (0..5).map(|number| 2 * number + 1).collect();
        for id in &ids {
            session.open(*id, "data", "80", &id.to_string());
        }
        let (last, full) = ids.split_last().unwrap();
        for id in full {
            assert_eq!(session.data(*id, false, &[0; EARLY_MAX]), []);
        }
        assert_eq!(
            session.data(*last, false, b"x"),
            [reset(*last, ResetStatus::FlowControl)]
        );
        // What is delivered makes room.
        session.open(11, "error", "80", "1");
        assert_eq!(session.data(3, false, b""), []);
    }

    #[test]
    fn clients_without_request_ids_are_paired_by_stream_id() {
        let mut session = Session::new();
        session.open_with(1, false, &[("streamtype", "error"), ("port", "80")]);
        let opened = session.open_with(3, true, &[("streamtype", "data"), ("port", "80")]);
        assert_eq!(
            opened[1..],
            [Action::Connect { data: 3, port: 80 }, Action::Finish { data: 3 }]
        );
    }

    #[test]
    fn streams_that_make_no_sense_are_reset() {
        let mut session = Session::new();
        let cancelled = |id| [reset(id, ResetStatus::Cancel)];
        assert_eq!(session.open(1, "error", "0", "0"), cancelled(1));
        assert_eq!(session.open(3, "error", "65536", "0"), cancelled(3));
        assert_eq!(session.open(5, "other", "80", "0"), cancelled(5));
        assert_eq!(
            session.open_with(7, false, &[("streamtype", "data")]),
            cancelled(7)
        );
        assert_eq!(session.open_with(9, false, &[]), cancelled(9));
        assert_eq!(session.open(11, "data", "80", &"9".repeat(65)), cancelled(11));
        assert_eq!(
            session.open(11, "data", "80", "0"),
            [reset(11, ResetStatus::Protocol)],
            "an id used before"
        );
        assert_eq!(
            session.open(12, "data", "80", "0"),
            [reset(12, ResetStatus::Protocol)],
            "a server's id"
        );
        session.open(13, "data", "80", "0");
        assert_eq!(
            session.open(15, "data", "80", "0"),
            cancelled(15),
            "a second of its kind"
        );
        assert_eq!(
            session.open(17, "error", "80", "0")[1..],
            [Action::Connect { data: 13, port: 80 }]
        );
    }

    #[test]
    fn failure_of_the_target_is_told_on_the_error_stream() {
        let mut session = Session::paired();
        let text = Bytes::from_static(b"error forwarding port 80: connection refused");
        let ended = session.streams.on_end(3, Err("connection refused".to_owned()));
        assert_eq!(ended, [fin(1, text), reset(3, ResetStatus::Cancel)]);
        assert_eq!(session.data(3, true, b"late"), []);
        assert_eq!(session.streams.on_end(3, Ok(())), []);
    }

    #[test]
    fn reset_of_the_data_stream_abandons_the_target_and_ends_the_error_stream() {
        let mut session = Session::paired();
        let actions = session.frame(Frame::Reset { id: 3, status: 5 });
        assert_eq!(actions, [Action::Abandon { data: 3 }, fin(1, EMPTY)]);
        assert_eq!(session.streams.on_end(3, Ok(())), []);
    }

    #[test]
    fn reset_of_the_error_stream_keeps_the_connection() {
        let mut session = Session::paired();
        assert_eq!(session.frame(Frame::Reset { id: 1, status: 5 }), []);
        assert_eq!(session.data(3, false, b"x").len(), 1);
        assert_eq!(
            session.streams.on_end(3, Err("gone".to_owned())),
            [reset(3, ResetStatus::Cancel)]
        );
    }

    #[test]
    fn reset_of_a_waiting_stream_frees_its_request_id() {
        let mut session = Session::new();
        session.open(1, "error", "80", "0");
        assert_eq!(session.frame(Frame::Reset { id: 1, status: 5 }), []);
        assert_eq!(session.streams.next_deadline(), None);
        let opened = session.open(3, "error", "80", "0");
        assert!(matches!(&opened[..], [reply] if is_reply(reply, 3)), "{opened:?}");
    }

    #[test]
    fn stream_waits_half_a_minute_for_its_other() {
        let mut session = Session::new();
        session.open(1, "error", "80", "7");
        session.now = Duration::from_secs(10);
        session.open(3, "data", "80", "8");
        assert_eq!(session.streams.next_deadline(), Some(PAIR_TIMEOUT));
        assert_eq!(
            session.streams.on_time(PAIR_TIMEOUT - Duration::from_millis(1)),
            []
        );
        let text = Bytes::from_static(b"request 7: timed out waiting for streams");
        assert_eq!(session.streams.on_time(PAIR_TIMEOUT), [fin(1, text)]);
        assert_eq!(
            session.streams.on_time(Duration::from_secs(40)),
            [reset(3, ResetStatus::Cancel)]
        );
        assert_eq!(session.streams.next_deadline(), None);
    }

    #[test]
    fn streams_beyond_the_bound_are_refused() {
        let mut session = Session::new();
        let ids = || (1u32..).step_by(2);
        for (pair, id) in (0..STREAMS_MAX / 2).zip(ids().step_by(2)) {
            session.open(id, "error", "80", &pair.to_string());
            session.open(id + 2, "data", "80", &pair.to_string());
        }
        let next = ids().nth(STREAMS_MAX).unwrap();
        assert_eq!(
            session.open(next, "error", "80", "x"),
            [reset(next, ResetStatus::Refused)]
        );
        session.streams.on_end(3, Ok(()));
        assert!(is_reply(&session.open(next + 2, "error", "80", "x")[0], next + 2));
    }

    #[test]
    fn pings_of_the_client_are_echoed() {
        let mut session = Session::new();
        assert_eq!(
            session.frame(Frame::Ping { id: 7 }),
            [Action::Send(Frame::Ping { id: 7 })]
        );
        assert_eq!(session.frame(Frame::Ping { id: 2 }), []);
    }

    #[test]
    fn client_that_goes_away_is_served_to_the_end_of_its_streams() {
        let mut session = Session::paired();
        assert_eq!(session.frame(Frame::GoAway { last: 0, status: 0 }), []);
        assert!(!session.streams.is_over());
        assert_eq!(
            session.open(5, "error", "80", "1"),
            [reset(5, ResetStatus::Refused)]
        );
        assert_eq!(session.data(3, false, b"x").len(), 1);
        session.streams.on_end(3, Ok(()));
        assert!(session.streams.is_over());
    }

    /// An action of the client or the target.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Open {
            id: u32,
            fin: bool,
            kind: u8,
            port: u16,
            request: Option<u8>,
        },
        Data {
            id: u32,
            fin: bool,
            length: usize,
        },
        Headers {
            id: u32,
            fin: bool,
        },
        Reset {
            id: u32,
        },
        Ping {
            id: u32,
        },
        End {
            id: u32,
            fails: bool,
        },
        Pass {
            seconds: u64,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        let id = || 1u32..24;
        let open = (id(), any::<bool>(), 0u8..5, 0u16..3, proptest::option::of(0u8..3));
        prop_oneof![
            5 => open.prop_map(|(id, fin, kind, port, request)| Step::Open { id, fin, kind, port, request }),
            3 => (id(), any::<bool>(), 0usize..9000).prop_map(|(id, fin, length)| Step::Data { id, fin, length }),
            1 => (id(), any::<bool>()).prop_map(|(id, fin)| Step::Headers { id, fin }),
            1 => id().prop_map(|id| Step::Reset { id }),
            1 => id().prop_map(|id| Step::Ping { id }),
            2 => (id(), any::<bool>()).prop_map(|(id, fails)| Step::End { id, fails }),
            1 => (0u64..40).prop_map(|seconds| Step::Pass { seconds }),
        ]
    }

    impl Session {
        fn step(&mut self, step: Step) -> Vec<Action> {
            match step {
                Step::Open {
                    id,
                    fin,
                    kind,
                    port,
                    request,
                } => {
                    let kind = ["error", "data", "error", "data", "neither"][usize::from(kind)];
                    let port = port.to_string();
                    let request = request.map(|request| request.to_string());
                    let mut headers = vec![("streamtype", kind), ("port", &port)];
                    headers.extend(request.as_ref().map(|request| ("requestid", request.as_str())));
                    self.open_with(id, fin, &headers)
                }
                Step::Data { id, fin, length } => self.frame(Frame::Data {
                    id,
                    fin,
                    bytes: vec![0; length].into(),
                }),
                Step::Headers { id, fin } => {
                    let header_block = self.deflater.write(&[("more", "headers")]).into();
                    self.frame(Frame::Headers {
                        id,
                        fin,
                        header_block,
                    })
                }
                Step::Reset { id } => self.frame(Frame::Reset { id, status: 5 }),
                Step::Ping { id } => self.frame(Frame::Ping { id }),
                Step::End { id, fails } => {
                    let result = if fails { Err("failed".to_owned()) } else { Ok(()) };
                    self.streams.on_end(id, result)
                }
                Step::Pass { seconds } => {
                    self.now += Duration::from_secs(seconds);
                    self.streams.on_time(self.now)
                }
            }
        }
    }

    proptest! {
        /// The guarantees to a client hold for any behaviour of the client.
        #[test]
        fn streams_keep_their_order(steps in vec(step(), 0..80)) {
            let mut session = Session::new();
            let mut replied = BTreeSet::new();
            let mut ended = BTreeSet::new();
            let mut connected = BTreeSet::new();
            let mut finished = BTreeSet::new();
            for step in steps {
                let target_ended = match step {
                    Step::End { id, .. } => Some(id),
                    _ => None,
                };
                for action in session.step(step) {
                    match action {
                        Action::Send(Frame::SynReply { id, .. }) => {
                            prop_assert!(replied.insert(id), "{} is replied to twice", id);
                        }
                        Action::Send(Frame::Data { id, fin, .. }) => {
                            prop_assert!(replied.contains(&id), "data on {} before its reply", id);
                            prop_assert!(!ended.contains(&id), "data on {} after its end", id);
                            prop_assert!(fin);
                            ended.insert(id);
                        }
                        Action::Send(Frame::Reset { id, status }) => {
                            // A client that reuses an id gets the error on that id.
                            prop_assert!(status == ResetStatus::Protocol as u32 || ended.insert(id));
                        }
                        Action::Send(_) => {}
                        Action::Connect { data, port } => {
                            prop_assert!(port > 0 && replied.contains(&data) && connected.insert(data));
                        }
                        Action::Deliver { data, bytes } => {
                            prop_assert!(connected.contains(&data) && !finished.contains(&data));
                            prop_assert!(!bytes.is_empty());
                        }
                        Action::Finish { data } => {
                            prop_assert!(connected.contains(&data) && finished.insert(data));
                        }
                        Action::Abandon { data } => prop_assert!(connected.remove(&data)),
                    }
                }
                connected.retain(|&data| Some(data) != target_ended);
                let pairs: BTreeSet<_> = session.streams.pairs.keys().copied().collect();
                prop_assert_eq!(&pairs, &connected);
                prop_assert!(session.streams.next_deadline().is_none_or(|deadline| deadline > session.now));
            }
        }
    }
}
