//! Validation of discovery responses.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{handler::Handler, message::aggregate};
use crate::{
    catalog::Catalog,
    hooks::{
        ApiVersionError, DiscoveryResponse, ExtensionHandler, FailurePolicy, HookId,
        discovery::TIMEOUT_SECONDS_MAX,
    },
    wire,
};

/// The most handlers of an extension: the status of an `ExtensionConfig` has room for this many (Cluster API,
/// `extensionconfig_types.go`).
pub const HANDLERS_MAX: usize = 512;

/// What to do about handlers of hooks that the caller's catalog does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownHooks {
    /// Discovery fails, as in Cluster API: an extension newer than its caller is not called at all.
    #[default]
    Refuse,
    /// The handler is skipped and reported. The other handlers are called. For custom kinds.
    Skip,
}

/// The valid handlers of an extension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    pub handlers: Vec<Handler>,
    /// The skipped handlers, by name. Empty with [`UnknownHooks::Refuse`].
    pub skipped: Vec<DiscoveryProblem>,
}

/// An error in a discovery response.
#[derive(Clone, Debug, Error, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiscoveryProblem {
    /// Two handlers have the same name; names are unique across hooks.
    #[error("there is more than one handler {0:?}")]
    Duplicate(String),
    /// The name is not a DNS label.
    #[error("the name of handler {0:?} is not a DNS label")]
    Name(String),
    /// The timeout is out of range.
    #[error("timeoutSeconds of handler {handler:?} is {seconds}, not between 0 and {TIMEOUT_SECONDS_MAX}")]
    Timeout { handler: String, seconds: i32 },
    /// The failure policy is unknown.
    #[error("failurePolicy of handler {handler:?} is {policy:?}, neither Fail nor Ignore")]
    FailurePolicy { handler: String, policy: String },
    /// The `apiVersion` of the hook is malformed.
    #[error("apiVersion {api_version:?} of requestHook of handler {handler:?} is not a group and a version")]
    ApiVersion { handler: String, api_version: String },
    /// The catalog does not have the hook.
    #[error("requestHook {api_version}/{hook} of handler {handler:?} is not in the Runtime SDK catalog")]
    UnknownHook {
        handler: String,
        api_version: String,
        hook: String,
    },
    /// There are more handlers than a status has room for.
    #[error("there are {0} handlers, more than {HANDLERS_MAX}")]
    TooMany(usize),
}

/// All errors in a discovery response.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the discovery response is not valid: {}", aggregate(.0))]
pub struct InvalidDiscovery(pub Vec<DiscoveryProblem>);

/// Validates a discovery response, as Cluster API does (`internal/runtime/client`): reports all problems, not just
/// the first. The handlers are sorted by name, so that an extension that lists them in a different order each time
/// does not change the status each time.
///
/// # Errors
/// When anything in it is invalid.
pub fn validate(
    response: &DiscoveryResponse,
    catalog: &Catalog,
    unknown: UnknownHooks,
) -> Result<Discovered, InvalidDiscovery> {
    let mut problems = Vec::new();
    let mut discovered = Discovered::default();
    let mut names = BTreeSet::new();
    if response.handlers.len() > HANDLERS_MAX {
        return Err(InvalidDiscovery(vec![DiscoveryProblem::TooMany(
            response.handlers.len(),
        )]));
    }
    for handler in &response.handlers {
        if !names.insert(handler.name.as_str()) {
            problems.push(DiscoveryProblem::Duplicate(handler.name.clone()));
        }
        problems.extend(problems_of(handler));
        match Handler::try_from(handler) {
            Err(ApiVersionError(api_version)) => {
                problems.push(DiscoveryProblem::ApiVersion {
                    handler: handler.name.clone(),
                    api_version,
                });
            }
            Ok(known) if catalog.knows(&known.hook) => discovered.handlers.push(known),
            Ok(Handler { hook, .. }) => {
                let problem = unknown_hook(handler, &hook);
                match unknown {
                    UnknownHooks::Refuse => problems.push(problem),
                    UnknownHooks::Skip => discovered.skipped.push(problem),
                }
            }
        }
    }
    if !problems.is_empty() {
        problems.sort();
        return Err(InvalidDiscovery(problems));
    }
    discovered.handlers.sort_by(|a, b| a.name.cmp(&b.name));
    discovered.skipped.sort();
    Ok(discovered)
}

