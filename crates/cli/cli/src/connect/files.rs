//! The files with kubeconfigs. They contain private keys, so that only their owner can read them.

use std::{
    ffi::OsStr,
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};

use super::kubeconfig::{Entry, KubeconfigError, without};

/// How long another program may keep the user's kubeconfig locked. `kubectl config` takes a few milliseconds.
const LOCKED_MAX: Duration = Duration::from_secs(5);
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// Where kubeconfigs are written.
#[derive(Debug)]
pub(super) enum Destination {
    /// One file for each cluster.
    Folder {
        path: PathBuf,
        /// Whether it did not exist before.
        created: bool,
    },
    /// One file for all, which belongs to the user.
    File {
        path: PathBuf,
        /// Whether kubectl reads it without being told.
        usual: bool,
    },
}

impl Destination {
    pub(super) fn folder(path: PathBuf) -> anyhow::Result<Self> {
        let created = !path.exists();
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).recursive(true);
        builder
            .create(&path)
            .with_context(|| format!("failed to create {}", path.display()))?;
        Ok(Self::Folder { path, created })
    }

    /// Writes the entry. Returns the arguments with which kubectl uses it.
    pub(super) async fn put(&self, entry: &Entry) -> anyhow::Result<Vec<String>> {
        let (path, context) = match self {
            Self::Folder { path, .. } => (path.join(format!("{}.kubeconfig", entry.name)), None),
            Self::File { path, .. } => (path.clone(), Some(entry.name.clone())),
        };
        let alone = context.is_none();
        change(&path, |text| {
            // Also in a folder nothing is overwritten that is not ours.
            let merged = entry.merged_into(text)?;
            if alone {
                entry.alone().map(Some)
            } else {
                Ok(Some(merged))
            }
        })
        .await?;
        let mut arguments = Vec::new();
        if !matches!(self, Self::File { usual: true, .. }) {
            arguments.extend(["--kubeconfig".to_owned(), path.display().to_string()]);
        }
        arguments.extend(
            context
                .into_iter()
                .flat_map(|context| ["--context".to_owned(), context]),
        );
        Ok(arguments)
    }

    /// Removes entries that were written.
    pub(super) async fn remove(&self, entries: &[Entry]) -> anyhow::Result<()> {
        match self {
            Self::File { path, .. } => change(path, |text| without(text, entries)).await,
            Self::Folder { path, .. } => entries.iter().try_for_each(|entry| {
                let path = path.join(format!("{}.kubeconfig", entry.name));
                let ours = |text: String| {
                    without(&text, std::slice::from_ref(entry)).is_ok_and(|left| left.is_some())
                };
                if !fs::read_to_string(&path).is_ok_and(ours) {
                    return Ok(());
                }
                fs::remove_file(&path).with_context(|| format!("failed to remove {}", path.display()))
            }),
        }
    }

    /// Removes the entries that are left, and the folder if it was not there before and is empty.
    pub(super) async fn close(&self, entries: &[Entry]) -> anyhow::Result<()> {
        self.remove(entries).await?;
        if let Self::Folder { path, created: true } = self {
            // It may contain what others wrote.
            let _ = fs::remove_dir(path);
        }
        Ok(())
    }
}

/// Changes a kubeconfig as client-go does, under a lock file, so that changes by `kubectl` and others are not lost.
/// The file is replaced as a whole.
async fn change(
    path: &Path,
    edit: impl FnOnce(&str) -> Result<Option<String>, KubeconfigError>,
) -> anyhow::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    }
    let _lock = Lock::take(path).await?;
    let failed = || format!("failed to change {}", path.display());
    // A link stays a link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let text = match fs::read_to_string(&target) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("failed to read {}", path.display()))?,
    };
    match edit(&text).with_context(failed)? {
        Some(changed) => replace(&target, &changed).with_context(failed),
        None => Ok(()),
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    // No other user can read a temporary file. Its permissions become those of the file that it replaces.
    let mut file = tempfile::Builder::new().prefix(".nephele-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Ok(before) = fs::metadata(path) {
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(before.permissions().mode()))?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// client-go's lock of a kubeconfig: a file that exists while a program changes it.
struct Lock(PathBuf);

impl Lock {
    async fn take(path: &Path) -> anyhow::Result<Self> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let deadline = Instant::now() + LOCKED_MAX;
        loop {
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&lock)
            {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(error).with_context(|| format!("failed to create {}", lock.display()));
                }
                Err(_) if Instant::now() >= deadline => bail!(
                    "{} is locked; delete {} if no other program is changing it",
                    path.display(),
                    lock.display()
                ),
                Err(_) => sleep(LOCK_RETRY).await,
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Without it, others would have to wait until it is deleted; there is no one to tell.
        let _ = fs::remove_file(&self.0);
    }
}

/// The kubeconfig into which client-go writes new entries: of several files the first that exists, or else the last.
pub(super) fn usual_kubeconfig(variable: Option<&OsStr>, home: Option<&Path>) -> Option<PathBuf> {
    let files = nephele_access::usual_files(variable, home);
    files.iter().find(|path| path.exists()).or(files.last()).cloned()
}

#[cfg(test)]
mod tests;
