//! The credentials of a new cluster, created before its control plane provider creates them.
//!
//! Cluster API's cluster cache connects for the first time when a Cluster's infrastructure is provisioned, and then
//! only every 30 s. KubeadmControlPlane writes the kubeconfig some tenths of a second after that first attempt, so the
//! attempt always fails, and even a cluster without delays takes half a minute longer. So this module creates the
//! Secrets before, with the names, types and content that KubeadmControlPlane looks for. KubeadmControlPlane adopts
//! them (`ensureCertificatesOwnerRef` and `adoptKubeconfigSecret` in `controlplane/kubeadm/reconcilers` of
//! cluster-api), as it adopts Secrets that a user brings. Until then the InMemoryCluster owns them, so that no Secret
//! outlives its cluster.
//!
//! Keys are P-256 unless the control plane asks for another algorithm: generating an RSA key takes more CPU time than
//! everything else in a simulated cluster.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Resource as _, ResourceExt as _,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use nephele_api::{core::Cluster, infrastructure::v1beta2::InMemoryCluster, labels, names::is_dns_subdomain};
use nephele_controller::Credentials;
use nephele_model::{ClusterId, Endpoint};
use nephele_pki::{Authority, AuthorityError, IssueError, KeyAlgorithm, LeafRequest};
use serde_json::Value;
use thiserror::Error;
use tracing::{debug, warn};

use crate::{authorities, context::Context, secret::AuthoritySecret};

/// The group of KubeadmControlPlane.
const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";

const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Ten years for authorities and one year for the client, like KubeadmControlPlane's defaults.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(10 * 365 * 86_400);
const CLIENT_VALIDITY: Duration = Duration::from_secs(365 * 86_400);

/// Why credentials could not be prepared.
#[derive(Debug, Error)]
enum Error {
    /// A certificate authority could not be generated.
    #[error("failed to generate a certificate authority")]
    Generate(#[source] AuthorityError),
    /// The administrator's certificate could not be issued.
    #[error("failed to issue the certificate of the kubeconfig's user")]
    Issue(#[source] IssueError),
    /// A Secret could not be created.
    #[error("failed to create Secret {name}")]
    Create {
        name: String,
        #[source]
        source: kube::Error,
    },
    /// An existing Secret could not be read.
    #[error("failed to read Secret {name}")]
    Read {
        name: String,
        #[source]
        source: kube::Error,
    },
}

/// Creates the missing Secrets for a cluster whose control plane is a KubeadmControlPlane. An error here does not fail
/// the cluster: the control plane provider creates missing Secrets, only later.
pub(super) async fn prepare(
    object: &InMemoryCluster,
    context: &Context,
    cluster: &Cluster,
    endpoint: &Endpoint,
) {
    let Some(wanted) = wanted(context, cluster).await else {
        return;
    };
    let id = ClusterId {
        namespace: object.namespace().unwrap_or_default(),
        name: cluster.name_any(),
    };
    let made = Made {
        object,
        id: &id,
        endpoint,
        wanted,
        now: context.now(),
    };
    if let Err(error) = complete(&made, context).await {
        warn!(cluster = %id, error = nephele_controller::chain(&error), "Failed to prepare credentials");
    }
}

/// Creates the missing Secrets, and never writes to an existing one: it comes from a user, from the control plane
/// provider, or from this manager before a restart. The kubeconfig uses the certificate authority that exists in the
/// end, whoever created it; without a usable authority no kubeconfig is created.
async fn complete(made: &Made<'_>, context: &Context) -> Result<(), Error> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &made.id.namespace);
    let authority = made.authority()?;
    let authority = match create(&secrets, made, made.pair("ca", &authority)).await? {
        Creation::Created => Some(authority),
        Creation::WasThere => existing_authority(context, made).await?,
    };
    // The user creates that of an external etcd.
    for purpose in ["etcd", "proxy"]
        .into_iter()
        .filter(|purpose| *purpose != "etcd" || !made.wanted.external_etcd)
    {
        create(&secrets, made, made.pair(purpose, &made.authority()?)).await?;
    }
    if let Some(authority) = authority {
        create(&secrets, made, made.kubeconfig(&authority)?).await?;
    }
    Ok(())
}

/// The result of creating a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Creation {
    Created,
    /// A Secret of that name existed before.
    WasThere,
}

async fn create(secrets: &Api<Secret>, made: &Made<'_>, secret: Secret) -> Result<Creation, Error> {
    match secrets.create(&PostParams::default(), &secret).await {
        Ok(_) => {
            debug!(cluster = %made.id, secret = secret.name_any(), "Prepared credentials");
            Ok(Creation::Created)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Creation::WasThere),
        Err(source) => Err(Error::Create {
            name: secret.name_any(),
            source,
        }),
    }
}

/// The existing certificate authority, if it can sign.
async fn existing_authority(context: &Context, made: &Made<'_>) -> Result<Option<Authority>, Error> {
    let api: Api<AuthoritySecret> = Api::namespaced(context.client.clone(), &made.id.namespace);
    let name = AuthoritySecret::cluster_name(&made.id.name);
    match api.get_opt(&name).await {
        // If it cannot be used, the error is reported when the authority is given to the cloud.
        Ok(secret) => Ok(secret.and_then(|secret| authorities::authority(&secret).ok())),
        Err(source) => Err(Error::Read { name, source }),
    }
}

/// What a KubeadmControlPlane asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    algorithm: KeyAlgorithm,
    /// Whether the user runs etcd elsewhere.
    external_etcd: bool,
}

