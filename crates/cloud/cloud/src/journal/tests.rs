mod namespaces;

use std::time::Duration;

use jiff::Timestamp;
use nephele_engine::{Config, Journal, Operation, Record, Replay, Request, ResourceSpec};
use nephele_model::{ResourceId, ResourceKind, SimTime};
use prometheus::{Histogram, HistogramOpts};

use super::*;
use crate::clock::CloudClock;

/// A path of its own for a journal file and the previous file; both are removed at the end.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("nephele-cloud-journal-{}-{name}", std::process::id())))
    }

    fn previous(&self) -> PathBuf {
        self.0.with_extension("1")
    }

    fn bytes(&self) -> u64 {
        let bytes = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
        bytes(&self.0) + bytes(&self.previous())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = (
            std::fs::remove_file(&self.0),
            std::fs::remove_file(self.previous()),
        );
    }
}

fn driver() -> Arc<Driver> {
    let seconds = Histogram::with_opts(HistogramOpts::new("held", "how long")).expect("it is valid");
    Arc::new(Driver::new(Config::default(), "seed", seconds))
}

/// Creates a load balancer in the cloud.
fn create(driver: &Driver, number: u64) {
    let id = ResourceId {
        namespace: "default".into(),
        cluster: "demo".into(),
        kind: ResourceKind::LoadBalancer,
        name: number.to_string(),
    };
    let request = Request::Create(ResourceSpec::new(id));
    let at = SimTime::from_millis(number);
    driver.apply(Operation {
        caller: "test".into(),
        request,
        at,
    });
}

fn lines(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).expect("it was written");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line"))
        .collect()
}

/// Replays the lines. Returns the number of records, and the number of resources at the end.
fn played(lines: &[Line]) -> (u64, usize) {
    let mut replay = Replay::default();
    lines
        .iter()
        .for_each(|line| replay.play(line).expect("no difference"));
    (
        replay.records(),
        replay.engine().map_or(0, |engine| engine.resources().count()),
    )
}

#[tokio::test]
async fn a_file_that_is_full_makes_room_for_the_next_which_begins_with_the_state() {
    let driver = driver();
    let over = CancellationToken::new();
    let files = Files::new("full");
    let reader = JournalReader::new(driver.clone(), over.clone());
    let keeping = tokio::spawn(reader.keep_within(files.0.clone(), 100 * 1024));
    let mut made = 0;
    let filled = async {
        while !files.previous().exists() {
            // In step with the writer, which would fall behind otherwise.
            let before = files.bytes();
            if before > 0 {
                create(&driver, made);
                made += 1;
            }
            while files.bytes() == before {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), filled)
        .await
        .expect("the file fills up");
    over.cancel();
    keeping.await.expect("it ends");

    let previous = lines(&files.previous());
    let now = lines(&files.0);
    assert!(
        matches!(now[..], [Line::State(_), .., Line::Digest { .. }]),
        "{now:?}"
    );
    let there = usize::try_from(made).expect("it is a small number");
    assert_eq!(played(&now).1, there);
    assert_eq!(
        played(&[previous, now].concat()),
        (made, there),
        "nothing is missing in between"
    );
}

#[tokio::test]
async fn a_reader_that_falls_behind_continues_with_the_state() {
    let driver = driver();
    let over = CancellationToken::new();
    let mut reader = JournalReader::new(driver.clone(), over.clone());
    let mut seen = reader.next().await;
    create(&driver, 0);
    seen.extend(reader.next().await);
    let many = 1 + nephele_engine::Journal::CAPACITY as u64;
    (1..=many).for_each(|number| create(&driver, number));
    seen.extend(reader.next().await);
    create(&driver, many + 1);
    seen.extend(reader.next().await);
    over.cancel();
    assert_eq!(reader.next().await, []);
    assert_eq!(
        played(&seen),
        (2, usize::try_from(many).expect("it is a small number") + 2)
    );
}

#[tokio::test]
async fn a_file_of_an_earlier_process_is_kept_once() {
    let driver = driver();
    let files = Files::new("earlier");
    for run in 0..3 {
        create(&driver, run);
        let over = CancellationToken::new();
        let keeping = tokio::spawn(JournalReader::new(driver.clone(), over.clone()).keep(files.0.clone()));
        let there = format!("\"name\":\"{run}\"");
        let written = async {
            while !std::fs::read_to_string(&files.0).is_ok_and(|text| text.contains(&there)) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), written)
            .await
            .expect("it is written");
        over.cancel();
        keeping.await.expect("it ends");
    }
    let resources = |path: &Path| played(&lines(path)).1;
    assert_eq!((resources(&files.previous()), resources(&files.0)), (2, 3));
}

