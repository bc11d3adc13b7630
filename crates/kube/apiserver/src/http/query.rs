//! Query parameters.

use std::time::Duration;

use http::StatusCode;

use super::{
    request::percent_decode,
    selector::{FieldSelector, LabelSelector},
    status::ApiError,
};

/// The options of list, watch and write requests that change the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) watch: bool,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: Option<u64>,
    pub(crate) exact: bool,
    pub(crate) allow_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) dry_run: bool,
    pub(crate) propagation: Option<String>,
    pub(crate) include_object: Option<String>,
    pub(crate) verbose: bool,
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: Option<String>,
    pub(crate) force: Option<bool>,
}

impl Options {
    pub(crate) fn parse(query: Option<&str>) -> Result<Self, ApiError> {
        let mut options = Self::default();
        let mut version_match = None;
        for (name, value) in pairs(query)? {
            match name.as_str() {
                "watch" => options.watch = truth(&value),
                "labelSelector" => options.labels = LabelSelector::parse(&value)?,
                "fieldSelector" => options.fields = FieldSelector::parse(&value)?,
                "limit" => options.limit = Some(number(&name, &value)?).filter(|&limit| limit > 0),
                "continue" => options.continue_token = Some(value).filter(|token| !token.is_empty()),
                "resourceVersion" if !value.is_empty() => {
                    options.resource_version = Some(value.parse().map_err(|_| {
                        ApiError::bad_request(format!("resourceVersion: Invalid value: {value:?}"))
                    })?);
                }
                "resourceVersionMatch" => version_match = Some(value),
                "allowWatchBookmarks" => options.allow_bookmarks = truth(&value),
                "sendInitialEvents" => options.send_initial_events = Some(truth(&value)),
                "timeoutSeconds" => {
                    let seconds: u64 = number(&name, &value)?;
                    // No deadline is more than a day away.
                    let timeout = Duration::from_secs(seconds.min(86_400));
                    options.timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
                }
                "dryRun" if value == "All" => options.dry_run = true,
                "dryRun" if !value.is_empty() => {
                    return Err(ApiError::bad_request(format!(
                        "dryRun: Unsupported value: {value:?}"
                    )));
                }
                "propagationPolicy" => options.propagation = Some(value),
                "includeObject" => options.include_object = Some(value),
                "verbose" => options.verbose = true,
                "fieldManager" => options.field_manager = Some(value),
                "fieldValidation" => options.field_validation = Some(value),
                "force" => options.force = Some(truth(&value)),
                _ => {}
            }
        }
        options.exact = version_match.as_deref() == Some("Exact");
        options.check(version_match.as_deref())?;
        Ok(options)
    }

    /// Refuses options that exclude each other (`apimachinery/pkg/apis/meta/internalversion/validation`).
    fn check(&self, version_match: Option<&str>) -> Result<(), ApiError> {
        let forbidden = |field: &str, detail: &str| {
            Err(ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: Forbidden: {detail}"),
            ))
        };
        match (version_match, self.send_initial_events) {
            (Some(other), _) if !matches!(other, "Exact" | "NotOlderThan" | "") => Err(
                ApiError::bad_request(format!("resourceVersionMatch: Unsupported value: {other:?}")),
            ),
            (_, Some(_)) if !self.watch => {
                forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
            }
            (Some("NotOlderThan"), Some(_)) => Ok(()),
            (_, Some(_)) => forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (Some("Exact" | "NotOlderThan"), None) if self.watch => forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            (Some("Exact"), None) if self.resource_version.is_none_or(|version| version == 0) => forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            ),
            _ => Ok(()),
        }
    }
}

fn truth(value: &str) -> bool {
    // Go's conversion of query parameters: a parameter without a value is true.
    !matches!(value, "false" | "0")
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, ApiError> {
    value
        .parse()
        .map_err(|_| ApiError::bad_request(format!("{name}: Invalid value: {value:?}")))
}

/// Pairs of a query string, decoded; `+` is a space.
fn pairs(query: Option<&str>) -> Result<Vec<(String, String)>, ApiError> {
    let decode = |text: &str| {
        percent_decode(&text.replace('+', " "))
            .ok_or_else(|| ApiError::bad_request(format!("invalid escape in query parameter {text:?}")))
    };
    query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        })
        .collect()
}