/// The errors in one handler.
fn problems_of(handler: &ExtensionHandler) -> impl Iterator<Item = DiscoveryProblem> {
    let name = || handler.name.clone();
    let bad_name = (!wire::is_dns_label(&handler.name)).then(|| DiscoveryProblem::Name(name()));
    let bad_timeout = handler
        .timeout_seconds
        .filter(|seconds| !(0..=TIMEOUT_SECONDS_MAX).contains(seconds))
        .map(|seconds| DiscoveryProblem::Timeout {
            handler: name(),
            seconds,
        });
    let bad_policy = match &handler.failure_policy {
        Some(FailurePolicy::Other(policy)) => Some(DiscoveryProblem::FailurePolicy {
            handler: name(),
            policy: policy.clone(),
        }),
        Some(FailurePolicy::Fail | FailurePolicy::Ignore) | None => None,
    };
    [bad_name, bad_timeout, bad_policy].into_iter().flatten()
}

fn unknown_hook(handler: &ExtensionHandler, hook: &HookId) -> DiscoveryProblem {
    DiscoveryProblem::UnknownHook {
        handler: handler.name.clone(),
        api_version: handler.request_hook.api_version.clone(),
        hook: hook.hook.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::{
        client::OnError,
        hooks::{BeforeClusterCreate, Hook},
    };

    fn judge(handlers: &Value, unknown: UnknownHooks) -> Result<Discovered, Vec<DiscoveryProblem>> {
        let response = wire::from_value(json!({ "status": "Success", "handlers": handlers })).unwrap();
        validate(&response, &Catalog::cluster_api(), unknown).map_err(|InvalidDiscovery(problems)| problems)
    }

    fn handler(change: &Value) -> Value {
        let mut handler = json!({
            "name": "extension",
            "requestHook": {
                "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate",
            },
        });
        json_merge(&mut handler, change);
        handler
    }

    fn json_merge(into: &mut Value, change: &Value) {
        for (key, value) in change.as_object().unwrap() {
            into[key] = value.clone();
        }
    }

    /// DISC-1.
    #[test]
    fn what_is_left_out_is_ten_seconds_and_fail() {
        let expected = Handler {
            name: "extension".to_owned(),
            hook: BeforeClusterCreate::id(),
            timeout: Duration::from_secs(10),
            on_error: OnError::Fail,
        };
        for change in [
            json!({}),
            json!({ "timeoutSeconds": null, "failurePolicy": null }),
            json!({ "timeoutSeconds": 0, "failurePolicy": "Fail" }),
        ] {
            let discovered = judge(&json!([handler(&change)]), UnknownHooks::Refuse).unwrap();
            assert_eq!(
                discovered,
                Discovered {
                    handlers: vec![expected.clone()],
                    skipped: vec![]
                }
            );
        }
        let given = judge(
            &json!([handler(
                &json!({ "timeoutSeconds": 30, "failurePolicy": "Ignore" })
            )]),
            UnknownHooks::Refuse,
        );
        let expected = Handler {
            timeout: Duration::from_secs(30),
            on_error: OnError::Ignore,
            ..expected
        };
        assert_eq!(given.unwrap().handlers, [expected]);
    }

    /// DISC-2 to DISC-9.
    #[test]
    fn each_thing_that_is_wrong_is_named() {
        let name = || "extension".to_owned();
        let hook = |api_version: &str, hook: &str| json!({ "requestHook": { "apiVersion": api_version, "hook": hook } });
        let unknown = |api_version: &str, hook: &str| DiscoveryProblem::UnknownHook {
            handler: name(),
            api_version: api_version.to_owned(),
            hook: hook.to_owned(),
        };
        let api_version = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
        for (change, expected) in [
            (
                json!({ "name": "HAS-CAPITALS" }),
                DiscoveryProblem::Name("HAS-CAPITALS".into()),
            ),
            (
                json!({ "name": "has.dots" }),
                DiscoveryProblem::Name("has.dots".into()),
            ),
            (json!({ "name": "" }), DiscoveryProblem::Name(String::new())),
            (
                json!({ "timeoutSeconds": 100 }),
                DiscoveryProblem::Timeout {
                    handler: name(),
                    seconds: 100,
                },
            ),
            (
                json!({ "timeoutSeconds": -1 }),
                DiscoveryProblem::Timeout {
                    handler: name(),
                    seconds: -1,
                },
            ),
            (
                json!({ "failurePolicy": "DONOTHING" }),
                DiscoveryProblem::FailurePolicy {
                    handler: name(),
                    policy: "DONOTHING".into(),
                },
            ),
            (
                json!({ "failurePolicy": "" }),
                DiscoveryProblem::FailurePolicy {
                    handler: name(),
                    policy: String::new(),
                },
            ),
            (
                hook("hooks.runtime.cluster.x-k8s.io/v99", "BeforeClusterCreate"),
                unknown("hooks.runtime.cluster.x-k8s.io/v99", "BeforeClusterCreate"),
            ),
            (hook(api_version, "Other"), unknown(api_version, "Other")),
            (
                hook("v1", "BeforeClusterCreate"),
                unknown("v1", "BeforeClusterCreate"),
            ),
            (json!({ "requestHook": null }), unknown("", "")),
            (
                hook("a/b/c", "BeforeClusterCreate"),
                DiscoveryProblem::ApiVersion {
                    handler: name(),
                    api_version: "a/b/c".into(),
                },
            ),
        ] {
            assert_eq!(
                judge(&json!([handler(&change)]), UnknownHooks::Refuse),
                Err(vec![expected])
            );
        }
        let twice = json!([handler(&json!({})), handler(&hook(api_version, "UpdateMachine"))]);
        assert_eq!(
            judge(&twice, UnknownHooks::Refuse),
            Err(vec![DiscoveryProblem::Duplicate(name())])
        );
        let many: Vec<Value> = (0..513)
            .map(|n| handler(&json!({ "name": format!("h{n}") })))
            .collect();
        assert_eq!(
            judge(&json!(many), UnknownHooks::Refuse),
            Err(vec![DiscoveryProblem::TooMany(513)])
        );
    }

    #[test]
    fn problems_of_all_handlers_are_found_and_read_the_same_in_any_order() {
        let mut handlers = vec![
            handler(&json!({ "name": "B" })),
            handler(&json!({ "name": "a", "timeoutSeconds": 31 })),
        ];
        let message = |handlers: &[Value]| {
            InvalidDiscovery(judge(&json!(handlers), UnknownHooks::Refuse).unwrap_err()).to_string()
        };
        let expected = "the discovery response is not valid: [the name of handler \"B\" is not a DNS label, \
                        timeoutSeconds of handler \"a\" is 31, not between 0 and 30]";
        assert_eq!(message(&handlers), expected);
        handlers.reverse();
        assert_eq!(message(&handlers), expected);
    }

    #[test]
    fn unknown_hooks_can_be_skipped_and_handlers_are_sorted() {
        let foreign =
            json!({ "name": "c", "requestHook": { "apiVersion": "my.example.com/v1", "hook": "Mine" } });
        let handlers = json!([
            handler(&json!({ "name": "b" })),
            handler(&foreign),
            handler(&json!({ "name": "a" }))
        ]);
        let discovered = judge(&handlers, UnknownHooks::Skip).unwrap();
        let names: Vec<&str> = discovered
            .handlers
            .iter()
            .map(|handler| handler.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        let expected = DiscoveryProblem::UnknownHook {
            handler: "c".into(),
            api_version: "my.example.com/v1".into(),
            hook: "Mine".into(),
        };
        assert_eq!(discovered.skipped, [expected]);
    }
}
