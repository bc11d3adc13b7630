mod crash;
mod disk;
mod files;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use disk::Disk;

use crate::{Observer, Opened, State, file::builder};

/// Counts commits and failures.
#[derive(Default)]
struct Counts {
    committed: AtomicU64,
    failed: AtomicU64,
}

impl Observer for Counts {
    fn committed(&self, _took: Duration, _file_bytes: u64) {
        self.committed.fetch_add(1, Ordering::SeqCst);
    }

    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::SeqCst);
    }
}

fn open(disk: &Disk) -> State {
    open_counted(disk, Arc::default())
}

fn open_counted(disk: &Disk, counts: Arc<Counts>) -> State {
    let disk = disk.clone();
    let opener = Box::new(move || builder().create_with_backend(disk.clone()));
    State::open_by(Path::new("test.redb"), opener, counts).expect("a sound file")
}

type Records = BTreeMap<String, String>;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_owned()).expect("text")
}

fn records(opened: &Opened) -> Records {
    opened
        .records
        .iter()
        .map(|(key, value)| (text(key), text(value)))
        .collect()
}

fn record(key: &str, value: Option<&str>) -> (Vec<u8>, Option<Bytes>) {
    (
        key.into(),
        value.map(|value| Bytes::copy_from_slice(value.as_bytes())),
    )
}

fn of<const N: usize>(records: [(&str, &str); N]) -> Records {
    records
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[tokio::test]
async fn what_was_written_is_there_when_the_file_is_opened_again() {
    let disk = Disk::default();
    let state = open(&disk);
    let one = state.partition("one", "x").expect("new").partition;
    let two = state.partition("two", "x").expect("new").partition;
    one.write(5, vec![record("a", Some("1")), record("b", Some("1"))]);
    two.write(1, vec![record("a", Some("2"))]);
    one.write(7, vec![record("b", None), record("c", Some("3"))]);
    state.close().await;
    let state = open(&disk);
    assert_eq!(state.names(), ["one", "two"]);
    let one = state.partition("one", "x").expect("readable");
    assert_eq!((records(&one), one.mark), (of([("a", "1"), ("c", "3")]), 7));
    assert_eq!(
        records(&state.partition("two", "x").expect("readable")),
        of([("a", "2")])
    );
}

#[tokio::test]
async fn partition_of_another_identity_begins_afresh() {
    let disk = Disk::default();
    let state = open(&disk);
    state
        .partition("one", "first")
        .expect("new")
        .partition
        .write(5, vec![record("a", Some("1"))]);
    state.close().await;
    let state = open(&disk);
    let second = state.partition("one", "second").expect("new");
    assert_eq!((records(&second), second.mark), (Records::new(), 0));
    second.partition.write(1, vec![record("b", Some("2"))]);
    state.close().await;
    let state = open(&disk);
    assert_eq!(
        records(&state.partition("one", "second").expect("readable")),
        of([("b", "2")])
    );
}

#[tokio::test]
async fn partition_that_was_removed_is_gone_and_what_its_owner_still_writes_is_too() {
    let disk = Disk::default();
    let state = open(&disk);
    let old = state.partition("one", "x").expect("new").partition;
    state
        .partition("two", "x")
        .expect("new")
        .partition
        .write(1, vec![record("a", Some("2"))]);
    old.write(1, vec![record("a", Some("1"))]);
    state.remove("one");
    old.write(2, vec![record("b", Some("1"))]);
    let new = state.partition("one", "x").expect("new");
    assert_eq!(records(&new), Records::new());
    new.partition.write(1, vec![record("c", Some("3"))]);
    old.write(3, vec![record("d", Some("1"))]);
    new.partition.kept().await.expect("kept");
    state.remove("two");
    state.close().await;
    let state = open(&disk);
    assert_eq!(state.names(), ["one"]);
    assert_eq!(
        records(&state.partition("one", "x").expect("readable")),
        of([("c", "3")])
    );
}

#[tokio::test]
async fn what_a_full_disk_refuses_is_told_and_kept_when_there_is_room() {
    let disk = Disk::default();
    let counts = Arc::new(Counts::default());
    let state = open_counted(&disk, counts.clone());
    let one = state.partition("one", "x").expect("new").partition;
    one.write(1, vec![record("a", Some("1"))]);
    one.kept().await.expect("kept");
    assert_eq!(one.admits(), Ok(()));

    disk.set_full(true);
    one.write(2, vec![record("b", Some("2"))]);
    let refused = one.kept().await.expect_err("no room").to_string();
    assert!(
        refused.starts_with("the state file cannot be written: "),
        "{refused}"
    );
    assert_eq!(one.admits().map_err(|error| error.to_string()), Err(refused));
    assert!(counts.failed.load(Ordering::SeqCst) > 0);

    disk.set_full(false);
    one.write(3, vec![record("c", Some("3"))]);
    one.kept().await.expect("kept");
    assert_eq!(one.admits(), Ok(()));
    // The process is killed without closing the file.
    let again = open(&disk);
    let expected = of([("a", "1"), ("b", "2"), ("c", "3")]);
    assert_eq!(records(&again.partition("one", "x").expect("readable")), expected);
}

#[tokio::test]
async fn state_that_is_closed_on_a_full_disk_does_not_wait_for_room() {
    let disk = Disk::default();
    let state = open(&disk);
    let one = state.partition("one", "x").expect("new").partition;
    disk.set_full(true);
    one.write(1, vec![record("a", Some("1"))]);
    one.kept().await.expect_err("no room");
    state.close().await;
    one.write(2, vec![record("b", Some("1"))]);
    assert!(one.kept().await.is_err());
    assert!(one.admits().is_err());
}

#[tokio::test]
async fn those_who_write_at_once_share_commits() {
    const WRITERS: u64 = 200;
    let disk = Disk::default();
    let counts = Arc::new(Counts::default());
    let state = open_counted(&disk, counts.clone());
    let one = state.partition("one", "x").expect("new").partition;
    let kept: Vec<_> = (0..WRITERS)
        .map(|number| {
            one.write(number, vec![record(&number.to_string(), Some("1"))]);
            one.kept()
        })
        .collect();
    for kept in kept {
        kept.await.expect("kept");
    }
    let commits = counts.committed.load(Ordering::SeqCst);
    assert!(
        (1..WRITERS).contains(&commits),
        "{commits} commits of {WRITERS} writes"
    );
}
