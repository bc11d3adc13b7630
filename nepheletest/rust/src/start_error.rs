//! Why Nephele has not started.

use std::{io, path::PathBuf, time::Duration};

use kube::config::KubeconfigError;

use crate::process::Ended;

/// Why Nephele has not started.
#[derive(thiserror::Error)]
pub enum StartError {
    /// The builder has a stand-in and nothing to attach it to.
    #[error("failed to start nephele: stand_in needs attach; without attach the stand-in always plays")]
    StandInWithoutAttach,
    /// An object has no JSON.
    #[error("failed to encode object {number}")]
    EncodeObject {
        /// Its place among the objects of the builder, from 1.
        number: usize,
        source: serde_json::Error,
    },
    /// The program cannot get something that is not in a file.
    #[error("failed to pass {name} to nephele")]
    Pass { name: &'static str, source: io::Error },
    /// There is no program, or it cannot be run.
    #[error(
        "failed to run the program {} (from {origin}); build it with `cargo build --release` in a checkout of \
         Nephele, and set NEPHELE to the path of target/release/nephele",
        program.display()
    )]
    Program {
        /// Its path, or its name on `PATH`.
        program: PathBuf,
        origin: &'static str,
        source: io::Error,
    },
    /// The program does not say whether it is up.
    #[error("failed to start nephele: it does not report within {limit:?} whether it is up; it says: {said}")]
    Time {
        /// The time limit for Clusters, and a margin.
        limit: Duration,
        /// The end of its error output.
        said: String,
    },
    /// The program has ended with an error.
    #[error("failed to start nephele")]
    Ended(#[source] Ended),
    /// The report of the program is not one that this library knows.
    #[error("failed to read what nephele reports; is {} another version?", program.display())]
    Report {
        /// The path of the program, or its name on `PATH`.
        program: PathBuf,
        source: serde_json::Error,
    },
    /// The kubeconfig of the management API cannot be read or written.
    #[error("failed to read or write the kubeconfig {} of the management API", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The kubeconfig of the management API cannot be used.
    #[error("failed to use the kubeconfig of the management API")]
    Kubeconfig(#[source] KubeconfigError),
}
crate::debug::in_words!(StartError);
