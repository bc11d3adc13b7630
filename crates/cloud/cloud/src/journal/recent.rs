//! Reads the records that the journal has, and those to come.

use std::sync::Arc;

use nephele_engine::Entry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{filter::JournalFilter, line::JournalLine};
use crate::{clock::CloudClock, driver::Driver};

/// Records read at a time: 256 pointers, for which the lock is held for some microseconds.
const RECORDS_MAX: usize = 256;

/// Reads the records that the journal has now, up to 4,096, and then those to come. A reader holds no record that it has
/// returned, and slows nothing down: when it falls behind, the next line says how many records it missed.
pub struct RecentRecords {
    driver: Arc<Driver>,
    clock: CloudClock,
    appended: watch::Receiver<()>,
    over: CancellationToken,
    filter: JournalFilter,
    /// The number of the last record that was read.
    last: u64,
    /// Whether a gap after `last` means that records were missed. At first it means that they were not asked for.
    reports_gaps: bool,
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
                return Vec::new();
            };
            let missed = oldest.saturating_sub(self.last.saturating_add(1));
            let gap = (missed > 0 && self.reports_gaps)
                .then(|| JournalLine::missed(missed, oldest - 1, CloudClock::published(self.clock.now())));
            (self.last, self.reports_gaps) = (newest, true);
            let lines = gap
                .into_iter()
                .chain(batch.iter().map(|entry| JournalLine::of(entry)));
            let wanted: Vec<_> = lines.filter(|line| self.filter.wants(line)).collect();
            if !wanted.is_empty() {
                return wanted;
            }
        }
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
