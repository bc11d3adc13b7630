//! WebSocket frames (RFC 6455 section 5), server side: bytes to events and back, without I/O.
//!
//! Message boundaries have no meaning in the tunnel, and a client sends each write as one message of any length. So
//! payload is passed on as it arrives, and at most one control frame of 131 bytes is buffered.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use thiserror::Error;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

const CONTINUATION: u8 = 0;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

const CONTROL_MAX: u64 = 125;

/// An event from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Bytes of a binary message.
    Data(Bytes),
    /// A ping, which is answered with the same bytes.
    Ping(Bytes),
    /// The client has ended its side.
    Close,
}

/// A violation of the protocol by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum WebSocketError {
    #[error("websocket frame with bits of an extension that was not agreed on")]
    Reserved,
    #[error("websocket frame without a mask")]
    Unmasked,
    #[error("websocket frame of type {0} in a tunnel of binary messages")]
    Kind(u8),
    #[error("websocket message begun or continued out of turn")]
    Turn,
    #[error("websocket control frame that is fragmented or longer than {CONTROL_MAX} bytes")]
    Control,
    #[error("websocket frame longer than the protocol allows")]
    Length,
}

/// Decodes frames.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Whether a message has begun but not ended.
    in_message: bool,
    /// The remaining length of a data frame, and its mask.
    payload: Option<(u64, Mask)>,
}

#[derive(Clone, Copy, Debug)]
struct Mask([u8; 4]);

impl Mask {
    /// Unmasks the next bytes of a payload.
    fn apply(&mut self, bytes: &mut [u8]) {
        for (byte, mask) in bytes.iter_mut().zip(self.0.into_iter().cycle()) {
            *byte ^= mask;
        }
        self.0.rotate_left(bytes.len() % 4);
    }
}

impl Decoder {
    /// Takes the next event from `buffer`; none if more bytes are needed.
    pub(crate) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Event>, WebSocketError> {
        loop {
            if let Some((left, mask)) = self.payload.as_mut() {
                if buffer.is_empty() {
                    return Ok(None);
                }
                let length = usize::try_from(*left).map_or(buffer.len(), |left| left.min(buffer.len()));
                let mut bytes = buffer.split_to(length);
                mask.apply(&mut bytes);
                *left -= length as u64;
                if *left == 0 {
                    self.payload = None;
                }
                return Ok(Some(Event::Data(bytes.freeze())));
            }
            let Some(Header {
                fin,
                kind,
                length,
                mut mask,
                size,
            }) = Header::read(buffer)?
            else {
                return Ok(None);
            };
            if kind >= CLOSE {
                let length = usize::try_from(length).map_err(|_| WebSocketError::Length)?;
                if buffer.len() < size + length {
                    return Ok(None);
                }
                buffer.advance(size);
                let mut bytes = buffer.split_to(length);
                mask.apply(&mut bytes);
                match kind {
                    CLOSE => return Ok(Some(Event::Close)),
                    PING => return Ok(Some(Event::Ping(bytes.freeze()))),
                    _ => continue,
                }
            }
            if self.in_message != (kind == CONTINUATION) {
                return Err(WebSocketError::Turn);
            }
            buffer.advance(size);
            self.in_message = !fin;
            self.payload = (length > 0).then_some((length, mask));
        }
    }

    /// Whether the last frame is complete.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.payload.is_none()
    }
}

struct Header {
    fin: bool,
    kind: u8,
    length: u64,
    mask: Mask,
    /// The length of the header itself.
    size: usize,
}

impl Header {
    fn read(buffer: &[u8]) -> Result<Option<Self>, WebSocketError> {
        let Some(&[first, second]) = buffer.first_chunk::<2>() else {
            return Ok(None);
        };
        let fin = first & FIN != 0;
        let kind = first & 0x0f;
        let short = u64::from(second & !MASKED);
        if first & RESERVED != 0 {
            return Err(WebSocketError::Reserved);
        }
        if second & MASKED == 0 {
            return Err(WebSocketError::Unmasked);
        }
        match kind {
            CONTINUATION | BINARY => {}
            CLOSE | PING | PONG if fin && short <= CONTROL_MAX => {}
            CLOSE | PING | PONG => return Err(WebSocketError::Control),
            _ => return Err(WebSocketError::Kind(kind)),
        }
        let mut rest = &buffer[2..];
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if rest.len() < extended + 4 {
            return Ok(None);
        }
        let length = match short {
            126 => u64::from(rest.get_u16()),
            127 => rest.get_u64(),
            short => short,
        };
        if length >> 63 != 0 {
            return Err(WebSocketError::Length);
        }
        let mask = Mask(rest.get_u32().to_be_bytes());
        Ok(Some(Self {
            fin,
            kind,
            length,
            mask,
            size: 2 + extended + 4,
        }))
    }
}

