//! Exit codes of the commands that people run against a management cluster.

use std::{error::Error, process::ExitCode};

/// The list of exit codes, for `--help`.
pub(crate) const HELP: &str = "\
Exit codes, beside 0 for success:
  1  it failed
  2  wrong usage
  3  an object was not found
  4  a permission is missing
  5  the management cluster cannot be reached";

/// The category of a failure. Wrong usage, code 2, is clap's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    NotFound = 3,
    Forbidden = 4,
    Unreachable = 5,
}

/// A failure with an exit code of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    message: String,
    #[source]
    cause: Option<Box<dyn Error + Send + Sync>>,
}

/// Whether the management cluster refuses what the caller may not do.
pub(crate) fn is_forbidden(error: &anyhow::Error) -> bool {
    let problem = error.downcast_ref::<Problem>();
    problem.is_some_and(|problem| problem.exit == Exit::Forbidden)
}

impl Problem {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            cause: None,
        }
    }

    /// A management cluster that is not found or cannot be reached.
    pub(crate) fn unreachable(message: impl Into<String>, cause: anyhow::Error) -> Self {
        Self {
            exit: Exit::Unreachable,
            message: message.into(),
            cause: Some(cause.into()),
        }
    }

    /// A refused or failed request. `permission` is what the request needs, for example "list pods".
    pub(crate) fn request(what: &str, permission: &str, cause: kube::Error) -> Self {
        let exit = of_request(&cause);
        let message = match exit {
            Exit::Forbidden => format!("failed to {what}: you need the permission to {permission}"),
            Exit::Unreachable => format!(
                "failed to {what}: the management cluster does not answer; check --kubeconfig and --context"
            ),
            Exit::Failed | Exit::NotFound => format!("failed to {what}"),
        };
        // Without the debug output that kube adds to an answer.
        let cause: Box<dyn Error + Send + Sync> = match cause {
            kube::Error::Api(status) => status,
            other => Box::new(other),
        };
        Self {
            exit,
            message,
            cause: Some(cause),
        }
    }
}

fn of_request(error: &kube::Error) -> Exit {
    match error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => Exit::Forbidden,
            404 => Exit::NotFound,
            _ => Exit::Failed,
        },
        kube::Error::Service(_) | kube::Error::HyperError(_) => Exit::Unreachable,
        _ => Exit::Failed,
    }
}

/// The exit code of the whole program after this error.
pub(crate) fn code(error: &anyhow::Error) -> ExitCode {
    error
        .downcast_ref::<Problem>()
        .map_or(ExitCode::FAILURE, |problem| ExitCode::from(problem.exit as u8))
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use kube::core::Status;

    use super::*;

    fn refused(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status {
            code,
            ..Status::failure("no", "Reason")
        }))
    }

    #[test]
    fn exit_code_follows_the_answer_of_the_api_server() {
        let of = |error| Problem::request("read it", "get pods", error).exit;
        assert_eq!(of(refused(403)), Exit::Forbidden);
        assert_eq!(of(refused(401)), Exit::Forbidden);
        assert_eq!(of(refused(404)), Exit::NotFound);
        assert_eq!(of(refused(500)), Exit::Failed);
        assert_eq!(
            of(kube::Error::Service("connection refused".into())),
            Exit::Unreachable
        );
    }

    #[test]
    fn context_keeps_the_exit_code() {
        let problem = Problem::request("list pods", "list pods", refused(403));
        assert!(
            problem
                .to_string()
                .ends_with("you need the permission to list pods")
        );
        let error = Err::<(), _>(problem).context("around it").expect_err("a problem");
        assert_eq!(format!("{:?}", code(&error)), format!("{:?}", ExitCode::from(4)));
    }
}
