//! Files on a real disk: permissions and damage.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use redb::{Database, TableDefinition};

use super::{Counts, of, record, records};
use crate::{FILE_NAME, OpenError, State};

/// A directory for one test, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("nephele-state-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join(FILE_NAME)
    }

    fn open(&self) -> Result<State, OpenError> {
        State::open(&self.0, Arc::new(Counts::default()))
    }

    async fn fill(&self, value: &str) {
        let state = self.open().expect("a sound file");
        let partition = state.partition("one", "x").expect("readable").partition;
        partition.write(
            1,
            (0..300)
                .map(|key| record(&format!("{key:03}"), Some(value)))
                .collect(),
        );
        state.close().await;
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn directory_is_made_and_the_file_is_for_its_owner_alone() {
    let directory = Directory::new();
    let within = directory.0.join("not/yet/there");
    let state = State::open(&within, Arc::new(Counts::default())).expect("a new file");
    let mode = fs::metadata(within.join(FILE_NAME))
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    state.close().await;
}

#[tokio::test]
async fn file_belongs_to_one_at_a_time() {
    let directory = Directory::new();
    let first = directory.open().expect("a new file");
    let error = directory.open().expect_err("it is open");
    let path = directory.file();
    assert_eq!(
        error.to_string(),
        format!(
            "failed to open the state file {}: another process has it open; give each manager its own directory",
            path.display()
        )
    );
    first.close().await;
    drop(directory.open().expect("the first is closed"));
}

#[tokio::test]
async fn file_of_another_program_is_named_and_left_alone() {
    let directory = Directory::new();
    let path = directory.file();
    for content in [
        b"not a database at all".repeat(400),
        vec![0; 4096],
        vec![0xff; 10],
    ] {
        fs::write(&path, &content).expect("written");
        let error = directory.open().expect_err("not ours").to_string();
        assert!(
            error.starts_with(&format!("failed to read the state file {}: ", path.display())),
            "{error}"
        );
        assert!(
            error.ends_with("restore a copy of it, or move it away to start with an empty file"),
            "{error}"
        );
        assert_eq!(fs::read(&path).expect("it is there"), content);
    }
    fs::remove_file(&path).expect("removed");
    let database = Database::create(&path).expect("a database");
    let transaction = database.begin_write().expect("a transaction");
    transaction
        .open_table(TableDefinition::<u64, u64>::new("theirs"))
        .expect("a table")
        .insert(1, 2)
        .expect("room");
    transaction.commit().expect("room");
    drop(database);
    let error = directory.open().expect_err("not ours").to_string();
    assert!(error.contains(": it belongs to another program; "), "{error}");
}

#[tokio::test]
async fn file_of_another_format_is_named() {
    let directory = Directory::new();
    directory.fill("1").await;
    let database = Database::create(directory.file()).expect("a database");
    let transaction = database.begin_write().expect("a transaction");
    let meta = TableDefinition::<&str, u64>::new("nephele.dev/state");
    transaction
        .open_table(meta)
        .expect("a table")
        .insert("format", 2)
        .expect("room");
    transaction.commit().expect("room");
    drop(database);
    let error = directory.open().expect_err("a later format").to_string();
    assert!(
        error.contains(": it has format 2 and not 1; use the version that wrote it, "),
        "{error}"
    );
}

/// With any damage, a file that opens has all records, and any other file is refused with its name.
#[tokio::test]
async fn damaged_file_is_refused_or_whole() {
    let directory = Directory::new();
    directory.fill(&"value ".repeat(50)).await;
    let path = directory.file();
    let sound = fs::read(&path).expect("it is there");
    let expected = (0..300)
        .map(|key| (format!("{key:03}"), "value ".repeat(50)))
        .collect();
    let mut refused = 0;
    let cuts = [1, 100, 4096, sound.len() / 2, sound.len() - 1];
    let cut = cuts.iter().map(|&length| sound[..length].to_vec());
    let flips = (0..60).map(|index| {
        let mut damaged = sound.clone();
        let at = index * 4099 % sound.len();
        damaged[at..(at + 64).min(sound.len())].fill(0xa5);
        damaged
    });
    for damaged in cut.chain(flips) {
        fs::write(&path, &damaged).expect("written");
        match directory.open() {
            Ok(state) => {
                assert_eq!(records(&state.partition("one", "x").expect("readable")), expected);
                state.close().await;
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains(&path.display().to_string()), "{error}");
            }
        }
    }
    assert!(refused > cuts.len(), "{refused}");
}

#[tokio::test]
async fn removed_partitions_leave_their_room_to_others() {
    let directory = Directory::new();
    let state = directory.open().expect("a new file");
    let value = "value ".repeat(1000);
    let mut sizes = Vec::new();
    for round in 0..8 {
        let name = format!("round-{round}");
        let partition = state.partition(&name, "x").expect("new").partition;
        partition.write(
            1,
            (0..300)
                .map(|key| record(&format!("{key:03}"), Some(&value)))
                .collect(),
        );
        partition.kept().await.expect("kept");
        state.remove(&name);
        state
            .partition("rest", "x")
            .map(|opened| opened.partition.write(round, vec![]))
            .expect("readable");
        partition.kept().await.expect("kept");
        sizes.push(fs::metadata(directory.file()).expect("it is there").len());
    }
    assert!(sizes[7] <= sizes[1], "the file grows: {sizes:?}");
    let partition = state.partition("last", "x").expect("new").partition;
    partition.write(1, vec![record("a", Some("1"))]);
    state.close().await;
    let state = directory.open().expect("a sound file");
    assert_eq!(
        records(&state.partition("last", "x").expect("readable")),
        of([("a", "1")])
    );
}
