//! SPDY/3.1 frames (SPDY protocol draft 3.1, section 2.2): bytes to frames and back, without I/O.
//!
//! ```text
//!  control  |1| version 3 (15) | type (16) |        data  |0| stream id (31) |
//!           | flags (8) | length (24)      |              | flags (8) | length (24) |
//! ```

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use thiserror::Error;

/// The longest control frame that is accepted, in bytes. The longest one of a port-forward client opens a stream with
/// three short headers and has some 80 bytes.
pub(crate) const CONTROL_MAX: usize = 4 * 1024;

const HEADER: usize = 8;
const VERSION: u16 = 0x8003;
const ID_MASK: u32 = 0x7fff_ffff;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;

/// Why a stream is reset (section 2.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ResetStatus {
    Protocol = 1,
    Refused = 3,
    Cancel = 5,
    FlowControl = 7,
}

/// A frame that a port-forward server handles. It ignores SETTINGS, WINDOW_UPDATE and unknown types, because the
/// clients (moby/spdystream) implement no flow control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Opens a stream; its headers are still compressed.
    SynStream { id: u32, fin: bool, header_block: Bytes },
    /// Accepts a stream.
    SynReply { id: u32, header_block: Bytes },
    /// Ends a stream at once, in both directions.
    Reset { id: u32, status: u32 },
    /// An echo request, or the reply to one.
    Ping { id: u32 },
    /// Announces that the peer opens no more streams.
    GoAway { last: u32, status: u32 },
    /// More headers of an open stream: ignored, but part of the compression's history.
    Headers { id: u32, fin: bool, header_block: Bytes },
    /// Bytes of a stream: of a whole data frame, or the part that has arrived.
    Data { id: u32, fin: bool, bytes: Bytes },
}

/// A violation of the framing by the peer. Not recoverable, because the start of the next frame is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A control frame longer than any port-forward client needs.
    #[error("control frame of {0} bytes is longer than {CONTROL_MAX}")]
    TooLong(usize),
    /// A control frame of another protocol.
    #[error("control frame starts with {0:#06x} instead of {VERSION:#06x}")]
    Version(u16),
    /// A control frame whose length does not fit its type.
    #[error("control frame of type {kind} has {length} bytes")]
    Length {
        /// The type of the frame.
        kind: u16,
        /// The length of the frame, in bytes.
        length: usize,
    },
    /// A data frame that belongs to no stream.
    #[error("data frame for stream 0")]
    StreamZero,
}

/// Decodes frames. Data is passed on as it arrives, so at most one control frame is buffered, even if data frames are
/// long.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The data frame whose bytes come next.
    data: Option<Data>,
}

#[derive(Debug)]
struct Data {
    id: u32,
    fin: bool,
    left: usize,
}

impl Decoder {
    /// Takes the next frame, or the part of a data frame that has arrived, from `buffer`; none if more bytes are
    /// needed.
    pub(crate) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(data) = self.data.take() {
                return Ok(self.data(data, buffer));
            }
            let Some(header) = buffer.first_chunk::<HEADER>() else {
                return Ok(None);
            };
            let word = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
            let flags = header[4];
            let length = usize::from(header[5]) << 16 | usize::from(header[6]) << 8 | usize::from(header[7]);
            let fin = flags & FIN != 0;
            if word & !ID_MASK == 0 {
                if word == 0 {
                    return Err(FrameError::StreamZero);
                }
                buffer.advance(HEADER);
                self.data = Some(Data {
                    id: word,
                    fin,
                    left: length,
                });
                continue;
            }
            let version = (word >> 16) as u16;
            let kind = word as u16;
            if version != VERSION {
                return Err(FrameError::Version(version));
            }
            if length > CONTROL_MAX {
                return Err(FrameError::TooLong(length));
            }
            if buffer.len() < HEADER + length {
                return Ok(None);
            }
            buffer.advance(HEADER);
            let body = buffer.split_to(length).freeze();
            if let Some(frame) = control(kind, fin, body)? {
                return Ok(Some(frame));
            }
        }
    }

    fn data(&mut self, data: Data, buffer: &mut BytesMut) -> Option<Frame> {
        let Data { id, fin, left } = data;
        if left > 0 && buffer.is_empty() {
            self.data = Some(data);
            return None;
        }
        let bytes = buffer.split_to(left.min(buffer.len())).freeze();
        let left = left - bytes.len();
        if left > 0 {
            self.data = Some(Data { id, fin, left });
        }
        Some(Frame::Data {
            id,
            fin: fin && left == 0,
            bytes,
        })
    }
}