/// What the cluster's KubeadmControlPlane asks for. None when there is no such control plane, when it belongs to an older
/// Cluster API, or when it asks for something that only KubeadmControlPlane itself creates.
async fn wanted(context: &Context, cluster: &Cluster) -> Option<Wanted> {
    let reference = cluster.spec.control_plane_ref.as_ref()?;
    // A user chose the group and the name, and both become parts of a path.
    if !reference.is(CONTROL_PLANE_GROUP, "KubeadmControlPlane") || !is_dns_subdomain(&reference.name) {
        return None;
    }
    let kind = GroupVersionKind::gvk(&reference.api_group, "v1beta2", &reference.kind);
    let namespace = cluster.namespace().unwrap_or_default();
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client.clone(), &namespace, &ApiResource::from_gvk(&kind));
    let control_plane = match api.get_opt(&reference.name).await {
        Ok(found) => found?,
        Err(error) => {
            debug!(error = %nephele_controller::chain(&error), "Failed to read the control plane");
            return None;
        }
    };
    if control_plane
        .types
        .as_ref()
        .is_none_or(|types| !types.api_version.ends_with("/v1beta2"))
    {
        // KubeadmControlPlane before Cluster API 1.11 may not delete Secrets, so it cannot adopt them where
        // OwnerReferencesPermissionEnforcement is on. Those releases have no cluster cache either, so credentials need
        // not be early.
        return None;
    }
    wanted_by(&control_plane.data["spec"]["kubeadmConfigSpec"]["clusterConfiguration"])
}

/// What a `clusterConfiguration` asks for. Pure.
fn wanted_by(configuration: &Value) -> Option<Wanted> {
    if configuration.get("caCertificateValidityPeriodDays").is_some() {
        return None;
    }
    let algorithm = match configuration["encryptionAlgorithm"].as_str() {
        None | Some("" | "ECDSA-P256") => KeyAlgorithm::EcdsaP256,
        Some("ECDSA-P384") => KeyAlgorithm::EcdsaP384,
        // KubeadmControlPlane creates RSA keys itself.
        Some(_) => return None,
    };
    let external = configuration["etcd"]["external"].as_object();
    Some(Wanted {
        algorithm,
        external_etcd: external.is_some_and(|external| !external.is_empty()),
    })
}

/// The data from which Secrets are created.
struct Made<'a> {
    object: &'a InMemoryCluster,
    id: &'a ClusterId,
    endpoint: &'a Endpoint,
    wanted: Wanted,
    now: Timestamp,
}

