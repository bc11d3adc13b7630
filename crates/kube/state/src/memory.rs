//! A disk in memory, for simulations.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use redb::{Database, DatabaseError, StorageBackend};

use crate::file::{Opener, builder};

/// A disk with one file, which stays when the [`State`](crate::State) that opened it is dropped, as a disk outlives
/// processes. The disk can be set to be full. Cheap to clone; all clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Content>);

#[derive(Debug, Default)]
struct Content {
    bytes: Mutex<Vec<u8>>,
    full: AtomicBool,
    /// Whether the file is open, so that it cannot be opened a second time.
    open: AtomicBool,
}

impl MemoryDisk {
    /// Sets whether the disk is full, so that writes fail.
    pub fn set_full(&self, full: bool) {
        self.0.full.store(full, Ordering::Relaxed);
    }

    pub(crate) fn opener(&self) -> Opener {
        let content = Arc::clone(&self.0);
        Box::new(move || open(&content))
    }
}

fn open(content: &Arc<Content>) -> Result<Database, DatabaseError> {
    if content.open.swap(true, Ordering::Relaxed) {
        return Err(DatabaseError::DatabaseAlreadyOpen);
    }
    builder().create_with_backend(OpenDisk(Arc::clone(content)))
}

/// The disk while its file is open.
#[derive(Debug)]
struct OpenDisk(Arc<Content>);

impl Drop for OpenDisk {
    fn drop(&mut self) {
        self.0.open.store(false, Ordering::Relaxed);
    }
}

impl OpenDisk {
    fn has_room(&self) -> io::Result<()> {
        if self.0.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(io::Error::other)
}

impl StorageBackend for OpenDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.bytes.lock();
        let start = index(offset)?;
        let found = bytes.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut bytes = self.0.bytes.lock();
        let len = index(len)?;
        if len > bytes.len() {
            self.has_room()?;
        }
        bytes.resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.has_room()?;
        let mut bytes = self.0.bytes.lock();
        let start = index(offset)?;
        let place = bytes.get_mut(start..start + data.len());
        place.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::{Observer, OpenError, State, Unkept};

    struct Unobserved;

    impl Observer for Unobserved {
        fn committed(&self, _took: Duration, _file_bytes: u64) {}
        fn failed(&self) {}
    }

    fn open(disk: &MemoryDisk) -> Result<State, OpenError> {
        State::open_in_memory(disk, Arc::new(Unobserved))
    }

    #[tokio::test]
    async fn what_a_disk_took_outlives_its_process_and_what_it_refused_is_tried_again() {
        let disk = MemoryDisk::default();
        let state = open(&disk).expect("a new disk");
        assert!(matches!(open(&disk), Err(OpenError::InUse { .. })));
        let partition = state.partition("one", "x").expect("new").partition;
        partition.write(1, vec![(b"a".to_vec(), Some(Bytes::from_static(b"1")))]);
        assert_eq!(partition.kept().await, Ok(()));
        disk.set_full(true);
        partition.write(2, vec![(b"b".to_vec(), Some(Bytes::from(vec![7; 10_000_000])))]);
        assert!(matches!(partition.kept().await, Err(Unkept::Failing(_))));
        assert!(matches!(partition.admits(), Err(Unkept::Failing(_))));
        disk.set_full(false);
        assert_eq!(partition.admits(), Ok(()));
        state.close().await;
        let state = open(&disk).expect("it was closed");
        let opened = state.partition("one", "x").expect("kept");
        let keys: Vec<_> = opened.records.iter().map(|(key, _)| key.as_slice()).collect();
        assert_eq!((keys, opened.mark), (vec![&b"a"[..], b"b"], 2));
    }
}
