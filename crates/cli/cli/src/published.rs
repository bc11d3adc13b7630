//! The kubeconfig of a workload cluster, as a Secret has it. Pure.
//!
//! Whoever may write Secrets in one namespace writes it, and people then use it with their own programs, which run what
//! `exec` names and read the files that it names. So only fields of a list are taken.

use serde_json::{Map, Value};

/// The longest kubeconfig. Those of Cluster API have some 6 KiB; a parser takes a few milliseconds for this much.
const BYTES_MAX: usize = 64 * 1024;
/// A kubeconfig nests five levels deep, and one with extensions a few more.
const DEPTH_MAX: usize = 32;
/// The longest text of an error, which may quote the kubeconfig.
const REASON_MAX: usize = 200;

const AUTHORITY: &str = "certificate-authority-data";
/// What is taken of a user.
const OF_USER: [&str; 3] = ["client-certificate-data", "client-key-data", "token"];
/// What is taken of a cluster.
const OF_CLUSTER: [&str; 2] = ["server", AUTHORITY];

/// Fields of a user that start a program, or read a file of the person who uses the kubeconfig.
const DANGERS_OF_USER: [&str; 5] = [
    "exec",
    "auth-provider",
    "tokenFile",
    "client-certificate",
    "client-key",
];
/// Fields of a cluster that read such a file, or let anybody be the server.
const DANGERS_OF_CLUSTER: [&str; 2] = ["certificate-authority", "insecure-skip-tls-verify"];

/// Why a kubeconfig of a Secret is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PublishedError {
    #[error("it has more than {BYTES_MAX} bytes")]
    TooLong,
    #[error("failed to read the YAML: {0}")]
    Yaml(String),
    #[error("not a kubeconfig: {0}")]
    Shape(&'static str),
    #[error("its {place} has {field}, which a kubeconfig of a workload cluster must not have")]
    Dangerous { place: &'static str, field: String },
}

/// What is taken of a kubeconfig's current context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// The URL of the API server.
    pub(crate) server: String,
    /// The authority of the API server, in base 64.
    pub(crate) authority: Option<String>,
    /// How the user authenticates: some of the fields of [`OF_USER`].
    pub(crate) credentials: Vec<(&'static str, String)>,
}

impl Published {
    /// Takes the fields of the list from the current context. Other fields are left out.
    ///
    /// # Errors
    /// When it is no kubeconfig, or has a field that could harm the person who uses it.
    pub(crate) fn read(text: &str) -> Result<Self, PublishedError> {
        let document = parse(text)?;
        let current = document.get("current-context").and_then(Value::as_str);
        let current = current.ok_or(PublishedError::Shape("it has no current-context"))?;
        let context = named(&document, "contexts", "context", current)?;
        let of = |kind| context.get(kind).and_then(Value::as_str).unwrap_or_default();
        let cluster = named(&document, "clusters", "cluster", of("cluster"))?;
        let user = named(&document, "users", "user", of("user"))?;
        refuse(cluster, "cluster", &DANGERS_OF_CLUSTER)?;
        refuse(user, "user", &DANGERS_OF_USER)?;
        let server = taken(cluster, "server")?.ok_or(PublishedError::Shape("its cluster has no server"))?;
        let mut credentials = Vec::new();
        for field in OF_USER {
            credentials.extend(taken(user, field)?.map(|value| (field, value)));
        }
        Ok(Self {
            server,
            authority: taken(cluster, AUTHORITY)?,
            credentials,
        })
    }

    /// The same of a kubeconfig that is used as it is. It may have no other field, in no cluster and of no user.
    ///
    /// # Errors
    /// When it is no kubeconfig, or has a field that is not in the list.
    pub(crate) fn read_whole(text: &str) -> Result<Self, PublishedError> {
        let document = parse(text)?;
        let has_only = |place, map: &Map<String, Value>, allowed: &[&str]| {
            let other = map.keys().find(|field| !allowed.contains(&field.as_str()));
            other.map_or(Ok(()), |field| Err(dangerous(place, field)))
        };
        has_only(
            "top level",
            &document,
            &[
                "apiVersion",
                "kind",
                "preferences",
                "clusters",
                "users",
                "contexts",
                "current-context",
            ],
        )?;
        for (list, kind, allowed) in [
            ("clusters", "cluster", &OF_CLUSTER[..]),
            ("users", "user", &OF_USER),
            ("contexts", "context", &["cluster", "user", "namespace"]),
        ] {
            let items = document.get(list).and_then(Value::as_array);
            for item in items.ok_or(PublishedError::Shape("clusters, users and contexts are lists"))? {
                let item = item
                    .as_object()
                    .ok_or(PublishedError::Shape("an item of a list is no object"))?;
                has_only(kind, item, &["name", kind])?;
                let fields = item.get(kind).and_then(Value::as_object);
                has_only(
                    kind,
                    fields.ok_or(PublishedError::Shape("an item of a list is empty"))?,
                    allowed,
                )?;
            }
        }
        let preferences = document.get("preferences").and_then(Value::as_object);
        has_only("preferences", preferences.unwrap_or(&Map::new()), &[])?;
        Self::read(text)
    }
}

fn parse(text: &str) -> Result<Map<String, Value>, PublishedError> {
    if text.len() > BYTES_MAX {
        return Err(PublishedError::TooLong);
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(Value::Object(document)) => Ok(document),
        Ok(_) => Err(PublishedError::Shape("it is not an object")),
        Err(error) => Err(PublishedError::Yaml(printable(&error.to_string()))),
    }
}

/// A text without what would change the terminal.
fn printable(text: &str) -> String {
    text.chars()
        .take(REASON_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn named<'a>(
    document: &'a Map<String, Value>,
    list: &str,
    kind: &str,
    name: &str,
) -> Result<&'a Map<String, Value>, PublishedError> {
    let mut items = document.get(list).and_then(Value::as_array).into_iter().flatten();
    let found = items.find(|item| item.get("name").and_then(Value::as_str) == Some(name));
    let found = found.and_then(|item| item.get(kind)?.as_object());
    found.ok_or(PublishedError::Shape(
        "its current context names a cluster or user that it does not have",
    ))
}

fn refuse(map: &Map<String, Value>, place: &'static str, dangers: &[&str]) -> Result<(), PublishedError> {
    let harmless = |value: &Value| matches!(value, Value::Null | Value::Bool(false));
    let danger = dangers
        .iter()
        .find(|field| map.get(**field).is_some_and(|value| !harmless(value)));
    danger.map_or(Ok(()), |field| Err(dangerous(place, field)))
}

fn dangerous(place: &'static str, field: &str) -> PublishedError {
    PublishedError::Dangerous {
        place,
        field: printable(field),
    }
}

/// A field that is a text, or is not there.
fn taken(map: &Map<String, Value>, field: &str) -> Result<Option<String>, PublishedError> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(PublishedError::Shape(
            "a field of its cluster or user is not a text",
        )),
    }
}

#[cfg(test)]
mod tests;
