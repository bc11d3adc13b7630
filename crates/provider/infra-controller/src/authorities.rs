//! The certificate authorities of clusters: reading them from Secrets, and the result of the last read.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::ResourceExt as _;
use nephele_cloud::{Authorities, Authority, AuthorityError};
use nephele_model::ClusterId;
use parking_lot::Mutex;
use thiserror::Error;

use crate::secret::AuthoritySecret;

/// The Secrets that the authorities of a cluster are read from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sources<S> {
    pub(crate) cluster: S,
    /// None when etcd is external.
    pub(crate) etcd: Option<S>,
}

/// The state of a cluster's certificate authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthoritiesState {
    /// Their Secrets do not exist yet.
    Missing,
    /// They are in use.
    InUse,
    /// One of them cannot be used; the message says which and why.
    Invalid(String),
}

/// Why a Secret holds no certificate authority. The message names the Secret and shows none of its content.
#[derive(Debug, Error)]
pub(crate) enum InvalidAuthority {
    /// A key of the Secret's data is missing or empty.
    #[error("Secret {secret} has no {key}")]
    Absent { secret: String, key: &'static str },
    /// The key of the authority is kept elsewhere, as in kubeadm's mode with an external one. Nothing can be signed with it,
    /// and machines have no certificates of the user's own.
    #[error(
        "Secret {secret} has no tls.key: a certificate authority whose key is elsewhere cannot be used, because the \
         simulated API servers need certificates of it"
    )]
    External { secret: String },
    /// The data is not a usable certificate authority.
    #[error("Secret {secret} holds no usable certificate authority")]
    Unusable {
        secret: String,
        /// What is wrong with it.
        #[source]
        source: AuthorityError,
    },
}

impl<S: AsRef<AuthoritySecret>> Sources<S> {
    /// The versions of the Secrets.
    pub(crate) fn versions(&self) -> String {
        let etcd = self.etcd.as_ref().map(|etcd| etcd.as_ref().version());
        format!("{} {}", self.cluster.as_ref().version(), etcd.unwrap_or_default())
    }

    /// Reads the authorities. An etcd Secret without a private key belongs to an external etcd.
    pub(crate) fn read(&self) -> Result<Authorities, InvalidAuthority> {
        let etcd = self
            .etcd
            .as_ref()
            .map(AsRef::as_ref)
            .filter(|etcd| !is_empty(etcd.key.as_ref()));
        Ok(Authorities {
            cluster: authority(self.cluster.as_ref())?,
            etcd: etcd.map(authority).transpose()?,
        })
    }
}

/// Reads the authority that a Secret holds.
pub(crate) fn authority(secret: &AuthoritySecret) -> Result<Authority, InvalidAuthority> {
    let name = || secret.name_any();
    let Some(certificate) = &secret.certificate else {
        return Err(InvalidAuthority::Absent {
            secret: name(),
            key: "tls.crt",
        });
    };
    let Some(key) = secret.key.as_ref().filter(|key| !key.0.is_empty()) else {
        return Err(InvalidAuthority::External { secret: name() });
    };
    Authority::from_pem(&certificate.0, &key.0).map_err(|source| InvalidAuthority::Unusable {
        secret: name(),
        source,
    })
}

fn is_empty(bytes: Option<&ByteString>) -> bool {
    bytes.is_none_or(|bytes| bytes.0.is_empty())
}

/// The state of each cluster's authorities, with the versions of the Secrets that were read, so that keys are not
/// parsed at each reconcile. An entry is removed with its cluster. Owned by the cluster reconciler.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<ClusterId, (String, AuthoritiesState)>>);

impl Ledger {
    /// The state for these versions of the Secrets, if they were tried last.
    pub(crate) fn known(&self, id: &ClusterId, versions: &str) -> Option<AuthoritiesState> {
        let entries = self.0.lock();
        entries
            .get(id)
            .filter(|(tried, _)| tried == versions)
            .map(|(_, state)| state.clone())
    }

    /// Stores the state after a try; returns whether the state changed.
    pub(crate) fn note(&self, id: &ClusterId, versions: String, state: &AuthoritiesState) -> bool {
        let before = self.0.lock().insert(id.clone(), (versions, state.clone()));
        before.is_none_or(|(_, before)| before != *state)
    }

    /// Why the authorities of a cluster cannot be used, if they were tried.
    pub(crate) fn fault(&self, id: &ClusterId) -> Option<String> {
        match self.0.lock().get(id) {
            Some((_, AuthoritiesState::Invalid(message))) => Some(message.clone()),
            Some((_, AuthoritiesState::InUse | AuthoritiesState::Missing)) | None => None,
        }
    }

    pub(crate) fn forget(&self, id: &ClusterId) {
        self.0.lock().remove(id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(name: &str, data: &serde_json::Value) -> Box<AuthoritySecret> {
        let metadata = json!({ "name": name, "uid": "u", "resourceVersion": "1" });
        serde_json::from_value(json!({ "metadata": metadata, "data": data })).expect("a Secret")
    }

    #[test]
    fn a_bad_secret_is_named_and_its_content_is_not_shown() {
        let message = |data| {
            let sources = Sources {
                cluster: secret("demo-ca", &data),
                etcd: None,
            };
            nephele_controller::chain(&sources.read().expect_err("no authority"))
        };
        assert_eq!(message(json!({})), "Secret demo-ca has no tls.crt");
        let external = "Secret demo-ca has no tls.key: a certificate authority whose key is elsewhere cannot be used, \
                        because the simulated API servers need certificates of it";
        assert_eq!(message(json!({ "tls.crt": "Z2FyYmFnZQ==" })), external);
        assert_eq!(
            message(json!({ "tls.crt": "Z2FyYmFnZQ==", "tls.key": "" })),
            external
        );
        let garbage = message(json!({ "tls.crt": "Z2FyYmFnZQ==", "tls.key": "Z2FyYmFnZQ==" }));
        assert!(
            garbage.starts_with("Secret demo-ca holds no usable certificate authority: "),
            "{garbage}"
        );
        assert!(!garbage.contains("garbage"), "{garbage}");
    }

    #[test]
    fn only_the_versions_tried_last_are_known() {
        let ledger = Ledger::default();
        let id = ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        };
        let broken = AuthoritiesState::Invalid("broken".into());
        assert!(ledger.note(&id, "1".into(), &broken));
        assert!(!ledger.note(&id, "2".into(), &broken));
        assert_eq!(ledger.known(&id, "1"), None);
        assert_eq!(ledger.known(&id, "2"), Some(broken));
        assert_eq!(ledger.fault(&id), Some("broken".to_owned()));
        assert!(ledger.note(&id, "3".into(), &AuthoritiesState::InUse));
        assert_eq!(ledger.fault(&id), None);
        ledger.forget(&id);
        assert_eq!(ledger.known(&id, "3"), None);
    }
}
