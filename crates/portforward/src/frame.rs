//! SPDY/3.1 frames (SPDY protocol draft 3.1, section 2.2): bytes to frames and back, without I/O.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use thiserror::Error;

/// The longest frame that is taken. Clients send what their TLS layer hands them, at most some 16 KiB at a time;
/// `kubectl` copies with 32 KiB buffers.
pub(crate) const FRAME_MAX: usize = 256 * 1024;

const VERSION: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const FIN: u8 = 1;

/// A frame as far as a port-forward server cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A stream begins; its headers are still compressed.
    SynStream { id: u32, fin: bool, header_block: Bytes },
    /// A stream is accepted.
    SynReply { id: u32, header_block: Bytes },
    /// A stream ends abruptly.
    Reset { id: u32, status: u32 },
    /// An echo is asked for, or given.
    Ping { id: u32 },
    /// The peer opens no more streams.
    GoAway,
    /// Bytes of a stream.
    Data { id: u32, fin: bool, bytes: Bytes },
    /// Headers after the beginning: they mean nothing here but belong to the compression's history.
    Headers { header_block: Bytes },
    /// Settings, window updates and whatever else can be left unanswered.
    Ignored,
}

/// How a peer breaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum FrameError {
    #[error("frame of {0} bytes is too long")]
    TooLong(usize),
    #[error("control frame of version {0:#06x} instead of 3")]
    Version(u16),
    #[error("control frame of type {0} is too short")]
    TooShort(u16),
}

/// Takes the next whole frame off `buffer`, or none until more bytes are there.
pub(crate) fn decode(buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
    let Some(header) = buffer.get(..8) else { return Ok(None) };
    let word = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    let flags = header[4];
    let length = usize::from(header[5]) << 16 | usize::from(header[6]) << 8 | usize::from(header[7]);
    if length > FRAME_MAX {
        return Err(FrameError::TooLong(length));
    }
    let control = word >> 31 == 1;
    let version = (word >> 16) as u16;
    if control && version != VERSION {
        return Err(FrameError::Version(version));
    }
    if buffer.len() < 8 + length {
        return Ok(None);
    }
    buffer.advance(8);
    let mut body = buffer.split_to(length).freeze();
    if !control {
        return Ok(Some(Frame::Data { id: word, fin: flags & FIN != 0, bytes: body }));
    }
    let kind = (word & 0xffff) as u16;
    let needed = match kind {
        SYN_STREAM => 10,
        SYN_REPLY | PING | 8 => 4,
        RST_STREAM => 8,
        _ => 0,
    };
    if body.len() < needed {
        return Err(FrameError::TooShort(kind));
    }
    Ok(Some(match kind {
        SYN_STREAM => {
            let id = body.get_u32() & 0x7fff_ffff;
            body.advance(6);
            Frame::SynStream { id, fin: flags & FIN != 0, header_block: body }
        }
        SYN_REPLY => Frame::SynReply { id: body.get_u32() & 0x7fff_ffff, header_block: body },
        RST_STREAM => Frame::Reset { id: body.get_u32() & 0x7fff_ffff, status: body.get_u32() },
        PING => Frame::Ping { id: body.get_u32() },
        GO_AWAY => Frame::GoAway,
        8 => {
            body.advance(4);
            Frame::Headers { header_block: body }
        }
        _ => Frame::Ignored,
    }))
}

/// Appends a frame to `out`. Data longer than a frame's 24-bit length must be split before.
pub(crate) fn encode(frame: &Frame, out: &mut BytesMut) {
    let control = |out: &mut BytesMut, kind: u16, flags: u8, length: usize| {
        out.put_u16(VERSION);
        out.put_u16(kind);
        out.put_u32(
            u32::from(flags) << 24 | u32::try_from(length).expect("frames are shorter than FRAME_MAX"),
        );
    };
    match frame {
        Frame::SynStream { id, fin, header_block } => {
            control(out, SYN_STREAM, u8::from(*fin), 10 + header_block.len());
            out.put_u32(*id);
            out.put_slice(&[0; 6]);
            out.put_slice(header_block);
        }
        Frame::SynReply { id, header_block } => {
            control(out, SYN_REPLY, 0, 4 + header_block.len());
            out.put_u32(*id);
            out.put_slice(header_block);
        }
        Frame::Reset { id, status } => {
            control(out, RST_STREAM, 0, 8);
            out.put_u32(*id);
            out.put_u32(*status);
        }
        Frame::Ping { id } => {
            control(out, PING, 0, 4);
            out.put_u32(*id);
        }
        Frame::GoAway => {
            control(out, GO_AWAY, 0, 8);
            out.put_u64(0);
        }
        Frame::Data { id, fin, bytes } => {
            out.put_u32(*id);
            let length = u32::try_from(bytes.len()).expect("frames are shorter than FRAME_MAX");
            out.put_u32(u32::from(u8::from(*fin)) << 24 | length);
            out.put_slice(bytes);
        }
        Frame::Headers { .. } | Frame::Ignored => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_look_as_the_specification_draws_them() {
        let mut out = BytesMut::new();
        encode(&Frame::Ping { id: 1 }, &mut out);
        encode(&Frame::Data { id: 3, fin: true, bytes: Bytes::from_static(b"hi") }, &mut out);
        assert_eq!(
            &out[..],
            b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00\x03\x01\x00\x00\x02hi"
        );
    }

    #[test]
    fn broken_frames_are_refused() {
        let decode = |bytes: &[u8]| super::decode(&mut BytesMut::from(bytes));
        assert_eq!(
            decode(b"\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01"),
            Err(FrameError::Version(0x8002))
        );
        assert_eq!(decode(b"\x80\x03\x00\x01\x00\x00\x00\x01\x00"), Err(FrameError::TooShort(1)));
        assert_eq!(decode(b"\x00\x00\x00\x01\x00\xff\xff\xff"), Err(FrameError::TooLong(0xff_ffff)));
    }

    fn frame() -> impl Strategy<Value = Frame> {
        let block = || proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        let id = || 0u32..0x8000_0000;
        prop_oneof![
            (id(), any::<bool>(), block()).prop_map(|(id, fin, header_block)| Frame::SynStream {
                id,
                fin,
                header_block
            }),
            (id(), block()).prop_map(|(id, header_block)| Frame::SynReply { id, header_block }),
            (id(), any::<u32>()).prop_map(|(id, status)| Frame::Reset { id, status }),
            any::<u32>().prop_map(|id| Frame::Ping { id }),
            Just(Frame::GoAway),
            (id(), any::<bool>(), block()).prop_map(|(id, fin, bytes)| Frame::Data { id, fin, bytes }),
        ]
    }

    proptest! {
        #[test]
        fn frames_survive_encoding_however_the_bytes_arrive(
            frames in proptest::collection::vec(frame(), 0..6), cut in 1usize..20,
        ) {
            let mut out = BytesMut::new();
            for frame in &frames {
                encode(frame, &mut out);
            }
            let (mut buffer, mut seen) = (BytesMut::new(), Vec::new());
            for piece in out.chunks(cut) {
                buffer.extend_from_slice(piece);
                while let Some(frame) = decode(&mut buffer).unwrap() {
                    seen.push(frame);
                }
            }
            prop_assert_eq!(seen, frames);
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = decode(&mut buffer) {}
        }
    }
}
