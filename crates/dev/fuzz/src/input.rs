//! Inputs as the numbers and texts that a target needs.

/// The number in front of the data, below `count`, and the rest.
pub(crate) fn choice(data: &[u8], count: usize) -> Option<(usize, &[u8])> {
    let (first, rest) = data.split_first()?;
    Some((usize::from(*first) % count, rest))
}

/// The parts of the data before and after the first zero byte, which no text contains.
pub(crate) fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}
