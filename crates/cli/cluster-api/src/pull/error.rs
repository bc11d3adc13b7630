//! Why something could not be pulled.

use std::{io, path::PathBuf};

use http::StatusCode;

/// What a user brings where there is no network, or no version is named.
pub const FILES_TO_BRING: &str = "--provider core-components.yaml --provider bootstrap-components.yaml --provider \
     control-plane-components.yaml, which each release of Cluster API has, and the programs of their images, /manager, \
     as --run cluster-api=FILE --run bootstrap-kubeadm=FILE --run control-plane-kubeadm=FILE";

/// Why a program or a file of components could not be pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// It is no tag of an image.
    #[error("failed to read {0:?} as a version; v1.14.2 is one")]
    Version(String),
    /// It is no address of a registry.
    #[error("failed to read {0:?} as a registry; it has the form HOST, HOST:PORT or HOST/PREFIX")]
    Registry(String),
    /// It is no URL.
    #[error("failed to read {0:?} as a URL")]
    Url(String),
    /// It does not say which registry, or has a form that no registry knows.
    #[error("failed to read {0:?} as an image with its registry and a tag")]
    Image(String),
    /// A Deployment does not say what it runs.
    #[error("failed to find the image of the provider {0}: its Deployment names none")]
    NoImage(String),
    /// A manager for Linux does not run here.
    #[error(
        "failed to pull programs for {0}: images have them for Linux; build them, and name them with --run"
    )]
    System(String),
    /// It would be sent without TLS, or with a password.
    #[error("failed to use {0}: it has to be https without a user, or http on the loopback interface")]
    Unsafe(String),
    /// No connection, or none that lasts.
    #[error("failed to reach {host}; without it, bring {FILES_TO_BRING}")]
    Unreachable {
        host: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server answers something else.
    #[error("failed to get {at}: {status}")]
    Status { at: String, status: StatusCode },
    /// The server asks for something that this client does not have.
    #[error("failed to get {at}: {problem}")]
    Answer { at: String, problem: &'static str },
    /// It is longer than it may be, or than its descriptor says.
    #[error("failed to get {at}: it has more than {max} bytes")]
    TooLarge { at: String, max: u64 },
    /// The content is not what was asked for.
    #[error("failed to get {at}: its digest is not {expected}")]
    Digest { at: String, expected: String },
    /// It describes no image that can be used here.
    #[error("failed to read the manifest of {image}: {problem}")]
    Manifest { image: String, problem: String },
    /// A layer is no archive.
    #[error("failed to unpack the layer {digest}")]
    Layer { digest: String, source: io::Error },
    /// No layer has the program.
    #[error("failed to find the file /manager in {0}")]
    NoProgram(String),
    /// The cache folder is full, for example.
    #[error("failed to write a layer to the cache folder")]
    Scratch(#[source] io::Error),
    /// What was pulled cannot be kept.
    #[error("failed to keep {}", path.display())]
    Keep { path: PathBuf, source: io::Error },
    /// What went wrong for one provider.
    #[error("failed to pull the program of {provider} (--run {provider}=FILE names one that is here)")]
    Provider {
        provider: String,
        source: Box<PullError>,
    },
}

impl PullError {
    /// Whether it may be otherwise at another time, so that what was pulled before will do.
    pub(super) fn is_unreachable(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }
}
