//! Reads the journal of the engine: keeps it in a file, and shows it to people.

mod filter;
mod line;
mod recent;

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use filter::JournalFilter;
pub use line::JournalLine;
use nephele_engine::{Cursor, Engine, Entry, Line};
pub use recent::RecentRecords;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;

/// Records read at a time: 256 pointers, for which the lock is held for some microseconds.
const RECORDS_MAX: usize = 256;
/// A file with more bytes of records than this is replaced by a new one. The previous file is kept: 512 MiB together
/// hold the last million records. Each begins with a state, some 500 bytes for each machine.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The wait before a failed file is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// Reads the journal at its own pace. When it falls behind, it continues with the state of the engine.
pub struct JournalReader {
    driver: Arc<Driver>,
    appended: watch::Receiver<()>,
    over: CancellationToken,
    /// None when the next line is the state.
    cursor: Option<Cursor>,
    batch: Vec<Arc<Entry>>,
}

impl JournalReader {
    pub(crate) fn new(driver: Arc<Driver>, over: CancellationToken) -> Self {
        let appended = driver.appended();
        Self {
            driver,
            appended,
            over,
            cursor: None,
            batch: Vec::with_capacity(RECORDS_MAX),
        }
    }

    /// The next lines: first the state of the cloud, then the records from there on. Waits while there are none.
    /// Returns no lines after the cloud was shut down.
    pub async fn next(&mut self) -> Vec<Line> {
        loop {
            // Before anything is read, so that no notification is missed.
            let over = self.over.is_cancelled();
            self.appended.mark_unchanged();
            let lines = self.read();
            if over || !lines.is_empty() {
                return lines;
            }
            tokio::select! {
                () = self.over.cancelled() => {}
                _ = self.appended.changed() => {}
            }
        }
    }

    fn read(&mut self) -> Vec<Line> {
        let Some(cursor) = &mut self.cursor else {
            let begin = |engine: &Engine| (engine.journal().end(), engine.state());
            let (cursor, state) = self.driver.look(begin);
            self.cursor = Some(cursor);
            return vec![Line::State(state)];
        };
        self.batch.clear();
        let batch = &mut self.batch;
        if self
            .driver
            .look(|engine| engine.journal().read(cursor, batch))
            .is_err()
        {
            self.cursor = None;
            return self.read();
        }
        batch
            .iter()
            .map(|entry| Line::Record(Entry::clone(entry)))
            .collect()
    }

    /// The digest of the cloud, and the state that begins the next file. None until all records are read.
    fn end(&self) -> Option<[Line; 2]> {
        let cursor = self.cursor?;
        self.driver.look(|engine| {
            let is_end = engine.journal().end() == cursor;
            is_end.then(|| [Line::digest(engine), Line::State(engine.state())])
        })
    }

    /// Keeps the journal in a file, one line of JSON per record, until the cloud is shut down. An existing file, or one
    /// that has grown too large, is renamed to end in `.1` and replaces the previous one. A full disk stops nothing
    /// else.
    pub async fn keep(self, path: PathBuf) {
        self.keep_within(path, FILE_BYTES_MAX).await;
    }

    async fn keep_within(mut self, path: PathBuf, bytes_max: u64) {
        let mut first = None;
        while !self.over.is_cancelled() {
            first = match self.fill(&path, first, bytes_max).await {
                Ok(next) => Some(next),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "Failed to keep the journal");
                    let _ = tokio::time::timeout(RETRY, self.over.cancelled()).await;
                    self.cursor = None;
                    None
                }
            };
        }
    }

    /// Fills a new file, and returns the first line of the next one.
    async fn fill(&mut self, path: &Path, first: Option<Line>, bytes_max: u64) -> io::Result<Line> {
        let new = path.to_owned();
        let file = on_disk(move || open(&new)).await?;
        // The state does not count: if it alone were too large, each file would be full before its first record.
        append(&file, first.into_iter().collect()).await?;
        let mut written = 0;
        while written < bytes_max {
            let lines = self.next().await;
            if lines.is_empty() {
                break;
            }
            written += append(&file, lines).await?;
        }
        loop {
            if let Some([digest, next]) = self.end() {
                append(&file, vec![digest]).await?;
                return Ok(next);
            }
            let lines = self.read();
            append(&file, lines).await?;
        }
    }
}

/// Opens a new file that only its owner can read, because it has the names and labels of all resources.
fn open(path: &Path) -> io::Result<Arc<File>> {
    if path.exists() {
        let mut previous = path.as_os_str().to_owned();
        previous.push(".1");
        std::fs::rename(path, previous)?;
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map(Arc::new)
}

/// Appends lines, and returns their number of bytes.
async fn append(file: &Arc<File>, lines: Vec<Line>) -> io::Result<u64> {
    let file = file.clone();
    let write = move || {
        let mut text = Vec::new();
        for line in &lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        (&*file).write_all(&text)?;
        Ok(text.len() as u64)
    };
    on_disk(write).await
}

/// Does what may wait for a disk where nothing else waits for it.
async fn on_disk<T: Send + 'static>(act: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(act).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests;
