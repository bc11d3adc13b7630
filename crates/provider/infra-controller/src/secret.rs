//! Secrets with certificate authorities, without any other data of Secrets.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use k8s_openapi::{ByteString, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, ResourceExt as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A Secret of which only a certificate and its private key are kept, and only if its name is that of a cluster's
/// authority. Kubeconfigs, bootstrap data and all other data that Cluster API keeps in Secrets are dropped during
/// deserialization.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct AuthoritySecret {
    metadata: ObjectMeta,
    pub(crate) certificate: Option<ByteString>,
    pub(crate) key: Option<ByteString>,
}

impl AuthoritySecret {
    /// The Secret of the authority over the API server and its clients (Cluster API, `util/secret/consts.go`).
    pub(crate) fn cluster_name(cluster: &str) -> String {
        format!("{cluster}-ca")
    }

    /// The Secret of the authority over etcd.
    pub(crate) fn etcd_name(cluster: &str) -> String {
        format!("{cluster}-etcd")
    }

    /// Whether its name is that of an authority.
    pub(crate) fn is_named_so(name: &str) -> bool {
        name.ends_with("-ca") || name.ends_with("-etcd")
    }

    /// The uid and the resourceVersion: they differ whenever the content differs.
    pub(crate) fn version(&self) -> String {
        format!(
            "{}/{}",
            self.uid().unwrap_or_default(),
            self.resource_version().unwrap_or_default()
        )
    }
}

impl<'de> Deserialize<'de> for AuthoritySecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            metadata: ObjectMeta,
            #[serde(default)]
            data: Option<Data>,
        }
        #[derive(Default, Deserialize)]
        struct Data {
            #[serde(rename = "tls.crt", default)]
            certificate: Option<ByteString>,
            #[serde(rename = "tls.key", default)]
            key: Option<ByteString>,
        }
        let Wire { metadata, data } = Wire::deserialize(deserializer)?;
        let ObjectMeta {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            ..
        } = metadata;
        let wanted = name.as_deref().is_some_and(Self::is_named_so);
        let Data { certificate, key } = data.filter(|_| wanted).unwrap_or_default();
        let metadata = ObjectMeta {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            ..ObjectMeta::default()
        };
        Ok(Self {
            metadata,
            certificate,
            key,
        })
    }
}

impl Serialize for AuthoritySecret {
    /// Never the key: what is read is not written.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        BTreeMap::from([("metadata", &self.metadata)]).serialize(serializer)
    }
}

impl fmt::Debug for AuthoritySecret {
    /// Never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthoritySecret")
            .field("name", &self.metadata.name)
            .finish_non_exhaustive()
    }
}

impl Resource for AuthoritySecret {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(&(): &()) -> Cow<'_, str> {
        "Secret".into()
    }

    fn group(&(): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version(&(): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(&(): &()) -> Cow<'_, str> {
        "secrets".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(name: &str) -> AuthoritySecret {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": { "name": name, "namespace": "default", "annotations": { "a": "b" } },
            "data": { "tls.crt": "Y2VydA==", "tls.key": "a2V5", "value": "c2VjcmV0" },
        }))
        .expect("a Secret")
    }

    #[test]
    fn only_authorities_are_kept() {
        let bytes = |text: &str| Some(ByteString(text.as_bytes().to_vec()));
        for name in ["demo-ca", "demo-etcd"] {
            let secret = read(name);
            assert_eq!(
                (secret.certificate, secret.key),
                (bytes("cert"), bytes("key")),
                "{name}"
            );
        }
        for name in ["demo-sa", "demo-proxy", "demo-kubeconfig", "demo-md-0-x7k2f"] {
            let secret = read(name);
            assert_eq!((secret.certificate, secret.key), (None, None), "{name}");
            assert_eq!(secret.metadata.annotations, None, "{name}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        assert_eq!(
            format!("{:?}", read("demo-ca")),
            r#"AuthoritySecret { name: Some("demo-ca"), .. }"#
        );
    }
}
