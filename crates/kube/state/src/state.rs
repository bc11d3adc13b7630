//! The handle of an open state file.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use crate::{
    error::{OpenError, ReadError},
    file::{Entry, File, Opener, opener},
    memory::MemoryDisk,
    partition::{Opened, Partition},
    pending::{Batch, Header},
    writer,
};

/// The file within a state directory.
pub const FILE_NAME: &str = "nephele.redb";

/// Receives the results of commits, for metrics.
pub trait Observer: Send + Sync {
    /// A transaction was committed. The file has `file_bytes` bytes after it.
    fn committed(&self, took: Duration, file_bytes: u64);
    /// A transaction could not be committed, and will be tried again.
    fn failed(&self);
}

/// An open state file. Cheap to clone; closed by [`State::close`] or with the last clone and partition.
#[derive(Clone)]
pub struct State {
    handle: Arc<Handle>,
}

/// Ends the writer thread when the last [`State`] and the last partition are dropped.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    index: Mutex<Index>,
}

/// Partitions by name, and the next id. An id is not reused while the file has records of it.
struct Index {
    partitions: BTreeMap<String, IndexEntry>,
    next: u64,
}

#[derive(Clone)]
struct IndexEntry {
    header: Arc<Header>,
    mark: u64,
}

/// State that the writer thread and the callers share.
pub(crate) struct Shared {
    pub(crate) file: File,
    pub(crate) pending: Mutex<Pending>,
    pub(crate) wake: Condvar,
    /// Whether there is no writer thread: each call commits its own changes.
    commits_at_once: bool,
    pub(crate) progress: watch::Sender<Progress>,
    pub(crate) observer: Arc<dyn Observer>,
}

#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) batch: Batch,
    pub(crate) closing: bool,
}

/// The writer's progress.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// All calls up to this number are in the file.
    pub(crate) committed: u64,
    /// The latest commit, if it failed.
    pub(crate) failed: Option<Failure>,
    pub(crate) closed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// The number of the newest call in the failed commit.
    pub(crate) until: u64,
    pub(crate) message: Arc<str>,
}

impl State {
    /// Opens the file in `directory`, and creates the file and the directory if they are missing. Reads the whole file
    /// once, to check it.
    ///
    /// # Errors
    /// When the file cannot be used; the error tells what to do.
    pub fn open(directory: &Path, observer: Arc<dyn Observer>) -> Result<Self, OpenError> {
        std::fs::create_dir_all(directory).map_err(|source| OpenError::Directory {
            path: directory.to_owned(),
            source,
        })?;
        let path = directory.join(FILE_NAME);
        Self::open_by(&path, opener(&path), observer)
    }

    /// Opens the file on a disk in memory, without a writer thread: each call commits its changes before it returns.
    /// For simulations, in which time does not pass while another thread works.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn open_in_memory(disk: &MemoryDisk, observer: Arc<dyn Observer>) -> Result<Self, OpenError> {
        Self::ready(Path::new(FILE_NAME), disk.opener(), observer, true)
    }

    pub(crate) fn open_by(
        path: &Path,
        opener: Opener,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, OpenError> {
        let state = Self::ready(path, opener, observer, false)?;
        let writing = Arc::clone(&state.handle.shared);
        std::thread::Builder::new()
            .name("state-writer".to_owned())
            .spawn(move || writer::run(&writing))
            .map_err(OpenError::Thread)?;
        Ok(state)
    }

    /// Opens the file without starting the writer thread.
    fn ready(
        path: &Path,
        opener: Opener,
        observer: Arc<dyn Observer>,
        commits_at_once: bool,
    ) -> Result<Self, OpenError> {
        let (file, entries) = File::open(path.to_owned(), opener)?;
        let next = entries.iter().map(|entry| entry.id + 1).max().unwrap_or(0);
        let partitions = entries.into_iter().map(
            |Entry {
                 id,
                 name,
                 identity,
                 mark,
             }| {
                let header = Header {
                    id,
                    name: name.clone(),
                    identity,
                    removed: AtomicBool::new(false),
                };
                (
                    name,
                    IndexEntry {
                        header: Arc::new(header),
                        mark,
                    },
                )
            },
        );
        let index = Index {
            partitions: partitions.collect(),
            next,
        };
        let shared = Arc::new(Shared {
            file,
            pending: Mutex::default(),
            wake: Condvar::new(),
            commits_at_once,
            progress: watch::Sender::new(Progress::default()),
            observer,
        });
        Ok(Self {
            handle: Arc::new(Handle {
                shared,
                index: Mutex::new(index),
            }),
        })
    }

    /// The names of all partitions, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.handle.index.lock().partitions.keys().cloned().collect()
    }

    /// The partition of that name, with its records; a new partition if there is none. A partition with another
    /// identity is removed first, because it belonged to another object of the same name. Open a partition only once
    /// per [`State`], or again after it was removed: pending changes are not read.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn partition(&self, name: &str, identity: &str) -> Result<Opened, ReadError> {
        let (entry, is_new) = {
            let mut index = self.handle.index.lock();
            let known = index.partitions.get(name).cloned();
            if let Some(entry) = known.as_ref().filter(|entry| entry.header.identity == identity) {
                (entry.clone(), false)
            } else {
                if let Some(entry) = known {
                    self.handle.shared.remove(&entry.header);
                }
                let id = index.next;
                let removed = AtomicBool::new(false);
                index.next += 1;
                let header = Header {
                    id,
                    name: name.to_owned(),
                    identity: identity.to_owned(),
                    removed,
                };
                let entry = IndexEntry {
                    header: Arc::new(header),
                    mark: 0,
                };
                index.partitions.insert(name.to_owned(), entry.clone());
                (entry, true)
            }
        };
        let records = if is_new {
            Ok(Vec::new())
        } else {
            self.handle.shared.file.read(entry.header.id)
        };
        let records = records.map_err(|source| ReadError {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        let partition = Partition {
            handle: Arc::clone(&self.handle),
            header: entry.header,
        };
        Ok(Opened {
            partition,
            records,
            mark: entry.mark,
        })
    }

    /// Removes a partition, if there is one. Later writes to it are dropped.
    pub fn remove(&self, name: &str) {
        let mut index = self.handle.index.lock();
        if let Some(entry) = index.partitions.remove(name) {
            self.handle.shared.remove(&entry.header);
        }
    }

    /// Commits the pending changes and closes the file. When this returns, another process may open it.
    pub async fn close(&self) {
        self.handle.shared.close();
        let mut progress = self.handle.shared.progress.subscribe();
        // An error would mean that the sender is dropped, but `self` has the sender.
        let _ = progress.wait_for(|progress| progress.closed).await;
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("path", &self.handle.shared.file.path())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn remove(&self, header: &Header) {
        let mut pending = self.pending.lock();
        header.removed.store(true, Ordering::Relaxed);
        pending.batch.remove(header.id);
        drop(pending);
        self.commit();
    }

    fn close(&self) {
        let closing = std::mem::replace(&mut self.pending.lock().closing, true);
        if !closing || !self.commits_at_once {
            self.commit();
        }
    }

    /// Retries a failed commit if there is no writer thread, which would retry it.
    pub(crate) fn try_again(&self) {
        if self.commits_at_once && self.progress.borrow().failed.is_some() {
            writer::run_once(self);
        }
    }

    /// Commits the pending changes, or wakes the writer thread, which commits them.
    pub(crate) fn commit(&self) {
        if self.commits_at_once {
            writer::run_once(self);
        } else {
            self.wake.notify_one();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}
