//! The field manager of a request, and the query parameters about it.

use http::{HeaderMap, header};

use super::{query::Options, status::ApiError};
use crate::store::{Fault, StoreError};

/// The media type of server-side apply.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// How many bytes a manager's name may have (`apimachinery/pkg/apis/meta/v1/validation`).
const NAME_MAX: usize = 128;

const VALIDATIONS: [&str; 4] = ["", "Ignore", "Strict", "Warn"];

/// Checks the options of a write. `kind` is that of the options, such as `PatchOptions`.
///
/// # Errors
/// When a parameter has a wrong value, or does not fit the write.
pub(crate) fn check(options: &Options, kind: &str, is_apply: bool) -> Result<(), ApiError> {
    let mut faults = Vec::new();
    let manager = options.field_manager.as_deref().unwrap_or_default();
    if is_apply && manager.is_empty() {
        faults.push(Fault::required("fieldManager", "is required for apply patch"));
    }
    if !is_apply && kind == "PatchOptions" && options.force.is_some() {
        faults.push(Fault::forbidden(
            "force",
            "may not be specified for non-apply patch",
        ));
    }
    if manager.len() > NAME_MAX {
        faults.push(Fault {
            field: "fieldManager".to_owned(),
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {NAME_MAX} bytes"),
        });
    } else if let Some((at, character)) = manager
        .char_indices()
        .find(|(_, character)| character.is_control())
    {
        let detail = format!(
            "invalid character U+{:04X} (at position {at})",
            u32::from(character)
        );
        faults.push(Fault::invalid("fieldManager", &manager.into(), &detail));
    }
    let validation = options.field_validation.as_deref().unwrap_or_default();
    if !VALIDATIONS.contains(&validation) {
        faults.push(Fault {
            field: "fieldValidation".to_owned(),
            reason: "FieldValueNotSupported",
            message: format!(
                "Unsupported value: {}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
                crate::store::shown(&validation.into())
            ),
        });
    }
    if faults.is_empty() {
        return Ok(());
    }
    let group = "meta.k8s.io".to_owned();
    let name = String::new();
    Err(StoreError::Invalid {
        kind: kind.to_owned(),
        group,
        name,
        faults,
    }
    .into())
}

/// The name of the manager: the parameter, or the beginning of the user agent
/// (`apiserver/pkg/endpoints/handlers/create.go`).
pub(crate) fn name(options: &Options, headers: &HeaderMap) -> String {
    if let Some(manager) = options
        .field_manager
        .as_ref()
        .filter(|manager| !manager.is_empty())
    {
        return manager.clone();
    }
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|agent| agent.to_str().ok())
        .unwrap_or_default();
    let mut name = agent.split('/').next().unwrap_or_default().to_owned();
    name.truncate(name.floor_char_boundary(NAME_MAX));
    name
}

/// The answer to an apply of a subresource that only takes other patches.
pub(crate) fn apply_is_unsupported() -> ApiError {
    ApiError::unsupported_media_type(
        APPLY,
        "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json",
    )
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn agent(text: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, text.parse().unwrap());
        name(&Options::default(), &headers)
    }

    #[test]
    fn manager_is_the_beginning_of_the_user_agent() {
        assert_eq!(agent("kubectl/v1.36.0 (linux/amd64)"), "kubectl");
        assert_eq!(agent("curl"), "curl");
        assert_eq!(agent(&"a".repeat(200)).len(), 128);
        assert_eq!(name(&Options::default(), &HeaderMap::new()), "");
    }

    #[test]
    fn options_of_a_write_are_checked() {
        let with = |manager: &str| Options {
            field_manager: Some(manager.to_owned()),
            ..Options::default()
        };
        let message = |options: &Options, is_apply| {
            check(options, "PatchOptions", is_apply).map_err(|error| (error.code, error.message))
        };
        assert_eq!(message(&with("a"), true), Ok(()));
        let (code, text) = message(&Options::default(), true).unwrap_err();
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
        let expected = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
        assert_eq!(text, expected);
        assert!(message(&with(&"a".repeat(129)), true).is_err() && message(&with("a\n"), false).is_err());
        let forced = Options {
            force: Some(true),
            ..with("a")
        };
        assert!(message(&forced, false).is_err() && message(&forced, true).is_ok());
        let validation = |word: &str| Options {
            field_validation: Some(word.to_owned()),
            ..with("a")
        };
        assert!(
            message(&validation("Strict"), true).is_ok() && message(&validation("strict"), true).is_err()
        );
    }
}
