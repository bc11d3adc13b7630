//! Values made from files that another program renews, such as the certificate in a mounted Secret.
//!
//! All files of a value are read together, and the value is made again only when a content has changed. While the files
//! cannot be read or used, the last value stays in use, and each look reports the error. The crate depends on no other
//! crate of Nephele, so that `runtime-sdk` can be used without the rest.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;
use thiserror::Error;
use tokio::{task::spawn_blocking, time::sleep};

/// How often to look at files in a pod. A kubelet takes up to a minute to update a changed Secret there.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// A file could not be read.
#[derive(Debug, Error)]
#[error("failed to read {}", path.display())]
pub struct ReadError {
    /// The path of the file, as it was given.
    pub path: PathBuf,
    #[source]
    source: io::Error,
}

/// Makes the value from the contents of the files, which are in the order of their paths.
type Make<T, E> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, E> + Send + Sync>;

/// Files that another program renews, and the value last made from them.
pub struct WatchedFiles<T, E> {
    paths: Vec<PathBuf>,
    make: Make<T, E>,
    /// The last contents that made a value, and that value. [`WatchedFiles::replace`] writes it.
    current: RwLock<Option<(Vec<Vec<u8>>, T)>>,
}

impl<T: Clone, E: From<ReadError>> WatchedFiles<T, E> {
    /// Files that nothing has looked at yet. `make` makes the value of their contents, in the order of the paths.
    pub fn new<P: Into<PathBuf>>(
        paths: impl IntoIterator<Item = P>,
        make: impl Fn(&[Vec<u8>]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        let paths = paths.into_iter().map(Into::into).collect();
        Self {
            paths,
            make: Box::new(make),
            current: RwLock::new(None),
        }
    }

    /// The last value, if there was one yet.
    pub fn current(&self) -> Option<T> {
        self.current.read().as_ref().map(|(_, value)| value.clone())
    }

    /// Reads the files now. Returns the new value if their contents have changed.
    ///
    /// # Errors
    /// When a file cannot be read, or the contents make no value. The last value stays, and the next look reads again.
    pub fn look(&self) -> Result<Option<T>, E> {
        let contents = self
            .paths
            .iter()
            .map(|path| read(path))
            .collect::<Result<Vec<_>, _>>()?;
        if self
            .current
            .read()
            .as_ref()
            .is_some_and(|(current, _)| *current == contents)
        {
            return Ok(None);
        }
        self.replace(contents).map(Some)
    }

    /// Makes the value of these contents instead of those of the files, and returns it.
    ///
    /// # Errors
    /// When the contents make no value. The last value stays.
    pub fn replace(&self, contents: Vec<Vec<u8>>) -> Result<T, E> {
        let value = (self.make)(&contents)?;
        *self.current.write() = Some((contents, value.clone()));
        Ok(value)
    }
}

impl<T: Clone + Send + Sync + 'static, E: From<ReadError> + Send + 'static> WatchedFiles<T, E> {
    /// Like [`WatchedFiles::look`], for tasks.
    ///
    /// # Errors
    /// As there.
    pub async fn look_in_task(self: &Arc<Self>) -> Result<Option<T>, E> {
        let files = Arc::clone(self);
        spawn_blocking(move || files.look())
            .await
            .expect("reading files does not panic")
    }

    /// Looks at the files whenever this interval has passed, and passes on what each look returns, until the future is
    /// dropped.
    pub async fn follow(self: Arc<Self>, interval: Duration, mut seen: impl FnMut(Result<Option<T>, E>)) {
        loop {
            sleep(interval).await;
            seen(self.look_in_task().await);
        }
    }
}

impl<T, E> fmt::Debug for WatchedFiles<T, E> {
    /// Never shows contents: they may be keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedFiles")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    fs::read(path).map_err(|source| ReadError {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
