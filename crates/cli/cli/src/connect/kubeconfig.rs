//! Kubeconfigs as text: that of a forwarded cluster, and the user's file with and without it. Pure.
//!
//! The user's file is handled as YAML values, so whatever else it contains stays. Each of our clusters has an extension, which
//! tells our entries from those of other programs.

use std::net::SocketAddr;

use serde_yaml_ng::{Mapping, Value};

use crate::published::{Published, PublishedError};

/// The extension of each cluster that we write.
const EXTENSION: &str = "nephele.dev/connect";

/// The lists of a kubeconfig. An entry of ours has the same name in all of them.
const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];

/// Why a kubeconfig cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum KubeconfigError {
    #[error("failed to use the kubeconfig of its Secret")]
    Published(#[source] PublishedError),
    #[error("failed to read the YAML")]
    Yaml(#[source] serde_yaml_ng::Error),
    #[error("not a kubeconfig: {0}")]
    Shape(&'static str),
    #[error("there is another cluster, user or context {0} already, which is not of `nephele connect`")]
    Taken(String),
}

/// A forwarded cluster in a kubeconfig.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// Of cluster, user and context.
    pub(super) name: String,
    server: String,
    cluster: Mapping,
    user: Mapping,
}

impl Entry {
    /// The entry of a cluster with this kubeconfig, reached at an address of this machine.
    pub(super) fn new(kubeconfig: &str, name: &str, address: SocketAddr) -> Result<Self, KubeconfigError> {
        let published = Published::read(kubeconfig).map_err(KubeconfigError::Published)?;
        // The certificates of workload clusters are valid for this address.
        let server = format!("https://{address}");
        let mut cluster = mapping([("server", server.as_str().into())]);
        if let Some(authority) = published.authority {
            cluster.insert("certificate-authority-data".into(), authority.into());
        }
        let credentials = published.credentials.into_iter();
        let user = credentials
            .map(|(field, value)| (field.into(), value.into()))
            .collect();
        Ok(Self {
            name: name.to_owned(),
            server,
            cluster,
            user,
        })
    }

    /// A kubeconfig that has only this cluster.
    pub(super) fn alone(&self) -> Result<String, KubeconfigError> {
        let mut document = empty();
        self.insert(&mut document, None)?;
        document.insert("current-context".into(), self.name.as_str().into());
        write(&document)
    }

    /// The kubeconfig with this cluster. Its current context stays.
    pub(super) fn merged_into(&self, kubeconfig: &str) -> Result<String, KubeconfigError> {
        let mut document = read(kubeconfig)?;
        if owner(&document, &self.name) == Owner::Other {
            return Err(KubeconfigError::Taken(self.name.clone()));
        }
        remove(&mut document, &self.name);
        let current = document
            .get("current-context")
            .and_then(Value::as_str)
            .map(str::to_owned);
        self.insert(&mut document, current.as_deref())?;
        write(&document)
    }

    fn insert(&self, document: &mut Mapping, current: Option<&str>) -> Result<(), KubeconfigError> {
        let mut cluster = self.cluster.clone();
        let extension = mapping([("previous-context", current.unwrap_or_default().into())]);
        let extension = mapping([("name", EXTENSION.into()), ("extension", extension.into())]);
        cluster.insert("extensions".into(), vec![Value::from(extension)].into());
        let context = mapping([
            ("cluster", self.name.as_str().into()),
            ("user", self.name.as_str().into()),
        ]);
        for ((list, kind), value) in
            LISTS
                .into_iter()
                .zip([cluster.into(), self.user.clone().into(), context.into()])
        {
            let entry = mapping([("name", self.name.as_str().into()), (kind, value)]);
            let list = document.entry(list.into()).or_insert(Value::Null);
            if list.is_null() {
                *list = Value::Sequence(Vec::new());
            }
            let list = list
                .as_sequence_mut()
                .ok_or(KubeconfigError::Shape("clusters, users and contexts are lists"))?;
            list.push(entry.into());
        }
        Ok(())
    }
}

/// The kubeconfig without these entries of ours; None when it has none of them. If one of them is the current context,
/// the one before is current again.
pub(super) fn without(kubeconfig: &str, entries: &[Entry]) -> Result<Option<String>, KubeconfigError> {
    let mut document = read(kubeconfig)?;
    let mut changed = false;
    for Entry { name, server, .. } in entries {
        // Another `nephele connect` may have replaced the entry by its own.
        if owner(&document, name) != Owner::Us(server.clone()) {
            continue;
        }
        let previous = previous_context(&document, name);
        remove(&mut document, name);
        if document.get("current-context").and_then(Value::as_str) == Some(name) {
            document.insert("current-context".into(), previous.into());
        }
        changed = true;
    }
    if changed {
        write(&document).map(Some)
    } else {
        Ok(None)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Owner {
    None,
    /// With the server's URL.
    Us(String),
    Other,
}

/// Who wrote the cluster, user and context of this name.
fn owner(document: &Mapping, name: &str) -> Owner {
    if let Some(cluster) = lookup(document, "clusters", name).and_then(|entry| entry.get("cluster"))
        && extension(cluster).is_some()
    {
        return Owner::Us(
            cluster
                .get("server")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        );
    }
    let exists = LISTS
        .iter()
        .any(|(list, _)| lookup(document, list, name).is_some());
    if exists { Owner::Other } else { Owner::None }
}

fn previous_context(document: &Mapping, name: &str) -> String {
    let cluster = lookup(document, "clusters", name).and_then(|entry| entry.get("cluster"));
    let previous = cluster
        .and_then(extension)
        .and_then(|extension| extension.get("previous-context"));
    previous.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn extension(cluster: &Value) -> Option<&Value> {
    let extensions = cluster.get("extensions")?.as_sequence()?;
    let ours = extensions
        .iter()
        .find(|one| one.get("name").and_then(Value::as_str) == Some(EXTENSION))?;
    ours.get("extension")
}

fn remove(document: &mut Mapping, name: &str) {
    for (list, _) in LISTS {
        if let Some(list) = document.get_mut(list).and_then(Value::as_sequence_mut) {
            list.retain(|entry| entry.get("name").and_then(Value::as_str) != Some(name));
        }
    }
}

fn lookup<'a>(document: &'a Mapping, list: &str, name: &str) -> Option<&'a Value> {
    let list = document.get(list)?.as_sequence()?;
    list.iter()
        .find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
}

fn empty() -> Mapping {
    mapping([("apiVersion", "v1".into()), ("kind", "Config".into())])
}

fn read(text: &str) -> Result<Mapping, KubeconfigError> {
    match serde_yaml_ng::from_str(text).map_err(KubeconfigError::Yaml)? {
        Value::Null => Ok(empty()),
        Value::Mapping(document) => Ok(document),
        _ => Err(KubeconfigError::Shape("it is not an object")),
    }
}

fn write(document: &Mapping) -> Result<String, KubeconfigError> {
    serde_yaml_ng::to_string(document).map_err(KubeconfigError::Yaml)
}

fn mapping<const N: usize>(entries: [(&str, Value); N]) -> Mapping {
    entries
        .into_iter()
        .map(|(key, value)| (Value::from(key), value))
        .collect()
}

#[cfg(test)]
mod tests;
