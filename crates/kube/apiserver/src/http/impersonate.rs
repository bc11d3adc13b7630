//! Impersonation: `kubectl --as` (`apiserver/pkg/endpoints/filters/impersonation.go`).

use std::collections::BTreeMap;

use http::HeaderMap;

use super::{request::percent_decode, server::UserInfo, status::ApiError};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The group that may do everything, impersonation included. There are no roles, so no other client may impersonate.
const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";

/// The user on whose behalf a request is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) user: UserInfo,
    pub(crate) uid: String,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl Requester {
    /// The user that the connection proved, or a fixed one if the server does not authenticate.
    fn authenticated(user: Option<UserInfo>) -> Self {
        // The user of the insecure port that Kubernetes once had.
        let mut user = user.unwrap_or_else(|| UserInfo {
            name: "system:unsecured".to_owned(),
            groups: vec![MASTERS.to_owned()],
        });
        add(&mut user.groups, AUTHENTICATED);
        Self {
            user,
            ..Self::default()
        }
    }
}

/// The user on whose behalf a request is answered: the user of the connection, or the one that the headers name if the
/// user of the connection may impersonate.
///
/// # Errors
/// When the user may not impersonate, or the headers name groups or other attributes without a user.
pub(crate) fn requester(user: Option<UserInfo>, headers: &HeaderMap) -> Result<Requester, ApiError> {
    let real = Requester::authenticated(user);
    let asked = asked(headers)?;
    let Some(mut asked) = asked else { return Ok(real) };
    if !real.user.groups.iter().any(|group| group == MASTERS) {
        let (resource, name) = resource_of(&asked.user.name);
        let message = format!(
            "{resource} {name:?} is forbidden: User {:?} cannot impersonate resource {resource:?} in API group \"\" {}",
            real.user.name,
            match service_account(&asked.user.name) {
                Some((namespace, _)) => format!("in the namespace {namespace:?}"),
                None => "at the cluster scope".to_owned(),
            }
        );
        return Err(ApiError::forbidden("", resource, name, message));
    }
    if let (Some((namespace, _)), true) = (service_account(&asked.user.name), asked.user.groups.is_empty()) {
        asked.user.groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
    }
    if asked.user.name == "system:anonymous" {
        add(&mut asked.user.groups, "system:unauthenticated");
    } else {
        add(&mut asked.user.groups, AUTHENTICATED);
    }
    Ok(asked)
}

/// The user that the headers name.
fn asked(headers: &HeaderMap) -> Result<Option<Requester>, ApiError> {
    let text = |name: &str| {
        headers
            .get(name)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .unwrap_or_default()
    };
    let texts = |values: http::header::GetAll<'_, http::HeaderValue>| -> Vec<String> {
        values
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    };
    let mut asked = Requester {
        user: UserInfo {
            name: text(USER),
            groups: texts(headers.get_all(GROUP)),
        },
        uid: text(UID),
        extra: BTreeMap::new(),
    };
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = percent_decode(key).unwrap_or_else(|| key.to_owned());
            asked.extra.insert(key, texts(headers.get_all(name)));
        }
    }
    if !asked.user.name.is_empty() {
        return Ok(Some(asked));
    }
    if asked == Requester::default() {
        return Ok(None);
    }
    Err(ApiError::bad_request(format!(
        "requested groups {:?}, uid {:?} or extra attributes without impersonating a user",
        asked.user.groups, asked.uid
    )))
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("system:serviceaccount:")?.split_once(':')
}

fn resource_of(name: &str) -> (&'static str, &str) {
    match service_account(name) {
        Some((_, account)) => ("serviceaccounts", account),
        None => ("users", name),
    }
}

fn add(groups: &mut Vec<String>, group: &str) {
    if !groups.iter().any(|other| other == group) {
        groups.push(group.to_owned());
    }
}
