//! The credentials of a new cluster, made before its control plane provider makes them.
//!
//! Cluster API's cluster cache connects for the first time when a Cluster's infrastructure is provisioned, and then only
//! every 30 s. KubeadmControlPlane writes the kubeconfig some tenths of a second after that moment, so the first
//! attempt always fails and a cluster without any delay of its own still takes half a minute longer. Here the Secrets
//! are there before: in the names, types and forms that KubeadmControlPlane looks for, which adopts them as its own
//! (`ensureCertificatesOwnerRef` and `adoptKubeconfigSecret` in `controlplane/kubeadm/reconcilers` of cluster-api), as it
//! does with those that a user brings. Until then our object owns them, so that none outlives its cluster.
//!
//! Keys are P-256 unless the control plane asks for another algorithm: making an RSA key costs more than all else that
//! a simulated cluster needs.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Resource as _, ResourceExt as _};
use nephele_api::core::Cluster;
use nephele_api::infrastructure::v1beta2::InMemoryCluster;
use nephele_api::labels;
use nephele_cloud::{ClusterId, Endpoint};
use nephele_pki::{Authority, KeyAlgorithm, LeafRequest};
use serde_json::json;
use tracing::{debug, warn};

use crate::context::Context;

const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Ten years for authorities and one for the client, as KubeadmControlPlane's defaults are.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(10 * 365 * 86_400);
const CLIENT_VALIDITY: Duration = Duration::from_secs(365 * 86_400);

/// Makes what is missing, for a cluster whose control plane is a KubeadmControlPlane. Failing to is no failure of the
/// cluster: its control plane provider makes what is not there, only later.
pub(super) async fn prepare(
    object: &InMemoryCluster,
    context: &Context,
    cluster: &Cluster,
    endpoint: &Endpoint,
) {
    let Some(algorithm) = wanted_algorithm(context, cluster).await else { return };
    let id = ClusterId { namespace: object.namespace().unwrap_or_default(), name: cluster.name_any() };
    let secrets = match make(object, &id, endpoint, algorithm, context.now()) {
        Ok(secrets) => secrets,
        Err(message) => {
            warn!(cluster = %id, message, "Failed to prepare credentials");
            return;
        }
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &id.namespace);
    for secret in secrets {
        match api.create(&PostParams::default(), &secret).await {
            Ok(_) => debug!(cluster = %id, secret = secret.name_any(), "Prepared credentials"),
            // A user brought their own, the authority among them: nothing of ours fits to it.
            Err(kube::Error::Api(status)) if status.code == 409 => return,
            Err(error) => {
                warn!(cluster = %id, error = %nephele_kit::chain(&error), "Failed to prepare credentials");
                return;
            }
        }
    }
}

/// The key algorithm that the cluster's KubeadmControlPlane asks for; none when there is no such control plane, or it
/// asks for something that is left to it.
async fn wanted_algorithm(context: &Context, cluster: &Cluster) -> Option<KeyAlgorithm> {
    let reference = cluster.spec.control_plane_ref.as_ref()?;
    if reference.kind != "KubeadmControlPlane" {
        return None;
    }
    let kind = GroupVersionKind::gvk(&reference.api_group, "v1beta2", &reference.kind);
    let namespace = cluster.namespace().unwrap_or_default();
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client.clone(), &namespace, &ApiResource::from_gvk(&kind));
    let control_plane = match api.get_opt(&reference.name).await {
        Ok(found) => found?,
        Err(error) => {
            debug!(error = %nephele_kit::chain(&error), "Failed to read the control plane");
            return None;
        }
    };
    let configuration = &control_plane.data["spec"]["kubeadmConfigSpec"]["clusterConfiguration"];
    if configuration.get("caCertificateValidityPeriodDays").is_some() {
        return None;
    }
    match configuration["encryptionAlgorithm"].as_str() {
        None | Some("" | "ECDSA-P256") => Some(KeyAlgorithm::EcdsaP256),
        Some("ECDSA-P384") => Some(KeyAlgorithm::EcdsaP384),
        // RSA on request: left to who was asked.
        Some(_) => None,
    }
}

