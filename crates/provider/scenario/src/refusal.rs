//! What a failed request means for a step. Pure.

use nephele_controller::{UnsafeRequest, chain};

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no such object.
    NotFound,
    /// It may work later.
    Passing(String),
    /// It cannot work.
    Lasting(String),
}

/// The meaning of an error. `what` is what was to be done, such as `create Fault a`; `right` is what is needed for it, such
/// as `create faults.cloud.nephele.dev`.
pub(crate) fn refusal(what: &str, right: &str, error: &kube::Error) -> Refusal {
    let kube::Error::Api(status) = error else {
        let message = format!("failed to {what}: {}", chain(error));
        let lasts = UnsafeRequest::caused(error);
        return if lasts {
            Refusal::Lasting(message)
        } else {
            Refusal::Passing(message)
        };
    };
    let said = &status.message;
    match status.code {
        404 => Refusal::NotFound,
        401 | 403 => Refusal::Lasting(format!(
            "failed to {what}: the manager may not {right}, or a policy refuses it; its ClusterRole for \
             scenarios has this right: {said}"
        )),
        409 | 429 | 500.. => Refusal::Passing(format!("failed to {what}: {said}")),
        _ => Refusal::Lasting(format!("failed to {what}: {said}")),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_missing_right_is_named_and_a_busy_server_asked_again() {
        let of = |code| {
            let status = Status {
                code,
                ..Status::failure("no", "Reason")
            };
            refusal(
                "create Fault a",
                "create faults.cloud.nephele.dev",
                &kube::Error::Api(Box::new(status)),
            )
        };
        let Refusal::Lasting(message) = of(403) else {
            panic!("it lasts")
        };
        assert!(
            message.contains("the manager may not create faults.cloud.nephele.dev"),
            "{message}"
        );
        assert_eq!(of(404), Refusal::NotFound);
        assert_eq!(of(422), Refusal::Lasting("failed to create Fault a: no".into()));
        for code in [409, 429, 500, 503] {
            assert_eq!(of(code), Refusal::Passing("failed to create Fault a: no".into()));
        }
    }
}
