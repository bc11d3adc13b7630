//! Reads the records that the journal has, and those to come.

use std::sync::Arc;

use nephele_engine::Entry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{filter::JournalFilter, line::JournalLine};
use crate::{clock::CloudClock, driver::Driver};

/// Records read at a time: 256 pointers, for which the lock is held for some microseconds.
const RECORDS_MAX: usize = 256;
/// The bytes of lines after which no further one is read. A line has some 30 KiB at most, so all have at most 96 KiB.
const BYTES_MAX: usize = 64 * 1024;

/// Reads the records that the journal has now, up to 4,096, and then those to come. A reader holds no record that it has
/// returned, and slows nothing down: when it falls behind, the next line says how many records it missed.
pub struct RecentRecords {
    driver: Arc<Driver>,
    clock: CloudClock,
    appended: watch::Receiver<()>,
    over: CancellationToken,
    filter: JournalFilter,
    /// The number of the last record that was read.
    pub(super) last: u64,
    /// Whether a gap after `last` means that records were missed. At first it means that they were not asked for.
    reports_gaps: bool,
    /// Whether the last look saw the newest record.
    is_current: bool,
}

impl RecentRecords {
    /// Reads the records after number `after`; None for all that the journal has.
    pub(crate) fn new(
        driver: Arc<Driver>,
        clock: CloudClock,
        over: CancellationToken,
        filter: JournalFilter,
        after: Option<u64>,
    ) -> Self {
        let appended = driver.appended();
        let last = after.unwrap_or_default();
        let reports_gaps = after.is_some();
        Self {
            driver,
            clock,
            appended,
            over,
            filter,
            last,
            reports_gaps,
            is_current: false,
        }
    }

    /// The lines of the next records that pass the filter. Empty when all records that the journal has were read. It may look
    /// at all of them, so whoever serves others reads on a thread of its own.
    pub fn read(&mut self) -> Vec<JournalLine> {
        // Before anything is read, so that no notification is missed.
        self.appended.mark_unchanged();
        loop {
            let (oldest, batch) = self.driver.look(|engine| {
                let journal = engine.journal();
                let from = self.last.saturating_add(1);
                let batch: Vec<Arc<Entry>> = journal.since(from).take(RECORDS_MAX).cloned().collect();
                (journal.oldest(), batch)
            });
            let Some(newest) = batch.last().map(|entry| entry.sequence) else {
                self.is_current = true;
                return Vec::new();
            };
            let missed = oldest.saturating_sub(self.last.saturating_add(1));
            let gap = (missed > 0 && self.reports_gaps)
                .then(|| JournalLine::missed(missed, oldest - 1, CloudClock::published(self.clock.now())));
            self.reports_gaps = true;
            let wanted = self.wanted(gap, &batch);
            self.is_current = batch.len() < RECORDS_MAX && self.last == newest;
            if !wanted.is_empty() {
                return wanted;
            }
        }
    }

    /// The lines of these records that pass the filter, until they are many bytes.
    pub(super) fn wanted(&mut self, gap: Option<JournalLine>, batch: &[Arc<Entry>]) -> Vec<JournalLine> {
        let mut lines: Vec<_> = gap.into_iter().collect();
        let mut bytes = 0;
        for entry in batch {
            self.last = entry.sequence;
            if !self.filter.may_want(entry.record.resource()) {
                continue;
            }
            let line = JournalLine::of(entry);
            if self.filter.wants(&line) {
                bytes += line.bytes();
                lines.push(line);
            }
            if bytes >= BYTES_MAX {
                break;
            }
        }
        lines
    }

    /// The last line for a reader who may not read on.
    #[must_use]
    pub fn access_ended(&self) -> JournalLine {
        JournalLine::access_ended(self.last, CloudClock::published(self.clock.now()))
    }

    /// Whether the last look saw the newest record of then, so that the next look finds little.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.is_current
    }

    /// Whether the cloud was shut down: what is read from now on is all there will be.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits until there may be more than was read, or the cloud is shut down.
    pub async fn appended(&mut self) {
        tokio::select! {
            () = self.over.cancelled() => {}
            _ = self.appended.changed() => {}
        }
    }
}
