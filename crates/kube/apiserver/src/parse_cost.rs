//! What the parse of bodies and stored objects costs: time, and memory that it allocates meanwhile.

use nephele_budget::{Parse, parsed_size};

/// The bytes from which a request is large: those of its body and of the objects that it has to read. Less takes a few
/// milliseconds at most.
pub(crate) const LARGE_BYTES: usize = 64 * 1024;

/// The most bytes that the parse of a body, or of a stored object, may allocate. A body of the largest size has ten times
/// its size; bodies with more are made for it.
pub(crate) const PARSED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Whether the parse of a stored object of these bytes would take too much.
pub(crate) fn is_too_dense(bytes: &[u8]) -> bool {
    bytes.len() > LARGE_BYTES && parsed_size(bytes, Parse::Values) > PARSED_BYTES_MAX
}

/// Whether the parse of all these stored objects together would take too much.
pub(crate) fn are_too_dense<'a>(objects: impl Iterator<Item = &'a [u8]>) -> bool {
    let sizes = objects.map(|bytes| parsed_size(bytes, Parse::Values));
    sizes.fold(0_usize, usize::saturating_add) > PARSED_BYTES_MAX
}
