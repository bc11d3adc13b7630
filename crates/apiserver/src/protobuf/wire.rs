//! The protobuf wire format, as far as reading needs it.

/// Reads fields off a message.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// A field's value by its wire type.
pub(crate) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Value<'a> {
    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    pub(crate) fn varint(&self) -> Option<u64> {
        if let Self::Varint(value) = self { Some(*value) } else { None }
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field; `Some(None)` at the end, `None` when the bytes are damaged.
    #[expect(clippy::option_option, reason = "the end and damage are both expected")]
    pub(crate) fn field(&mut self) -> Option<Option<(u64, Value<'a>)>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        Some(Some((tag >> 3, value)))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}