/// Appends a binary message.
pub(crate) fn message(bytes: &[u8], out: &mut BytesMut) {
    frame(BINARY, bytes, out);
}

/// Appends a pong, the answer to a ping.
pub(crate) fn pong(bytes: &[u8], out: &mut BytesMut) {
    frame(PONG, bytes, out);
}

/// Appends a close with a status code (RFC 6455 section 7.4).
pub(crate) fn close(code: u16, out: &mut BytesMut) {
    frame(CLOSE, &code.to_be_bytes(), out);
}

fn frame(kind: u8, bytes: &[u8], out: &mut BytesMut) {
    out.put_u8(FIN | kind);
    match (u8::try_from(bytes.len()), u16::try_from(bytes.len())) {
        (Ok(length @ ..126), _) => out.put_u8(length),
        (_, Ok(length)) => {
            out.put_u8(126);
            out.put_u16(length);
        }
        _ => {
            out.put_u8(127);
            out.put_u64(bytes.len() as u64);
        }
    }
    out.put_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn decode(bytes: &[u8]) -> Result<Vec<Event>, WebSocketError> {
        decode_pieces([bytes].into_iter())
    }

    /// All events, with neighbouring data joined, because the cuts between pieces do not matter.
    fn decode_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Event>, WebSocketError> {
        let mut decoder = Decoder::default();
        let mut buffer = BytesMut::new();
        let mut events: Vec<Event> = Vec::new();
        for piece in pieces {
            buffer.extend_from_slice(piece);
            while let Some(event) = decoder.decode(&mut buffer)? {
                match (events.last_mut(), event) {
                    (Some(Event::Data(before)), Event::Data(bytes)) => {
                        *before = [&before[..], &bytes[..]].concat().into();
                    }
                    (_, event) => events.push(event),
                }
            }
        }
        Ok(events)
    }

    fn data(bytes: &[u8]) -> Event {
        Event::Data(Bytes::copy_from_slice(bytes))
    }

    /// "Hello" as RFC 6455 section 5.7 masks it.
    const HELLO: [u8; 9] = [0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];

    #[test]
    fn frames_look_as_the_specification_has_them() {
        let hello = [&[0x82, 0x85], &HELLO[..]].concat();
        assert_eq!(decode(&hello), Ok(vec![data(b"Hello")]));
        let ping = [&[0x89, 0x85], &HELLO[..]].concat();
        assert_eq!(decode(&ping), Ok(vec![Event::Ping(Bytes::from_static(b"Hello"))]));
        assert_eq!(decode(&[0x88, 0x80, 1, 2, 3, 4]), Ok(vec![Event::Close]));

        let mut out = BytesMut::new();
        pong(b"Hello", &mut out);
        assert_eq!(out.split()[..], *b"\x8a\x05Hello");
        close(1000, &mut out);
        assert_eq!(out.split()[..], *b"\x88\x02\x03\xe8");
        for (length, header) in [
            (125, &b"\x82\x7d"[..]),
            (126, b"\x82\x7e\x00\x7e"),
            (256, b"\x82\x7e\x01\x00"),
            (65536, b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
        ] {
            message(&vec![7; length], &mut out);
            let whole = out.split();
            assert_eq!(whole[..header.len()], *header);
            assert_eq!(whole.len(), header.len() + length);
        }
    }

    #[test]
    fn fragments_are_one_stream_with_control_frames_between() {
        let unmasked = [0, 0, 0, 0];
        let bytes = [
            &[0x02, 0x82][..],
            &unmasked,
            b"He", // begins a message
            &[0x89, 0x81],
            &unmasked,
            b"?",
            &[0x8a, 0x80],
            &unmasked, // an unasked pong
            &[0x00, 0x80],
            &unmasked, // an empty fragment
            &[0x80, 0x83],
            &unmasked,
            b"llo",
            &[0x82, 0x81],
            &unmasked,
            b"!",
        ]
        .concat();
        let expected = vec![data(b"He"), Event::Ping(Bytes::from_static(b"?")), data(b"llo!")];
        assert_eq!(decode(&bytes), Ok(expected));
    }

    #[test]
    fn broken_frames_are_refused() {
        let cases: [(&[u8], WebSocketError); 9] = [
            (b"\x82\x05Hello", WebSocketError::Unmasked),
            (b"\xc2\x80\x00\x00\x00\x00", WebSocketError::Reserved),
            (b"\x81\x80\x00\x00\x00\x00", WebSocketError::Kind(1)),
            (b"\x83\x80\x00\x00\x00\x00", WebSocketError::Kind(3)),
            (b"\x80\x80\x00\x00\x00\x00", WebSocketError::Turn),
            (
                b"\x02\x80\x00\x00\x00\x00\x82\x80\x00\x00\x00\x00",
                WebSocketError::Turn,
            ),
            (b"\x09\x80\x00\x00\x00\x00", WebSocketError::Control),
            (b"\x89\xfe\x00\x7e\x00\x00\x00\x00", WebSocketError::Control),
            (
                b"\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
                WebSocketError::Length,
            ),
        ];
        for (bytes, error) in cases {
            assert_eq!(decode(bytes), Err(error), "{bytes:x?}");
        }
    }

    #[test]
    fn message_of_any_length_is_handed_on_as_it_arrives() {
        let mut decoder = Decoder::default();
        let mut buffer = BytesMut::new();
        buffer.extend_from_slice(b"\x82\xff\x00\x00\x00\xff\xff\xff\xff\xff\x00\x00\x00\x00ab");
        assert_eq!(decoder.decode(&mut buffer), Ok(Some(data(b"ab"))));
        assert_eq!(decoder.decode(&mut buffer), Ok(None));
        assert!(!decoder.is_between_frames());
        buffer.extend_from_slice(b"c");
        assert_eq!(decoder.decode(&mut buffer), Ok(Some(data(b"c"))));
    }

    fn client_frame() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop_oneof![4 => Just(BINARY), 1 => Just(PING), 1 => Just(PONG), 1 => Just(CLOSE)];
        (kind, vec(any::<u8>(), 0..300), any::<[u8; 4]>()).prop_map(|(kind, mut bytes, mask)| {
            if kind != BINARY {
                bytes.truncate(125);
            }
            let mut out = BytesMut::new();
            frame(kind, &[], &mut out);
            out.truncate(1);
            match u8::try_from(bytes.len()) {
                Ok(length @ ..126) => out.put_u8(MASKED | length),
                _ => {
                    out.put_u8(MASKED | 126);
                    out.put_u16(u16::try_from(bytes.len()).unwrap());
                }
            }
            out.put_slice(&mask);
            Mask(mask).apply(&mut bytes);
            out.put_slice(&bytes);
            out.to_vec()
        })
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_changes_nothing(
            frames in vec(client_frame(), 0..6), noise in vec(any::<u8>(), 0..6), cut in 1usize..40,
        ) {
            let bytes = [frames.concat(), noise].concat();
            prop_assert_eq!(decode_pieces(bytes.chunks(cut)), decode(&bytes));
        }

        #[test]
        fn masking_in_pieces_is_masking_at_once(bytes in vec(any::<u8>(), 0..40), key in any::<[u8; 4]>(), at in 0usize..40) {
            let mut whole = bytes.clone();
            let mut pieces = bytes;
            Mask(key).apply(&mut whole);
            let (head, tail) = pieces.split_at_mut(at.min(whole.len()));
            let mut mask = Mask(key);
            mask.apply(head);
            mask.apply(tail);
            prop_assert_eq!(whole, pieces);
        }

        #[test]
        fn no_bytes_panic(bytes in vec(prop_oneof![any::<u8>(), Just(0x82), Just(0xff)], 0..100)) {
            let _ = decode(&bytes);
        }
    }
}
