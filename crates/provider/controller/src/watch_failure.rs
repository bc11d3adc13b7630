//! What the log says of a watch that ended with an error.

use kube::runtime::watcher::Error;
use nephele_error_chain::chain;
use tracing::{debug, warn};

/// Logs the error. The watch of this kind starts again by itself.
///
/// A server that has forgotten the changes since the resource version of a watch says so with `410 Gone`, for example
/// right after the installation of a definition. Then the objects are listed again, which is no news.
pub fn watch_failed(kind: &str, error: &Error) {
    let text = chain(error);
    if is_expired(error) {
        debug!(kind, error = text, "A watch expired; listing again");
    } else {
        warn!(kind, error = text, "A watch failed; restarting it");
    }
}

fn is_expired(error: &Error) -> bool {
    match error {
        Error::WatchError(status) => status.code == 410,
        Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_a_forgotten_resource_version_is_expired() {
        let status = |code| Box::new(Status::failure("", "").with_code(code));
        let errors = [
            Error::WatchError(status(410)),
            Error::WatchStartFailed(kube::Error::Api(status(410))),
            Error::WatchError(status(500)),
            Error::WatchStartFailed(kube::Error::Api(status(403))),
            Error::InitialListFailed(kube::Error::Api(status(410))),
            Error::NoResourceVersion,
        ];
        assert_eq!(
            errors.each_ref().map(is_expired),
            [true, true, false, false, false, false]
        );
    }
}
