//! The state file: its tables, and how it is opened, read and written.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use parking_lot::RwLock;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError,
    TableHandle as _,
};

use crate::{error::OpenError, pending::Batch};

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("nephele.dev/state");
/// The name, identity and mark of each partition, by its id.
const PARTITIONS: TableDefinition<'_, u64, (&str, &str, u64)> = TableDefinition::new("partitions");
/// The values of records, by partition id and key.
const RECORDS: TableDefinition<'_, (u64, &[u8]), &[u8]> = TableDefinition::new("records");

const FORMAT_KEY: &str = "format";
const FORMAT: u64 = 1;

/// The size of the page cache. A partition is read once, in order, and a commit touches the pages of a few hundred
/// objects of some kilobytes, so no more than 4 MiB are used again.
const CACHE_BYTES: usize = 4 * 1024 * 1024;

/// Opens the database, at the start and again after a failure.
pub(crate) type Opener = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

/// A partition as stored in the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) identity: String,
    pub(crate) mark: u64,
}

/// An open file.
pub(crate) struct File {
    path: PathBuf,
    opener: Opener,
    /// None after the file was closed, or while it cannot be reopened. Every transaction holds a read lock, including
    /// the writer's commit. The database is replaced only between two commits.
    database: RwLock<Option<Database>>,
}

/// The opener of the file at `path`. Only the owner of the file may read it, because records may be secrets.
pub(crate) fn opener(path: &Path) -> Opener {
    let path = path.to_owned();
    Box::new(move || {
        let there = path.exists();
        fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)?;
        if !there && let Some(directory) = path.parent() {
            // The directory entry of the file has to survive a loss of power, too.
            fs::File::open(directory)?.sync_all()?;
        }
        builder().create(&path)
    })
}

pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new();
    // The check reads the whole file once. Without the check, damage may be found late or never.
    builder
        .set_cache_size(CACHE_BYTES)
        .set_check_integrity_on_open(true);
    builder
}

impl File {
    /// Opens the file, and returns the partitions in it.
    pub(crate) fn open(path: PathBuf, opener: Opener) -> Result<(Self, Vec<Entry>), OpenError> {
        // The library may panic on a damaged file.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let database = opener().map_err(redb::Error::from)?;
            let found = format(&database)?;
            let entries = if found == Some(FORMAT) {
                entries(&database)?
            } else {
                Vec::new()
            };
            Ok((database, found, entries))
        }));
        let unreadable = |reason: &dyn std::fmt::Display| OpenError::Unreadable {
            path: path.clone(),
            reason: reason.to_string(),
        };
        let (database, found, entries) = match opened {
            Err(_) => return Err(unreadable(&"it is damaged")),
            Ok(Ok(opened)) => opened,
            Ok(Err(redb::Error::DatabaseAlreadyOpen)) => return Err(OpenError::InUse { path }),
            Ok(Err(redb::Error::Io(source))) if source.kind() != io::ErrorKind::InvalidData => {
                return Err(OpenError::File {
                    path,
                    source: Box::new(source.into()),
                });
            }
            Ok(Err(redb::Error::Io(source))) => {
                return Err(unreadable(&format!("it is not a redb file ({source})")));
            }
            Ok(Err(error)) => return Err(unreadable(&error)),
        };
        match found {
            Some(FORMAT) => {}
            Some(found) => {
                return Err(OpenError::Format {
                    path,
                    found,
                    expected: FORMAT,
                });
            }
            None => return Err(unreadable(&"it belongs to another program")),
        }
        Ok((
            Self {
                path,
                opener,
                database: RwLock::new(Some(database)),
            },
            entries,
        ))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's length, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// The records of a partition, by key.
    pub(crate) fn read(&self, id: u64) -> Result<Vec<(Vec<u8>, Bytes)>, redb::Error> {
        let database = self.database.read();
        let transaction = database
            .as_ref()
            .ok_or(redb::Error::DatabaseClosed)?
            .begin_read()?;
        let records = match transaction.open_table(RECORDS) {
            Ok(records) => records,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut found = Vec::new();
        for record in records.range((id, &b""[..])..(id + 1, &b""[..]))? {
            let (key, value) = record?;
            found.push((key.value().1.to_owned(), Bytes::copy_from_slice(value.value())));
        }
        Ok(found)
    }

    /// Writes the whole batch, or nothing.
    pub(crate) fn commit(&self, batch: &Batch) -> Result<(), redb::Error> {
        let database = self.database.read();
        let transaction = database
            .as_ref()
            .ok_or(redb::Error::DatabaseClosed)?
            .begin_write()?;
        {
            let mut partitions = transaction.open_table(PARTITIONS)?;
            let mut records = transaction.open_table(RECORDS)?;
            for id in &batch.removed {
                partitions.remove(id)?;
                records.retain_in((*id, &b""[..])..(id + 1, &b""[..]), |_, _| false)?;
            }
            for (id, changes) in &batch.partitions {
                let header = &changes.header;
                partitions.insert(id, (header.name.as_str(), header.identity.as_str(), changes.mark))?;
                for (key, value) in &changes.records {
                    match value {
                        Some(value) => drop(records.insert((*id, &**key), &**value)?),
                        None => drop(records.remove((*id, &**key))?),
                    }
                }
            }
        }
        Ok(transaction.commit()?)
    }

    /// Reopens the file, because after a failure the open database cannot write any more.
    pub(crate) fn reopen(&self) -> Result<(), redb::Error> {
        let mut database = self.database.write();
        // The old database has to close the file first.
        *database = None;
        *database = Some((self.opener)()?);
        Ok(())
    }

    pub(crate) fn close(&self) {
        *self.database.write() = None;
    }
}

/// The format of the file; a new file gets the current one. None if another program wrote the file.
fn format(database: &Database) -> Result<Option<u64>, redb::Error> {
    let is_new = {
        let transaction = database.begin_read()?;
        let tables: Vec<_> = transaction
            .list_tables()?
            .map(|table| table.name().to_owned())
            .collect();
        if tables.iter().any(|name| name == META.name()) {
            let meta = transaction.open_table(META)?;
            return Ok(meta.get(FORMAT_KEY)?.map(|format| format.value()));
        }
        tables.is_empty() && transaction.list_multimap_tables()?.next().is_none()
    };
    if !is_new {
        return Ok(None);
    }
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
    transaction.commit()?;
    Ok(Some(FORMAT))
}

fn entries(database: &Database) -> Result<Vec<Entry>, redb::Error> {
    let transaction = database.begin_read()?;
    let partitions = match transaction.open_table(PARTITIONS) {
        Ok(partitions) => partitions,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut entries = Vec::new();
    for entry in partitions.iter()? {
        let (id, value) = entry?;
        let (name, identity, mark) = value.value();
        entries.push(Entry {
            id: id.value(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            mark,
        });
    }
    Ok(entries)
}

/// The message of the error; for an I/O error, the message of the operating system.
pub(crate) fn message(error: &redb::Error) -> String {
    match error {
        redb::Error::Io(source) => source.to_string(),
        other => other.to_string(),
    }
}
