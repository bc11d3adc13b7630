//! Why a socket cannot be opened: because of the port, or because of open files.

use std::io;

use rustix::process::{Resource, getrlimit};

/// A socket could not be opened because too many files are open.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
pub enum TooManyOpenFiles {
    /// This process has as many as it may have.
    #[error(
        "too many open files: this process may have {0}; raise the limit (ulimit -Hn, or LimitNOFILE of the container runtime)"
    )]
    OfProcess(u64),
    /// All processes of this machine have as many as they may have.
    #[error("too many open files on this machine; raise fs.file-max")]
    OfMachine,
}

impl TooManyOpenFiles {
    /// Whether this is why a file or socket could not be opened.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        Self::of_code(error.raw_os_error()?, || {
            getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
        })
    }

    fn of_code(code: i32, limit: impl FnOnce() -> u64) -> Option<Self> {
        use rustix::io::Errno;
        match Errno::from_raw_os_error(code) {
            Errno::MFILE => Some(Self::OfProcess(limit())),
            Errno::NFILE => Some(Self::OfMachine),
            _ => None,
        }
    }
}

/// An error with [`TooManyOpenFiles`] instead of the system's words, where that is why.
#[must_use]
pub fn explained(error: io::Error) -> io::Error {
    match TooManyOpenFiles::of(&error) {
        Some(why) => io::Error::new(error.kind(), why),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_told_from_other_errors() {
        let of = |code| TooManyOpenFiles::of_code(code, || 1024);
        // EMFILE, ENFILE, EACCES, EADDRINUSE.
        assert_eq!(
            [24, 23, 13, 98].map(of),
            [
                Some(TooManyOpenFiles::OfProcess(1024)),
                Some(TooManyOpenFiles::OfMachine),
                None,
                None
            ]
        );
        let said = explained(io::Error::from_raw_os_error(24)).to_string();
        assert!(
            said.starts_with("too many open files: this process may have "),
            "{said}"
        );
        let other = explained(io::Error::from_raw_os_error(98));
        assert_eq!(other.raw_os_error(), Some(98));
    }
}