/// The Secrets, in the order in which they are to be created: the cluster's authority decides whether the others fit.
fn make(
    object: &InMemoryCluster,
    id: &ClusterId,
    endpoint: &Endpoint,
    algorithm: KeyAlgorithm,
    now: Timestamp,
) -> Result<Vec<Secret>, String> {
    let not_before = now - Duration::from_secs(300);
    let authority = || {
        Authority::generate("kubernetes", algorithm, not_before, now + AUTHORITY_VALIDITY)
            .map_err(|error| nephele_kit::chain(&error))
    };
    let pair = |purpose: &str, authority: &Authority| {
        let data = [("tls.crt", authority.certificate_pem()), ("tls.key", authority.key_pem())];
        secret(object, id, purpose, data)
    };
    let ca = authority()?;
    let kubeconfig = kubeconfig(id, endpoint, &ca, not_before, now)?;
    Ok(vec![
        pair("ca", &ca),
        pair("etcd", &authority()?),
        pair("proxy", &authority()?),
        secret(object, id, "kubeconfig", [("value", kubeconfig)]),
    ])
}

fn secret<const N: usize>(
    object: &InMemoryCluster,
    id: &ClusterId,
    purpose: &str,
    data: [(&str, String); N],
) -> Secret {
    let owner = OwnerReference {
        api_version: InMemoryCluster::api_version(&()).into_owned(),
        kind: InMemoryCluster::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("{}-{purpose}", id.name)),
            namespace: Some(id.namespace.clone()),
            labels: Some(BTreeMap::from([(labels::CLUSTER_NAME.to_owned(), id.name.clone())])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(
            data.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect(),
        ),
        ..Secret::default()
    }
}

/// A kubeconfig in the form of `util/kubeconfig` in cluster-api.
fn kubeconfig(
    id: &ClusterId,
    endpoint: &Endpoint,
    ca: &Authority,
    not_before: Timestamp,
    now: Timestamp,
) -> Result<String, String> {
    let client = LeafRequest {
        common_name: "kubernetes-admin".to_owned(),
        organizations: vec!["system:masters".to_owned()],
        dns_names: vec![],
        ip_addresses: vec![],
        server_auth: false,
        client_auth: true,
        not_before,
        not_after: now + CLIENT_VALIDITY,
        identity: format!("{id}/kubernetes-admin"),
    };
    let client = ca.issue(&client).map_err(|error| nephele_kit::chain(&error))?;
    let name = &id.name;
    let (user, host) = (format!("{name}-admin"), &endpoint.host);
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let context = format!("{user}@{name}");
    let bytes = |text: String| serde_json::to_value(ByteString(text.into_bytes())).unwrap_or_default();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": context,
        "clusters": [{"name": name, "cluster": {
            "server": format!("https://{host}:{}", endpoint.port),
            "certificate-authority-data": bytes(ca.certificate_pem())}}],
        "contexts": [{"name": context, "context": {"cluster": name, "user": user}}],
        "users": [{"name": user, "user": {
            "client-certificate-data": bytes(client.certificate_pem()),
            "client-key-data": bytes(client.key_pem())}}],
    });
    // JSON is YAML.
    Ok(config.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Vec<Secret> {
        let id = ClusterId { namespace: "default".into(), name: "demo".into() };
        let endpoint = Endpoint { host: "10.0.0.7".into(), port: 20000 };
        let now = Timestamp::from_second(1_700_000_000).expect("in range");
        let mut object = InMemoryCluster::default();
        object.metadata.name = Some("demo-abc".into());
        object.metadata.uid = Some("uid".into());
        make(&object, &id, &endpoint, KeyAlgorithm::EcdsaP256, now).expect("made")
    }

    #[test]
    fn secrets_are_named_typed_and_owned_as_the_control_plane_provider_looks_for_them() {
        let secrets = made();
        let names: Vec<_> = secrets.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(names, ["demo-ca", "demo-etcd", "demo-proxy", "demo-kubeconfig"]);
        for secret in &secrets {
            assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
            assert_eq!(labels::value(&secret.metadata, labels::CLUSTER_NAME), Some("demo"));
            assert_eq!(secret.owner_references()[0].controller, Some(true));
        }
    }

    #[test]
    fn kubeconfig_is_one_that_clients_read_and_its_user_is_an_administrator() {
        let secrets = made();
        let data = secrets[3].data.as_ref().expect("a kubeconfig has data");
        let text = String::from_utf8(data["value"].0.clone()).expect("a kubeconfig is text");
        let config = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        assert_eq!(config.current_context.as_deref(), Some("demo-admin@demo"));
        let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://10.0.0.7:20000"));
        let user = config.auth_infos[0].auth_info.as_ref().expect("a user");
        assert!(user.client_certificate_data.is_some() && user.client_key_data.is_some());
    }
}