#[test]
fn recent_records_are_read_to_the_end_and_a_line_counts_those_that_are_missing() {
    let driver = driver();
    (1..=300).for_each(|number| create(&driver, number));
    let clock = CloudClock::new(Arc::new(|| Timestamp::UNIX_EPOCH));
    let read = |filter: JournalFilter, after| {
        let over = CancellationToken::new();
        let mut reader = RecentRecords::new(driver.clone(), clock.clone(), over, filter, after);
        let mut sequences = Vec::new();
        loop {
            let lines = reader.read();
            if lines.is_empty() {
                return sequences;
            }
            sequences.extend(lines.iter().map(|line| (line.sequence, line.event.clone())));
        }
    };
    let all = read(JournalFilter::default(), None);
    assert_eq!(
        (all.first().map(|line| line.0), all.last().map(|line| line.0)),
        (Some(1), Some(300))
    );
    assert_eq!(
        read(JournalFilter::default(), Some(298)),
        [(299, String::new()), (300, String::new())]
    );
    let elsewhere = JournalFilter {
        cluster: Some("other".into()),
        ..JournalFilter::default()
    };
    assert_eq!(read(elsewhere.clone(), None), []);

    let capacity = Journal::CAPACITY as u64;
    (301..=capacity + 10).for_each(|number| create(&driver, number));
    assert_eq!(
        read(JournalFilter::default(), None)[0],
        (11, String::new()),
        "the first ten were not asked for"
    );
    let missed = read(JournalFilter::default(), Some(3));
    assert_eq!(
        missed[..2],
        [(10, "RecordsMissed".to_owned()), (11, String::new())]
    );
    assert_eq!(read(elsewhere, Some(3)), [(10, "RecordsMissed".to_owned())]);
}

/// The next lines, or none after the cloud was shut down.
async fn next(reader: &mut RecentRecords) -> Vec<JournalLine> {
    loop {
        let is_over = reader.is_over();
        let lines = reader.read();
        if is_over || !lines.is_empty() {
            return lines;
        }
        reader.appended().await;
    }
}

#[tokio::test]
async fn reader_of_recent_records_waits_for_the_next_one_until_the_cloud_is_over() {
    let driver = driver();
    let over = CancellationToken::new();
    create(&driver, 1);
    let clock = CloudClock::new(Arc::new(|| Timestamp::UNIX_EPOCH));
    let filter = JournalFilter {
        operation: Some("CreateLoadBalancer".into()),
        ..JournalFilter::default()
    };
    let mut reader = RecentRecords::new(driver.clone(), clock, over.clone(), filter, None);
    let expected = |sequence: u64| JournalLine {
        sequence,
        time: Timestamp::from_millisecond(sequence.cast_signed()).expect("in range"),
        namespace: "default".into(),
        cluster: "demo".into(),
        kind: "LoadBalancer".into(),
        operation: "CreateLoadBalancer".into(),
        caller: "test".into(),
        outcome: "Accepted".into(),
        ..JournalLine::default()
    };
    assert_eq!(next(&mut reader).await, [expected(1)]);
    let (lines, ()) = tokio::join!(next(&mut reader), async { create(&driver, 2) });
    assert_eq!(lines, [expected(2)]);
    let (lines, ()) = tokio::join!(next(&mut reader), async { over.cancel() });
    assert_eq!(lines, []);
}
