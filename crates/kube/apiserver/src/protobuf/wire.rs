//! The protobuf wire format, as far as reading needs it.

use super::ProtobufError;

/// Reads fields off a message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A field's value by its wire type.
pub(super) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes; no field of the table has this type.
    Fixed,
}

impl<'a> Value<'a> {
    pub(super) fn bytes(&self) -> Result<&'a [u8], ProtobufError> {
        if let Self::Bytes(bytes) = self {
            Ok(bytes)
        } else {
            Err(ProtobufError::Damaged)
        }
    }

    pub(super) fn text(&self) -> Result<String, ProtobufError> {
        std::str::from_utf8(self.bytes()?)
            .map(str::to_owned)
            .map_err(|_| ProtobufError::Damaged)
    }

    pub(super) fn varint(&self) -> Result<u64, ProtobufError> {
        if let Self::Varint(value) = self {
            Ok(*value)
        } else {
            Err(ProtobufError::Damaged)
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field's number and value; none at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u64, Value<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Damaged)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(ProtobufError::Damaged),
        };
        Ok(Some((tag >> 3, value)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(ProtobufError::Damaged)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Damaged)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Damaged)?;
        self.rest = rest;
        Ok(head)
    }
}
