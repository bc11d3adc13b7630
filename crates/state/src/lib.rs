//! Records that outlive the process: in partitions, in one file, by one writer.
//!
//! ```text
//!  Partition::write ─▶ pending: newest of each key ─▶ writer thread: one transaction ─▶ file (redb)
//!        │                                                   │
//!        └─ kept().await ◀───────────── progress ◀───────────┘
//! ```
//!
//! Whoever writes is never held up: changes wait in memory, the newest of each key, until the writer thread takes all
//! of them and commits them as one transaction. What comes meanwhile is the next one. So what the file has is the state
//! after some number of the calls of [`Partition::write`], each of them whole, of all partitions at one moment; and
//! after [`Partition::kept`] it has every call before that. A commit is synchronised to the disk: it outlives the
//! machine's loss of power, not the process's death alone. There is no timer: who writes alone waits for one commit,
//! and who writes with a hundred others for at most two, which they share.
//!
//! **One file** rather than one for each partition: a thousand partitions that write at once cost one synchronisation
//! instead of a thousand, one file handle, and one thread. A partition that is removed leaves its pages to the others,
//! and the file gives up free pages at its end as it is written.
//!
//! **What waits is bounded** by what its owners have in memory anyway: one entry for each key, which shares the bytes of
//! the record with its owner. When the file takes no more, a full disk for instance, nothing is lost or forgotten: the
//! writer tries again every second, and [`Partition::admits`] says why not to add to it.
//!
//! The crate knows bytes, and neither Kubernetes nor what partitions stand for.

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
