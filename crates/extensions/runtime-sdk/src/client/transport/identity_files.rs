//! The files of a client certificate.

use std::{path::PathBuf, sync::Arc, time::Duration};

use nephele_error_chain::chain;
use nephele_watched_files::WatchedFiles;

use super::{
    https::Https,
    identity::{Identity, IdentityError},
};

/// The files of an identity, such as a mounted Secret. They may change at any time.
#[derive(Debug)]
pub struct IdentityFiles {
    files: Arc<WatchedFiles<Identity, IdentityError>>,
}

impl IdentityFiles {
    /// The files of the certificate and its key, in PEM.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let paths = [certificate.into(), key.into()];
        let files = WatchedFiles::new(paths, |contents: &[Vec<u8>]| {
            Identity::from_pem(&contents[0], &contents[1])
        });
        Self {
            files: Arc::new(files),
        }
    }

    /// Reads the files; returns the identity if it has changed.
    ///
    /// # Errors
    /// When they cannot be read or hold no identity. The next call reads them again.
    pub fn changed(&mut self) -> Result<Option<Identity>, IdentityError> {
        self.files.look()
    }

    /// Keeps a transport's identity in step with the files. Reads them at this interval while the future is
    /// polled. If the files cannot be read, the identity stays.
    pub async fn keep(self, transport: Arc<Https>, interval: Duration) {
        let take = |look: Result<Option<Identity>, IdentityError>| match look {
            Ok(Some(identity)) => transport.set_identity(Some(identity)),
            Ok(None) => {}
            Err(error) => tracing::warn!(error = chain(&error), "Failed to reload the client certificate"),
        };
        take(self.files.look_in_task().await);
        self.files.follow(interval, take).await;
    }
}
