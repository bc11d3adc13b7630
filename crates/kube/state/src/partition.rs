//! The records of one owner.

use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;

use crate::{
    error::Unkept,
    pending::Header,
    state::{Handle, Progress},
};

/// A partition and its records.
#[derive(Debug)]
pub struct Opened {
    pub partition: Partition,
    pub records: Vec<(Vec<u8>, Bytes)>,
    /// The greatest mark that was written; 0 for a new partition.
    pub mark: u64,
}

/// Records that are written together and removed together.
pub struct Partition {
    pub(crate) handle: Arc<Handle>,
    pub(crate) header: Arc<Header>,
}

impl Partition {
    /// Writes records, and removes those without a value. The file has all records of one call or none. `mark` is a
    /// number of the caller that is returned with the records when the partition is opened; it must never decrease.
    /// Never waits.
    pub fn write(&self, mark: u64, records: Vec<(Vec<u8>, Option<Bytes>)>) {
        let shared = &self.handle.shared;
        let mut pending = shared.pending.lock();
        if !self.header.removed.load(Ordering::Relaxed) {
            pending.batch.write(&self.header, mark, records);
            drop(pending);
            shared.commit();
        }
    }

    /// Ready when all writes before this call are in the file, or could not be written to the file. In the second case
    /// they stay pending and are written later if the process continues.
    ///
    /// # Errors
    /// When the writes are not in the file.
    pub fn kept(&self) -> impl Future<Output = Result<(), Unkept>> + Send + 'static {
        let shared = Arc::clone(&self.handle.shared);
        let sequence = shared.pending.lock().batch.sequence;
        async move {
            let failed = |progress: &Progress| {
                let failed = progress
                    .failed
                    .as_ref()
                    .filter(|failure| failure.until >= sequence);
                failed.map(|failure| Unkept::Failing(Arc::clone(&failure.message)))
            };
            let settled = |progress: &Progress| {
                progress.committed >= sequence || progress.closed || failed(progress).is_some()
            };
            let mut progress = shared.progress.subscribe();
            let Ok(progress) = progress.wait_for(settled).await else {
                return Err(Unkept::Closed);
            };
            if progress.committed >= sequence {
                return Ok(());
            }
            Err(failed(&progress).unwrap_or(Unkept::Closed))
        }
    }

    /// Whether a write that is made now will probably be kept.
    ///
    /// # Errors
    /// When the latest attempt to write the file failed, or the file is closed.
    pub fn admits(&self) -> Result<(), Unkept> {
        self.handle.shared.try_again();
        let progress = self.handle.shared.progress.borrow();
        match &progress.failed {
            Some(failure) => Err(Unkept::Failing(Arc::clone(&failure.message))),
            None if progress.closed => Err(Unkept::Closed),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Partition").field(&self.header.name).finish()
    }
}