impl Made<'_> {
    fn not_before(&self) -> Timestamp {
        self.now - Duration::from_secs(300)
    }

    /// A new authority.
    fn authority(&self) -> Result<Authority, Error> {
        let not_after = self.now + AUTHORITY_VALIDITY;
        Authority::generate("kubernetes", self.wanted.algorithm, self.not_before(), not_after)
            .map_err(Error::Generate)
    }

    /// The Secret of a certificate authority.
    fn pair(&self, purpose: &str, authority: &Authority) -> Secret {
        self.secret(
            purpose,
            [
                ("tls.crt", authority.certificate_pem()),
                ("tls.key", authority.key_pem()),
            ],
        )
    }

    /// The Secret of an administrator's kubeconfig, in the form of `util/kubeconfig` in cluster-api.
    fn kubeconfig(&self, authority: &Authority) -> Result<Secret, Error> {
        let client = LeafRequest {
            common_name: "kubernetes-admin".to_owned(),
            organizations: vec!["system:masters".to_owned()],
            dns_names: vec![],
            ip_addresses: vec![],
            server_auth: false,
            client_auth: true,
            not_before: self.not_before(),
            not_after: self.now + CLIENT_VALIDITY,
            identity: format!("{}/kubernetes-admin", self.id),
        };
        let client = authority.issue(&client).map_err(Error::Issue)?;
        let config = nephele_controller::kubeconfig(
            &self.id.name,
            &format!("{}-admin", self.id.name),
            &format!("https://{}", self.endpoint),
            &authority.certificate_pem(),
            Credentials::Certificate {
                certificate: &client.certificate_pem(),
                key: &client.key_pem(),
            },
        );
        // JSON is YAML.
        let text = serde_json::to_string(&config).expect("a kubeconfig is always JSON");
        Ok(self.secret("kubeconfig", [("value", text)]))
    }

    fn secret<const N: usize>(&self, purpose: &str, data: [(&str, String); N]) -> Secret {
        let owner = OwnerReference {
            api_version: InMemoryCluster::api_version(&()).into_owned(),
            kind: InMemoryCluster::kind(&()).into_owned(),
            name: self.object.name_any(),
            uid: self.object.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        };
        let name = &self.id.name;
        Secret {
            metadata: ObjectMeta {
                name: Some(format!("{name}-{purpose}")),
                namespace: Some(self.id.namespace.clone()),
                labels: Some(BTreeMap::from([(labels::CLUSTER_NAME.to_owned(), name.clone())])),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(
                data.into_iter()
                    .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
                    .collect(),
            ),
            ..Secret::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The Secrets of a cluster's authority and of its kubeconfig.
    fn made() -> [Secret; 2] {
        let id = ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        };
        let endpoint = Endpoint {
            host: "10.0.0.7".into(),
            port: 20000,
        };
        let now = Timestamp::from_second(1_700_000_000).expect("in range");
        let mut object = InMemoryCluster::default();
        object.metadata.name = Some("demo-abc".into());
        object.metadata.uid = Some("uid".into());
        let wanted = Wanted {
            algorithm: KeyAlgorithm::EcdsaP256,
            external_etcd: false,
        };
        let made = Made {
            object: &object,
            id: &id,
            endpoint: &endpoint,
            wanted,
            now,
        };
        let authority = made.authority().expect("made");
        [
            made.pair("ca", &authority),
            made.kubeconfig(&authority).expect("made"),
        ]
    }

    #[test]
    fn a_control_plane_is_given_what_it_would_make_itself() {
        let wanted = |algorithm, external_etcd| {
            Some(Wanted {
                algorithm,
                external_etcd,
            })
        };
        for (configuration, expected) in [
            (Value::Null, wanted(KeyAlgorithm::EcdsaP256, false)),
            (
                json!({ "encryptionAlgorithm": "ECDSA-P384" }),
                wanted(KeyAlgorithm::EcdsaP384, false),
            ),
            (json!({ "encryptionAlgorithm": "RSA-2048" }), None),
            (json!({ "caCertificateValidityPeriodDays": 7 }), None),
            (
                json!({ "etcd": { "local": {}, "external": {} } }),
                wanted(KeyAlgorithm::EcdsaP256, false),
            ),
            (
                json!({ "etcd": { "external": { "endpoints": ["https://a:2379"] } } }),
                wanted(KeyAlgorithm::EcdsaP256, true),
            ),
        ] {
            assert_eq!(wanted_by(&configuration), expected, "{configuration}");
        }
    }

    #[test]
    fn secrets_are_named_typed_and_owned_as_the_control_plane_provider_looks_for_them() {
        let secrets = made();
        let names: Vec<_> = secrets.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(names, ["demo-ca", "demo-kubeconfig"]);
        for secret in &secrets {
            assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
            assert_eq!(
                labels::value(&secret.metadata, labels::CLUSTER_NAME),
                Some("demo")
            );
            assert_eq!(secret.owner_references()[0].controller, Some(true));
        }
    }

    #[test]
    fn kubeconfig_is_one_that_clients_read_and_its_user_is_an_administrator() {
        let secrets = made();
        let data = secrets[1].data.as_ref().expect("a kubeconfig has data");
        let text = String::from_utf8(data["value"].0.clone()).expect("a kubeconfig is text");
        let config = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        assert_eq!(config.current_context.as_deref(), Some("demo-admin@demo"));
        let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://10.0.0.7:20000"));
        let user = config.auth_infos[0].auth_info.as_ref().expect("a user");
        assert!(user.client_certificate_data.is_some() && user.client_key_data.is_some());
    }
}
