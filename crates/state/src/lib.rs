//! Records that outlive the process: in partitions, in one file, with one writer.
//!
//! ```text
//!  Partition::write ─▶ pending: newest of each key ─▶ writer thread: one transaction ─▶ file (redb)
//!        │                                                   │
//!        └─ kept().await ◀───────────── progress ◀───────────┘
//! ```
//!
//! Writes never wait: changes are kept in memory, the newest of each key, until the writer thread takes them all
//! and commits them as one transaction. Changes that arrive meanwhile go into the next one. So the file holds the
//! state after some number of calls of [`Partition::write`], each of them whole, and of all partitions at one
//! moment; after [`Partition::kept`] it has every call before that. A commit is synchronised to the disk, so it
//! survives a loss of power and not just the end of the process. There is no timer: a lone writer waits for one
//! commit, and one of a hundred for at most two, which they share.
//!
//! **One file** rather than one for each partition: a thousand partitions that write at once need one
//! synchronisation instead of a thousand, one file handle, and one thread. A removed partition leaves its pages to
//! the others, and the file releases free pages at its end.
//!
//! **The pending changes are bounded** by what their owners have in memory anyway: one entry for each key, which
//! shares the bytes of the record with its owner. When the file cannot be written, as on a full disk, nothing is
//! lost: the writer tries again every second, and [`Partition::admits`] tells why to add no more.
//!
//! The crate handles bytes. It knows neither Kubernetes nor the meaning of a partition.

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
