//! Persistent records: in partitions, in one file, with one writer.
//!
//! ```text
//!  Partition::write ─▶ pending: newest of each key ─▶ writer thread: one transaction ─▶ file (redb)
//!        │                                                   │
//!        └─ kept().await ◀───────────── progress ◀───────────┘
//! ```
//!
//! Writes never wait: the newest change of each key stays in memory until the writer thread takes all changes and
//! commits them as one transaction. Changes that arrive meanwhile go into the next transaction. So the file has the
//! state of all partitions after some number of calls of [`Partition::write`], and each call completely or not at all.
//! After [`Partition::kept`] it has every earlier call. A commit is synchronised to the disk, so it survives a loss of
//! power and not just the end of the process. There is no timer: a single writer waits for one commit, and each of a
//! hundred writers for at most two commits, which they share.
//!
//! **One file** rather than one for each partition: a thousand partitions that write at once need one
//! synchronisation instead of a thousand, one file handle, and one thread. Other partitions reuse the pages of a
//! removed partition, and the file releases free pages at its end.
//!
//! **The pending changes are bounded** by the records that their owners have in memory anyway: there is one entry for
//! each key, which shares the bytes of the record with its owner. If the file cannot be written, for example on a full
//! disk, no change is lost: the writer tries again every second, and [`Partition::admits`] returns the error, so that
//! callers stop writing.
//!
//! The crate handles bytes. It depends neither on Kubernetes nor on the meaning of a partition.

mod error;
mod file;
mod memory;
mod partition;
mod pending;
mod state;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{OpenError, ReadError, Unkept};
pub use memory::MemoryDisk;
pub use partition::{Opened, Partition};
pub use state::{FILE_NAME, Observer, State};
