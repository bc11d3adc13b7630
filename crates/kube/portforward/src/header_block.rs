//! Header blocks (SPDY protocol draft 3.1, section 2.6.10): name-value pairs, compressed with one zlib stream per
//! direction of a connection. Each block ends with a sync flush.

use bytes::{BufMut as _, Bytes, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};
use thiserror::Error;

use crate::dictionary::{DICTIONARY, DICTIONARY_ADLER32};

/// Limits of a block. A port-forward stream has three headers of a few bytes.
const BLOCK_MAX: usize = 4 * 1024;
const HEADERS_MAX: u32 = 32;

/// Why a header block is refused. The error ends the session, because the compression's history is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The block is not a continuation of the connection's zlib stream.
    #[error("header block does not decompress")]
    Compression,
    /// The block is larger than a port-forward client needs.
    #[error("header block is larger than {BLOCK_MAX} bytes or {HEADERS_MAX} headers")]
    TooLarge,
    /// The block is not a list of names and values.
    #[error("header block is malformed")]
    Malformed,
}

/// The headers of one block. Names are in lower case; several values of one name are joined by NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Headers {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Decompresses the blocks of one direction, in order.
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// Decompresses and parses one block.
    pub(crate) fn read(&mut self, block: &[u8]) -> Result<Headers, HeaderError> {
        let mut out = Vec::with_capacity(512);
        let mut rest = block;
        loop {
            let before = (self.0.total_in(), self.0.total_out());
            out.reserve(512);
            let result = self.0.decompress_vec(rest, &mut out, FlushDecompress::Sync);
            let taken =
                usize::try_from(self.0.total_in() - before.0).map_err(|_| HeaderError::Compression)?;
            rest = rest.get(taken..).ok_or(HeaderError::Compression)?;
            match result {
                // The zlib stream must not end before the connection.
                Ok(Status::StreamEnd) => return Err(HeaderError::Compression),
                Ok(Status::Ok | Status::BufError) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0
                        .set_dictionary(DICTIONARY)
                        .map_err(|_| HeaderError::Compression)?;
                    continue;
                }
                Err(_) => return Err(HeaderError::Compression),
            }
            if out.len() > BLOCK_MAX {
                return Err(HeaderError::TooLarge);
            }
            let idle = (self.0.total_in(), self.0.total_out()) == before;
            if rest.is_empty() && (idle || out.len() < out.capacity()) {
                return parse(&out);
            }
            if idle {
                return Err(HeaderError::Compression);
            }
        }
    }
}

fn parse(mut block: &[u8]) -> Result<Headers, HeaderError> {
    let count = number(&mut block).ok_or(HeaderError::Malformed)?;
    if count > HEADERS_MAX {
        return Err(HeaderError::TooLarge);
    }
    let headers: Option<Vec<_>> = (0..count)
        .map(|_| Some((text(&mut block)?, text(&mut block)?)))
        .collect();
    headers
        .filter(|_| block.is_empty())
        .map(Headers)
        .ok_or(HeaderError::Malformed)
}

fn number(block: &mut &[u8]) -> Option<u32> {
    let (head, rest) = block.split_first_chunk::<4>()?;
    *block = rest;
    Some(u32::from_be_bytes(*head))
}

fn text(block: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(number(block)?).ok()?;
    let (head, rest) = block.split_at_checked(length)?;
    *block = rest;
    String::from_utf8(head.to_vec()).ok()
}

/// Writes the blocks of one direction, in order, as deflate's stored blocks (RFC 1951 section 3.2.4). A port-forward
/// server sends only empty blocks, so a compressor would save nothing and take some 300 KiB per session.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    begun: bool,
}

