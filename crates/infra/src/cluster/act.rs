//! Brings a cluster about, or lets it go. Everything here may be repeated.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use nephele_api::finalizers;
use nephele_api::infrastructure::v1beta2::{ControlPlaneEndpoint, InMemoryCluster};
use nephele_cloud::{Authorities, Authority, AuthorityError, ClusterError, ClusterId, Endpoint};
use nephele_kit::{Outcome, PatchError, Precondition, patch};

use super::credentials;
use super::validate::Wanted;
use crate::context::Context;

/// What came of it.
pub(super) struct Applied {
    pub(super) endpoint: Result<Endpoint, ClusterError>,
    pub(super) certificates: Certificates,
}

/// What came of the cluster's certificate authorities.
pub(super) enum Certificates {
    /// Their Secrets are not there yet.
    Missing,
    /// They are in use.
    InUse,
    /// One cannot be used; the message says which and why.
    Invalid(String),
}

impl Applied {
    pub(super) fn outcome(&self) -> Outcome {
        match &self.endpoint {
            Err(error) => super::retry_after(error),
            Ok(_) => match self.certificates {
                Certificates::Missing => Outcome::WaitingOn("certificates"),
                Certificates::Invalid(_) => Outcome::WaitingOn("valid certificates"),
                Certificates::InUse => Outcome::Done,
            },
        }
    }
}

fn api(object: &InMemoryCluster, context: &Context) -> Api<InMemoryCluster> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

pub(super) async fn provide(
    object: &InMemoryCluster,
    context: &Context,
    wanted: Wanted,
) -> Result<Applied, PatchError> {
    let api = api(object, context);
    // Before anything comes to be that would have to be cleaned up.
    let held = patch::add_finalizer(&api, object, finalizers::CLUSTER).await?;
    let object = held.as_ref().unwrap_or(object);

    let id = wanted.spec.id.clone();
    let endpoint = context.cloud.ensure_cluster(wanted.spec.clone());
    if let Ok(endpoint) = &endpoint {
        // Before the object says that it is provisioned.
        if !object.is_provisioned() && wanted.ca.is_none() {
            credentials::prepare(object, context, &wanted.cluster, endpoint).await;
        }
        let mut published = object.clone();
        published.spec.control_plane_endpoint =
            Some(ControlPlaneEndpoint { host: endpoint.host.clone(), port: i32::from(endpoint.port) });
        patch::object(&api, object, &published, Precondition::None).await?;
    }
    let certificates = match &endpoint {
        Ok(_) => hand_over(context, &id, &wanted).await,
        Err(_) => Certificates::Missing,
    };
    Ok(Applied { endpoint, certificates })
}

/// Hands the cloud the authorities, unless it has them already.
async fn hand_over(context: &Context, id: &ClusterId, wanted: &Wanted) -> Certificates {
    // Workers of clusters without an etcd authority (external etcd) need none.
    let Some(ca) = &wanted.ca else { return Certificates::Missing };
    let version = |secret: &Secret| secret.resource_version().unwrap_or_default();
    let versions = format!("{}/{}", version(ca), wanted.etcd.as_deref().map(version).unwrap_or_default());
    let mut handed = context.handed.lock().await;
    if handed.get(id) == Some(&versions) {
        return Certificates::InUse;
    }
    let authorities = (|| {
        let etcd = wanted.etcd.as_deref().map(authority).transpose()?;
        Ok::<_, String>(Authorities { cluster: authority(ca)?, etcd })
    })();
    let taken = authorities.and_then(|authorities| {
        context.cloud.set_authorities(id, authorities).map_err(|error| nephele_kit::chain(&error))
    });
    match taken {
        Ok(()) => {
            handed.insert(id.clone(), versions);
            Certificates::InUse
        }
        Err(message) => Certificates::Invalid(message),
    }
}

/// Reads an authority out of a Secret; the error names the Secret and never shows what is in it.
fn authority(secret: &Secret) -> Result<Authority, String> {
    let name = secret.name_any();
    let field = |key: &str| {
        let data = secret.data.as_ref().and_then(|data| data.get(key));
        data.map(|ByteString(bytes)| bytes.as_slice()).ok_or_else(|| format!("Secret {name} has no {key}"))
    };
    let (certificate, key) = (field("tls.crt")?, field("tls.key")?);
    Authority::from_pem(certificate, key)
        .map_err(|error: AuthorityError| format!("Secret {name}: {}", nephele_kit::chain(&error)))
}

pub(super) async fn remove(
    object: &InMemoryCluster,
    context: &Context,
    id: Option<&ClusterId>,
) -> Result<(), PatchError> {
    if let Some(id) = id {
        context.cloud.delete_cluster(id);
        context.handed.lock().await.remove(id);
    }
    patch::remove_finalizer(&api(object, context), object, finalizers::CLUSTER).await.map(drop)
}