/// Reads the body of a control frame; none if the frame is ignored.
fn control(kind: u16, fin: bool, mut body: Bytes) -> Result<Option<Frame>, FrameError> {
    let length = body.len();
    let fits = match kind {
        SYN_STREAM => length >= 10,
        SYN_REPLY | HEADERS => length >= 4,
        RST_STREAM | GO_AWAY => length == 8,
        PING => length == 4,
        _ => return Ok(None),
    };
    if !fits {
        return Err(FrameError::Length { kind, length });
    }
    let word = body.get_u32();
    let id = word & ID_MASK;
    Ok(Some(match kind {
        SYN_STREAM => {
            // Skips the associated stream, the priority and the slot.
            body.advance(6);
            Frame::SynStream {
                id,
                fin,
                header_block: body,
            }
        }
        SYN_REPLY => Frame::SynReply {
            id,
            header_block: body,
        },
        HEADERS => Frame::Headers {
            id,
            fin,
            header_block: body,
        },
        RST_STREAM => Frame::Reset {
            id,
            status: body.get_u32(),
        },
        GO_AWAY => Frame::GoAway {
            last: id,
            status: body.get_u32(),
        },
        _ => Frame::Ping { id: word },
    }))
}

/// Appends a frame to `out`.
pub(crate) fn encode(frame: &Frame, out: &mut BytesMut) {
    match frame {
        Frame::SynStream {
            id,
            fin,
            header_block,
        } => {
            header(out, SYN_STREAM, *fin, 10 + header_block.len());
            out.put_u32(*id);
            out.put_bytes(0, 6);
            out.put_slice(header_block);
        }
        Frame::SynReply { id, header_block } => {
            header(out, SYN_REPLY, false, 4 + header_block.len());
            out.put_u32(*id);
            out.put_slice(header_block);
        }
        Frame::Headers {
            id,
            fin,
            header_block,
        } => {
            header(out, HEADERS, *fin, 4 + header_block.len());
            out.put_u32(*id);
            out.put_slice(header_block);
        }
        Frame::Reset { id, status } => {
            header(out, RST_STREAM, false, 8);
            out.put_u32(*id);
            out.put_u32(*status);
        }
        Frame::Ping { id } => {
            header(out, PING, false, 4);
            out.put_u32(*id);
        }
        Frame::GoAway { last, status } => {
            header(out, GO_AWAY, false, 8);
            out.put_u32(*last);
            out.put_u32(*status);
        }
        Frame::Data { id, fin, bytes } => {
            out.put_u32(*id);
            out.put_u32(flags_and_length(*fin, bytes.len()));
            out.put_slice(bytes);
        }
    }
}

fn header(out: &mut BytesMut, kind: u16, fin: bool, length: usize) {
    out.put_u16(VERSION);
    out.put_u16(kind);
    out.put_u32(flags_and_length(fin, length));
}

