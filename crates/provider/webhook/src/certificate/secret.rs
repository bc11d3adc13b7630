//! The Secret that all replicas share.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};

use super::material::Material;

/// The label of Nephele's Secrets. Other Secrets of the same name are not changed.
const OWNER: (&str, &str) = ("app.kubernetes.io/managed-by", "nephele");

/// A Secret as it was last read.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) material: Option<Material>,
    /// The object to replace; `None` when the Secret does not exist.
    object: Option<Secret>,
}

impl Seen {
    /// Whether the Secret does not belong to Nephele.
    pub(super) fn is_foreign(&self) -> bool {
        let (name, value) = OWNER;
        self.object.as_ref().is_some_and(|secret| {
            let labels = secret.metadata.labels.as_ref();
            labels
                .and_then(|labels| labels.get(name))
                .is_none_or(|known| known != value)
        })
    }
}

/// Reads the Secret.
pub(super) async fn read(client: &Client, namespace: &str, name: &str) -> Result<Seen, kube::Error> {
    let object = Api::<Secret>::namespaced(client.clone(), namespace)
        .get_opt(name)
        .await?;
    let material = object
        .as_ref()
        .and_then(|secret| Material::read(secret.data.as_ref()?));
    Ok(Seen { material, object })
}

/// Writes the material, unless the Secret has changed since it was read. Returns whether it was written.
pub(super) async fn write(
    client: &Client,
    namespace: &str,
    name: &str,
    seen: Seen,
    material: &Material,
) -> Result<bool, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let data: BTreeMap<String, ByteString> = material.write();
    let written = match seen.object {
        // The resourceVersion that was read is the precondition.
        Some(mut secret) => {
            secret.data = Some(data);
            secrets.replace(name, &PostParams::default(), &secret).await
        }
        None => {
            let (label, value) = OWNER;
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(name.to_owned()),
                    namespace: Some(namespace.to_owned()),
                    labels: Some(BTreeMap::from([(label.to_owned(), value.to_owned())])),
                    ..ObjectMeta::default()
                },
                type_: Some("Opaque".to_owned()),
                data: Some(data),
                ..Secret::default()
            };
            secrets.create(&PostParams::default(), &secret).await
        }
    };
    match written {
        Ok(_) => Ok(true),
        // 409 means a conflict, or that the Secret exists by now. 404 means that it is gone.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error),
    }
}
