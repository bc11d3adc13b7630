//! A folder of files: kubeconfigs, a log and a journal. Only their owner can read them.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use tracing_subscriber::EnvFilter;

/// The most names that are tried for a new folder.
const NAMES_MAX: u32 = 1000;

/// A folder for the files of this process.
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether this process made it in the directory for temporary files.
    is_temporary: bool,
    /// Open, and locked as far as the file system has locks: no other process has this folder until this one ends.
    _held: File,
}

impl Folder {
    /// The requested folder, or a new one for temporary files, whose name begins with `prefix`.
    ///
    /// # Errors
    /// When it cannot be made, or another process has it, whose files would be replaced.
    pub(crate) fn open(wanted: Option<&Path>, prefix: &str) -> anyhow::Result<Self> {
        let Some(path) = wanted else {
            return Self::temporary(prefix);
        };
        let path =
            std::path::absolute(path).with_context(|| format!("failed to resolve {}", path.display()))?;
        let created = DirBuilder::new().mode(0o700).recursive(true).create(&path);
        created.with_context(|| format!("failed to create {}", path.display()))?;
        Self::held(path, false)
    }

    fn held(path: PathBuf, is_temporary: bool) -> anyhow::Result<Self> {
        let held = File::open(&path).with_context(|| format!("failed to open {}", path.display()))?;
        match held.try_lock() {
            Err(TryLockError::WouldBlock) => bail!(
                "{} is in use by another nephele; name another folder, or end that one",
                path.display()
            ),
            // A file system without locks is no reason not to work.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        Ok(Self {
            path,
            is_temporary,
            _held: held,
        })
    }

    /// A folder that did not exist before, so that no other user has put anything into it.
    fn temporary(prefix: &str) -> anyhow::Result<Self> {
        let base = std::env::temp_dir();
        for number in 0..NAMES_MAX {
            let path = base.join(format!("{prefix}-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self::held(path, true),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("failed to create {}", path.display()));
                }
            }
        }
        bail!(
            "failed to find a name for a new folder in {}; remove old folders there",
            base.display()
        )
    }

    pub(crate) fn root(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file that contains a private key. A reader sees all of it or the file before.
    pub(crate) fn write(&self, name: &str, content: &str) -> anyhow::Result<PathBuf> {
        let path = self.path(name);
        let draft = self.path(&format!(".{name}.new"));
        create(&draft)
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .and_then(|()| fs::rename(&draft, &path))
            .with_context(|| format!("failed to write {}", path.display()))?;
        Ok(path)
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(path: &Path) -> anyhow::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("failed to remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Whether this file is empty, and the only one.
    pub(crate) fn has_only_empty(&self, file: &Path) -> bool {
        let is_it = |entry: std::io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.path() == *file);
        let is_alone = fs::read_dir(&self.path).is_ok_and(|mut entries| entries.all(is_it));
        is_alone && fs::metadata(file).is_ok_and(|file| file.len() == 0)
    }

    /// Removes the folder and its files, unless the user named it.
    pub(crate) fn discard(self) -> anyhow::Result<()> {
        if !self.is_temporary {
            return Ok(());
        }
        fs::remove_dir_all(&self.path).with_context(|| format!("failed to remove {}", self.path.display()))
    }

    /// Removes the kubeconfigs, after a failure: their servers are gone, and only the log helps. Keeps them if the user
    /// named the folder.
    pub(crate) fn discard_kubeconfigs(self) -> anyhow::Result<()> {
        if !self.is_temporary {
            return Ok(());
        }
        let entries =
            fs::read_dir(&self.path).with_context(|| format!("failed to list {}", self.path.display()))?;
        for entry in entries {
            let path = entry
                .with_context(|| format!("failed to list {}", self.path.display()))?
                .path();
            if path
                .extension()
                .is_some_and(|extension| extension == "kubeconfig")
            {
                Self::remove(&path)?;
            }
        }
        Ok(())
    }
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Sets up logging to a file, because the output of the process is for other things. `RUST_LOG` overrides the
/// directives.
pub(crate) fn log_to(path: &Path, directives: &str) -> anyhow::Result<()> {
    let file = create(path).with_context(|| format!("failed to write {}", path.display()))?;
    let chosen = std::env::var("RUST_LOG").ok().filter(|chosen| !chosen.is_empty());
    let directives = chosen.as_deref().unwrap_or(directives);
    let filter = EnvFilter::try_new(directives)
        .with_context(|| format!("failed to read the log directives {directives:?}"))?;
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_env_filter(filter)
        .with_writer(std::sync::Mutex::new(file));
    subscriber
        .try_init()
        .map_err(anyhow::Error::from_boxed)
        .context("failed to set up logging")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_with_another_file_or_a_log_is_kept_to_be_read() {
        let folder = Folder::open(None, "nephele-folder-test").expect("a folder");
        let log = folder.path("up.log");
        assert!(!folder.has_only_empty(&log), "there is none");
        create(&log).expect("created");
        assert!(folder.has_only_empty(&log));
        folder.write("etcd.log", "why").expect("written");
        assert!(!folder.has_only_empty(&log));
        fs::remove_file(folder.path("etcd.log")).expect("removed");
        fs::write(&log, "why").expect("written");
        assert!(!folder.has_only_empty(&log));
        folder.discard().expect("removed");
    }

    #[test]
    fn a_folder_belongs_to_one_process_at_a_time() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("cloud");
        let first = Folder::open(Some(&path), "unused").expect("a folder");
        let refused = Folder::open(Some(&path), "unused").err().expect("it is in use");
        let expected = format!(
            "{} is in use by another nephele; name another folder, or end that one",
            path.display()
        );
        assert_eq!(refused.to_string(), expected);
        drop(first);
        Folder::open(Some(&path), "unused").expect("it is free again");
    }

    #[test]
    fn temporary_folder_is_new_private_and_removed_with_its_files() {
        let [first, second] = [(); 2].map(|()| Folder::open(None, "nephele-folder-test").expect("a folder"));
        assert_ne!(first.root(), second.root());
        let file = first.write("a.kubeconfig", "one").expect("written");
        first.write("a.kubeconfig", "two").expect("replaced");
        assert_eq!(fs::read_to_string(&file).expect("readable"), "two");
        assert_eq!((mode(first.root()), mode(&file)), (0o700, 0o600));
        assert_eq!(
            fs::read_dir(first.root()).expect("a folder").count(),
            1,
            "no draft is left"
        );
        let path = first.root().to_owned();
        first.discard().expect("removed");
        assert!(!path.exists());
        second.discard().expect("removed");
    }

    #[test]
    fn after_a_failure_the_log_stays_and_no_kubeconfig() {
        let folder = Folder::open(None, "nephele-folder-test").expect("a folder");
        for name in ["up.log", "management.kubeconfig", "default-small.kubeconfig"] {
            folder.write(name, "").expect("written");
        }
        let path = folder.root().to_owned();
        folder.discard_kubeconfigs().expect("removed");
        let left: Vec<_> = fs::read_dir(&path)
            .expect("it stays")
            .map(|entry| entry.expect("listed").file_name().into_string().expect("text"))
            .collect();
        assert_eq!(left, ["up.log"]);
        fs::remove_dir_all(path).expect("ours to remove");
    }

    #[test]
    fn folder_of_the_user_stays() {
        let path = std::env::temp_dir().join(format!("nephele-folder-test-own-{}", std::process::id()));
        let folder = Folder::open(Some(&path), "unused").expect("a folder");
        let file = folder.write("a", "").expect("written");
        Folder::remove(&file).expect("removed");
        Folder::remove(&file).expect("it is gone already");
        folder.discard().expect("nothing to do");
        assert!(path.is_dir());
        fs::remove_dir_all(path).expect("ours to remove");
    }
}