fn flags_and_length(fin: bool, length: usize) -> u32 {
    let length = u32::try_from(length).ok().filter(|length| length >> 24 == 0);
    u32::from(fin) << 24 | length.expect("we make frames of a few KiB, which 24 bits hold")
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn decode_all(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut decoder = Decoder::default();
        let mut buffer = BytesMut::from(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = decoder.decode(&mut buffer)? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[test]
    fn frames_look_as_the_specification_draws_them() {
        let cases: [(Frame, &[u8]); 7] = [
            (
                Frame::SynStream {
                    id: 3,
                    fin: false,
                    header_block: Bytes::from_static(b"h"),
                },
                b"\x80\x03\x00\x01\x00\x00\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00h",
            ),
            (
                Frame::SynReply {
                    id: 3,
                    header_block: Bytes::from_static(b"h"),
                },
                b"\x80\x03\x00\x02\x00\x00\x00\x05\x00\x00\x00\x03h",
            ),
            (
                Frame::Reset { id: 3, status: 5 },
                b"\x80\x03\x00\x03\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00\x05",
            ),
            (
                Frame::Ping { id: 1 },
                b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01",
            ),
            (
                Frame::GoAway { last: 9, status: 0 },
                b"\x80\x03\x00\x07\x00\x00\x00\x08\x00\x00\x00\x09\x00\x00\x00\x00",
            ),
            (
                Frame::Headers {
                    id: 3,
                    fin: true,
                    header_block: Bytes::from_static(b"h"),
                },
                b"\x80\x03\x00\x08\x01\x00\x00\x05\x00\x00\x00\x03h",
            ),
            (
                Frame::Data {
                    id: 3,
                    fin: true,
                    bytes: Bytes::from_static(b"hi"),
                },
                b"\x00\x00\x00\x03\x01\x00\x00\x02hi",
            ),
        ];
        for (frame, bytes) in cases {
            let mut out = BytesMut::new();
            encode(&frame, &mut out);
            assert_eq!(&out[..], bytes);
            assert_eq!(decode_all(bytes), Ok(vec![frame]));
        }
    }

    #[test]
    fn settings_window_updates_and_unknown_types_are_passed_over() {
        let settings = b"\x80\x03\x00\x04\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x64";
        let window_update = b"\x80\x03\x00\x09\x00\x00\x00\x08\x00\x00\x00\x03\x00\x01\x00\x00";
        let unknown = b"\x80\x03\x00\xff\x00\x00\x00\x02??";
        let ping = b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x05";
        let bytes = [&settings[..], window_update, unknown, ping].concat();
        assert_eq!(decode_all(&bytes), Ok(vec![Frame::Ping { id: 5 }]));
    }

    #[test]
    fn reserved_bit_of_a_stream_id_is_passed_over() {
        let reply = b"\x80\x03\x00\x02\x00\x00\x00\x04\x80\x00\x00\x03";
        assert_eq!(
            decode_all(reply),
            Ok(vec![Frame::SynReply {
                id: 3,
                header_block: Bytes::new()
            }])
        );
    }

    #[test]
    fn broken_frames_are_refused() {
        let version = b"\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01";
        assert_eq!(decode_all(version), Err(FrameError::Version(0x8002)));
        let short = b"\x80\x03\x00\x01\x00\x00\x00\x01\x00";
        assert_eq!(decode_all(short), Err(FrameError::Length { kind: 1, length: 1 }));
        let long = b"\x80\x03\x00\x06\x00\x00\x00\x05\x00\x00\x00\x01\x00";
        assert_eq!(decode_all(long), Err(FrameError::Length { kind: 6, length: 5 }));
        assert_eq!(
            decode_all(b"\x80\x03\x00\x08\x00\x00\x10\x01"),
            Err(FrameError::TooLong(4097))
        );
        assert_eq!(
            decode_all(b"\x00\x00\x00\x00\x00\x00\x00\x00"),
            Err(FrameError::StreamZero)
        );
    }

    #[test]
    fn data_frame_of_any_length_is_handed_on_as_it_arrives() {
        let mut decoder = Decoder::default();
        let mut buffer = BytesMut::new();
        buffer.extend_from_slice(b"\x00\x00\x00\x03\x01\xff\xff\xffab");
        let piece = |bytes| {
            Some(Frame::Data {
                id: 3,
                fin: false,
                bytes: Bytes::from_static(bytes),
            })
        };
        assert_eq!(decoder.decode(&mut buffer), Ok(piece(b"ab")));
        assert_eq!(decoder.decode(&mut buffer), Ok(None));
        buffer.extend_from_slice(b"c");
        assert_eq!(decoder.decode(&mut buffer), Ok(piece(b"c")));
    }

    fn frame() -> impl Strategy<Value = Frame> {
        let block = || vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        let id = || 1u32..0x8000_0000;
        prop_oneof![
            (id(), any::<bool>(), block()).prop_map(|(id, fin, header_block)| Frame::SynStream {
                id,
                fin,
                header_block
            }),
            (id(), block()).prop_map(|(id, header_block)| Frame::SynReply { id, header_block }),
            (id(), any::<bool>(), block()).prop_map(|(id, fin, header_block)| Frame::Headers {
                id,
                fin,
                header_block
            }),
            (id(), any::<u32>()).prop_map(|(id, status)| Frame::Reset { id, status }),
            any::<u32>().prop_map(|id| Frame::Ping { id }),
            (id(), any::<u32>()).prop_map(|(last, status)| Frame::GoAway { last, status }),
            (id(), any::<bool>(), block()).prop_map(|(id, fin, bytes)| Frame::Data { id, fin, bytes }),
        ]
    }

    /// Everything in `pieces`, as frames and at last an error. The pieces of a data frame are joined: where they
    /// were cut does not matter.
    fn decode_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Frame>, Option<FrameError>) {
        let mut decoder = Decoder::default();
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                match decoder.decode(&mut buffer) {
                    Ok(Some(Frame::Data { id, fin, bytes })) => match frames.last_mut() {
                        Some(Frame::Data {
                            id: same,
                            fin: ended @ false,
                            bytes: before,
                        }) if *same == id => {
                            *before = [&before[..], &bytes[..]].concat().into();
                            *ended = fin;
                        }
                        _ => frames.push(Frame::Data { id, fin, bytes }),
                    },
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error)),
                }
            }
        }
        (frames, None)
    }

    proptest! {
        #[test]
        fn frames_survive_encoding(frames in vec(frame(), 0..6)) {
            let mut out = BytesMut::new();
            for frame in &frames {
                encode(frame, &mut out);
            }
            prop_assert_eq!(decode_all(&out), Ok(frames));
        }

        #[test]
        fn where_the_bytes_are_cut_changes_nothing(
            frames in vec(frame(), 0..6), noise in vec(any::<u8>(), 0..12), cut in 1usize..20,
        ) {
            let mut out = BytesMut::new();
            for frame in &frames {
                encode(frame, &mut out);
            }
            out.extend_from_slice(&noise);
            prop_assert_eq!(decode_pieces(out.chunks(cut)), decode_pieces([&out[..]].into_iter()));
        }

        #[test]
        fn no_bytes_panic(bytes in vec(prop_oneof![any::<u8>(), Just(0), Just(0x80), Just(3)], 0..200)) {
            let _ = decode_all(&bytes);
        }
    }
}
