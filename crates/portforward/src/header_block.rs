//! Header blocks: name-value pairs, compressed with one zlib stream per direction of a connection.

use bytes::Bytes;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use thiserror::Error;

use crate::dictionary::DICTIONARY;

/// Bounds on what a block may say; a port-forward stream has three headers of a few bytes.
const BLOCK_MAX: usize = 16 * 1024;
const HEADERS_MAX: u32 = 64;

#[derive(Debug, Error)]
pub(crate) enum HeaderError {
    #[error("header block does not decompress")]
    Compression,
    #[error("header block is larger than {BLOCK_MAX} bytes")]
    TooLarge,
    #[error("header block is malformed")]
    Malformed,
}

/// Reads the blocks of one direction, in order.
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// Decompresses and parses one block. Names are lower case; several values of a name are joined by NUL.
    pub(crate) fn read(&mut self, block: &[u8]) -> Result<Vec<(String, String)>, HeaderError> {
        let mut out = Vec::with_capacity(512);
        let mut rest = block;
        loop {
            let before = (self.0.total_in(), self.0.total_out());
            out.reserve(512);
            let result = self.0.decompress_vec(rest, &mut out, FlushDecompress::Sync);
            let taken =
                usize::try_from(self.0.total_in() - before.0).map_err(|_| HeaderError::Compression)?;
            rest = &rest[taken..];
            match result {
                Ok(Status::StreamEnd) => return Err(HeaderError::Compression),
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(DICTIONARY).map_err(|_| HeaderError::Compression)?;
                    continue;
                }
                Err(_) => return Err(HeaderError::Compression),
            }
            if out.len() > BLOCK_MAX {
                return Err(HeaderError::TooLarge);
            }
            let idle = (self.0.total_in(), self.0.total_out()) == before;
            if rest.is_empty() && (idle || out.len() < out.capacity()) {
                return parse(&out).ok_or(HeaderError::Malformed);
            }
            if idle {
                return Err(HeaderError::Compression);
            }
        }
    }
}

fn parse(mut block: &[u8]) -> Option<Vec<(String, String)>> {
    let count = number(&mut block)?;
    if count > HEADERS_MAX {
        return None;
    }
    let headers = (0..count).map(|_| Some((text(&mut block)?, text(&mut block)?))).collect();
    if block.is_empty() { headers } else { None }
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

/// Writes the blocks of one direction, in order.
pub(crate) struct Deflater(Compress);

impl Deflater {
    pub(crate) fn new() -> Self {
        // Replies have no headers: speed and size of the state matter, the ratio does not.
        let mut compress = Compress::new(Compression::fast(), true);
        compress.set_dictionary(DICTIONARY).expect("a fresh zlib stream takes a dictionary");
        Self(compress)
    }

    pub(crate) fn write(&mut self, headers: &[(&str, &str)]) -> Bytes {
        let mut plain = Vec::new();
        let length = |text: &str| u32::try_from(text.len()).expect("headers are short").to_be_bytes();
        plain.extend(u32::try_from(headers.len()).expect("headers are few").to_be_bytes());
        for (name, value) in headers {
            plain.extend(length(name));
            plain.extend(name.as_bytes());
            plain.extend(length(value));
            plain.extend(value.as_bytes());
        }
        let mut out = Vec::with_capacity(plain.len() + 64);
        let mut rest = &plain[..];
        loop {
            let before = self.0.total_in();
            out.reserve(64);
            self.0
                .compress_vec(rest, &mut out, FlushCompress::Sync)
                .expect("compressing into free space cannot fail");
            let taken = usize::try_from(self.0.total_in() - before).expect("at most the input was taken");
            rest = &rest[taken..];
            if rest.is_empty() && out.len() < out.capacity() {
                return Bytes::from(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stream_of_blocks_shares_one_history() {
        let (mut deflater, mut inflater) = (Deflater::new(), Inflater::new());
        for index in 0..40 {
            let port = index.to_string();
            let headers = [("streamtype", "data"), ("port", port.as_str()), ("requestid", "0")];
            let seen = inflater.read(&deflater.write(&headers)).unwrap();
            let seen: Vec<_> = seen.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(seen, headers);
        }
        assert_eq!(inflater.read(&deflater.write(&[])).unwrap(), []);
    }

    #[test]
    fn large_blocks_are_refused() {
        let value = "x".repeat(BLOCK_MAX);
        let block = Deflater::new().write(&[("a", &value)]);
        assert!(matches!(Inflater::new().read(&block), Err(HeaderError::TooLarge)));
    }

    proptest! {
        #[test]
        fn no_block_panics(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..4)) {
            let mut inflater = Inflater::new();
            for block in blocks {
                let _ = inflater.read(&block);
            }
        }
    }
}
