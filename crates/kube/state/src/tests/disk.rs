//! A disk that loses power and fills up.

use std::{collections::BTreeMap, io, sync::Arc};

use parking_lot::Mutex;
use redb::StorageBackend;

/// A disk. Clones share it, like processes that open the file one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    /// The bytes after a loss of power.
    synced: Vec<u8>,
    /// The bytes that the process sees.
    seen: Vec<u8>,
    /// Writes since the last synchronisation.
    unsynced: Vec<(usize, Vec<u8>)>,
    full: bool,
    /// If set, images are taken before and after each synchronisation.
    watch: Option<Watch>,
}

struct Watch {
    number: Box<dyn Fn() -> u64 + Send>,
    random: u64,
    images: Vec<(u64, Disk)>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Disk {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Content {
            synced: bytes.clone(),
            seen: bytes,
            ..Content::default()
        })))
    }

    pub(super) fn set_full(&self, full: bool) {
        self.0.lock().full = full;
    }

    /// From now on takes an image before and after each synchronisation, with the result of `number` just before it.
    pub(super) fn watch(&self, seed: u64, number: impl Fn() -> u64 + Send + 'static) {
        self.0.lock().watch = Some(Watch {
            number: Box::new(number),
            random: seed | 1,
            images: Vec::new(),
        });
    }

    /// The images: the disk after a loss of power at each of these moments.
    pub(super) fn images(&self) -> Vec<(u64, Disk)> {
        self.0
            .lock()
            .watch
            .take()
            .map(|watch| watch.images)
            .unwrap_or_default()
    }
}

impl Content {
    /// The synchronised bytes with some of the pages written since, because a disk writes pages in any order.
    fn take_image(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let number = (watch.number)();
        let mut bytes = self.synced.clone();
        bytes.resize(self.seen.len().max(bytes.len()), 0);
        let mut pages: BTreeMap<usize, &[u8]> = BTreeMap::new();
        for (offset, data) in &self.unsynced {
            for (index, page) in data.chunks(512).enumerate() {
                pages.insert(offset + index * 512, page);
            }
        }
        for (offset, page) in pages {
            // xorshift: the result follows from the seed.
            watch.random ^= watch.random << 13;
            watch.random ^= watch.random >> 7;
            watch.random ^= watch.random << 17;
            if watch.random & 4 != 0 && offset + page.len() <= bytes.len() {
                bytes[offset..offset + page.len()].copy_from_slice(page);
            }
        }
        watch.images.push((number, Disk::of(bytes)));
    }
}

fn full() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.0.lock();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let found = content.seen.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut content = self.0.lock();
        if content.full && len > content.seen.len() as u64 {
            return Err(full());
        }
        content
            .seen
            .resize(usize::try_from(len).map_err(io::Error::other)?, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.0.lock();
        content.take_image();
        content.synced = content.seen.clone();
        content.unsynced.clear();
        content.take_image();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.0.lock();
        if content.full {
            return Err(full());
        }
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        content.seen[start..start + data.len()].copy_from_slice(data);
        content.unsynced.push((start, data.to_owned()));
        Ok(())
    }
}