impl Writer {
    /// A block without headers.
    pub(crate) fn empty(&mut self) -> Bytes {
        let mut out = BytesMut::with_capacity(24);
        if !self.begun {
            self.begun = true;
            // RFC 1950: deflate with a window of 32 KiB and this preset dictionary.
            out.put_slice(&[0x78, 0xbb]);
            out.put_u32(DICTIONARY_ADLER32);
        }
        // A stored block of four bytes, which are the number of headers; then the empty block of a sync flush.
        out.put_slice(&[0, 4, 0, !4, !0, 0, 0, 0, 0]);
        out.put_slice(&[0, 0, 0, !0, !0]);
        out.freeze()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use flate2::{Compress, Compression, FlushCompress};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// The client's compressor.
    pub(crate) struct Deflater(Compress);

    impl Deflater {
        pub(crate) fn new() -> Self {
            let mut compress = Compress::new(Compression::best(), true);
            let id = compress.set_dictionary(DICTIONARY).unwrap();
            assert_eq!(id, DICTIONARY_ADLER32);
            Self(compress)
        }

        pub(crate) fn write(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
            let mut plain = Vec::new();
            plain.put_u32(u32::try_from(headers.len()).unwrap());
            for text in headers.iter().flat_map(|(name, value)| [name, value]) {
                plain.put_u32(u32::try_from(text.len()).unwrap());
                plain.put_slice(text.as_bytes());
            }
            self.raw(&plain)
        }

        fn raw(&mut self, plain: &[u8]) -> Vec<u8> {
            let mut out = Vec::with_capacity(plain.len() + 128);
            self.0.compress_vec(plain, &mut out, FlushCompress::Sync).unwrap();
            out
        }
    }

    #[test]
    fn stream_of_blocks_shares_one_history() {
        let mut deflater = Deflater::new();
        let mut inflater = Inflater::new();
        let mut lengths = Vec::new();
        for index in 0..40 {
            let port = index.to_string();
            let headers = [
                ("streamtype", "data"),
                ("port", port.as_str()),
                ("requestid", "0"),
            ];
            let block = deflater.write(&headers);
            lengths.push(block.len());
            let seen = inflater.read(&block).unwrap();
            assert_eq!(
                headers.map(|(name, _)| seen.get(name)),
                headers.map(|(_, value)| Some(value))
            );
        }
        assert!(
            lengths[1] < lengths[0] / 2,
            "the second block refers to the first: {lengths:?}"
        );
        assert_eq!(inflater.read(&deflater.write(&[])), Ok(Headers::default()));
    }

    #[test]
    fn written_blocks_are_those_of_the_specification_and_read_back() {
        let mut writer = Writer::default();
        let mut inflater = Inflater::new();
        let first = writer.empty();
        assert_eq!(
            first[..],
            *b"\x78\xbb\xe3\xc6\xa7\xc2\x00\x04\x00\xfb\xff\x00\x00\x00\x00\x00\x00\x00\xff\xff"
        );
        assert_eq!(inflater.read(&first), Ok(Headers::default()));
        for _ in 0..3 {
            let next = writer.empty();
            assert_eq!(next, first[6..]);
            assert_eq!(inflater.read(&next), Ok(Headers::default()));
        }
    }

    #[test]
    fn large_and_malformed_blocks_are_refused() {
        let read = |plain: &[u8]| Inflater::new().read(&Deflater::new().raw(plain));
        assert_eq!(read(&[0; 1 << 20]), Err(HeaderError::TooLarge));
        assert_eq!(read(&[0, 0, 0, 33]), Err(HeaderError::TooLarge));
        assert_eq!(read(&[0, 0, 0, 1]), Err(HeaderError::Malformed));
        assert_eq!(read(&[0, 0, 0, 0, 7]), Err(HeaderError::Malformed));
        assert_eq!(
            read(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, b'a']),
            Err(HeaderError::Malformed)
        );
        assert_eq!(
            read(&[0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0, 0, 0, 0]),
            Err(HeaderError::Malformed)
        );
        assert_eq!(Inflater::new().read(&[]), Err(HeaderError::Malformed));
        assert_eq!(Inflater::new().read(b"plain"), Err(HeaderError::Compression));
    }

    #[test]
    fn other_dictionary_is_refused() {
        let mut compress = Compress::new(Compression::best(), true);
        compress.set_dictionary(b"another").unwrap();
        assert_eq!(
            Inflater::new().read(&Deflater(compress).write(&[])),
            Err(HeaderError::Compression)
        );
    }

    proptest! {
        #[test]
        fn headers_survive_compression(
            blocks in vec(vec(("[a-z]{0,20}", "[ -~\u{0}é]{0,40}"), 0..6), 0..5),
        ) {
            let mut deflater = Deflater::new();
            let mut inflater = Inflater::new();
            for block in blocks {
                let headers: Vec<_> = block.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                prop_assert_eq!(inflater.read(&deflater.write(&headers)), Ok(Headers(block)));
            }
        }

        #[test]
        fn no_block_panics(blocks in vec(vec(any::<u8>(), 0..60), 0..4), begun in any::<bool>()) {
            let mut inflater = Inflater::new();
            if begun {
                inflater.read(&Deflater::new().write(&[("port", "1")])).unwrap();
            }
            for block in blocks {
                let _ = inflater.read(&block);
            }
        }
    }
}
