//! Certificates of a cluster, as the kubeadm control plane provider creates them (`util/secret/certificates.go`).

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use nephele_controller::{Credentials, kubeconfig};
use nephele_pki::{Authority, AuthorityError, IssueError, KeyAlgorithm, LeafRequest};
use thiserror::Error;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// How long certificate authorities are valid: ten years, as in Cluster API.
const AUTHORITY_VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// How long the kubeconfig's client certificate is valid.
const CLIENT_VALIDITY: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How far before now the validity begins, for clients whose clocks are behind.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);

/// The purpose of a cluster's key pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    Cluster,
    Etcd,
    FrontProxy,
    ServiceAccounts,
}

impl Purpose {
    pub(crate) const ALL: [Self; 4] = [Self::Cluster, Self::Etcd, Self::FrontProxy, Self::ServiceAccounts];

    /// The suffix in the name of the Secret.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "ca",
            Self::Etcd => "etcd",
            Self::FrontProxy => "proxy",
            Self::ServiceAccounts => "sa",
        }
    }
}

/// Why a certificate could not be created.
#[derive(Debug, Error)]
pub(crate) enum CertificateError {
    #[error("failed to generate a certificate authority")]
    Generate(#[source] AuthorityError),
    #[error("failed to read the certificate authority of the cluster")]
    Read(#[source] AuthorityError),
    #[error("failed to issue the client certificate of the kubeconfig")]
    Issue(#[source] IssueError),
}

/// The data of a new Secret with a key pair: `tls.crt`, `tls.key`.
pub(crate) fn key_pair(
    purpose: Purpose,
    algorithm: KeyAlgorithm,
    now: Timestamp,
) -> Result<BTreeMap<String, ByteString>, CertificateError> {
    let not_before = now - BACKDATED;
    let not_after = now + AUTHORITY_VALIDITY;
    // Tokens are signed with RSA, also when the authorities have another algorithm.
    let algorithm = if purpose == Purpose::ServiceAccounts {
        KeyAlgorithm::Rsa2048
    } else {
        algorithm
    };
    let authority = Authority::generate("kubernetes", algorithm, not_before, not_after)
        .map_err(CertificateError::Generate)?;
    let certificate = match purpose {
        // A public key instead of a certificate.
        Purpose::ServiceAccounts => public_key_pem(authority.certificate_der()),
        Purpose::Cluster | Purpose::Etcd | Purpose::FrontProxy => authority.certificate_pem(),
    };
    let data = [("tls.crt", certificate), ("tls.key", authority.key_pem())];
    Ok(data
        .into_iter()
        .map(|(name, pem)| (name.to_owned(), ByteString(pem.into_bytes())))
        .collect())
}

/// The kubeconfig of a cluster's administrator, for the endpoint.
pub(crate) fn admin_kubeconfig(
    cluster: &str,
    server: &str,
    certificate_pem: &[u8],
    key_pem: &[u8],
    now: Timestamp,
) -> Result<String, CertificateError> {
    let authority = Authority::from_pem(certificate_pem, key_pem).map_err(CertificateError::Read)?;
    let request = LeafRequest {
        common_name: "kubernetes-admin".to_owned(),
        organizations: vec!["system:masters".to_owned()],
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        server_auth: false,
        client_auth: true,
        not_before: now - BACKDATED,
        not_after: now + CLIENT_VALIDITY,
        identity: "kubernetes-admin".to_owned(),
    };
    let leaf = authority.issue(&request).map_err(CertificateError::Issue)?;
    let proof = Credentials::Certificate {
        certificate: &leaf.certificate_pem(),
        key: &leaf.key_pem(),
    };
    let user = format!("{cluster}-admin");
    let config = kubeconfig(cluster, &user, server, &authority.certificate_pem(), proof);
    Ok(serde_yaml_ng::to_string(&config).expect("a kubeconfig is always YAML"))
}

/// The public key of a certificate that was just generated.
fn public_key_pem(certificate_der: &[u8]) -> String {
    let (_, certificate) = X509Certificate::from_der(certificate_der).expect("our own certificate is one");
    let base64 = BASE64.encode(certificate.public_key().raw);
    let lines: Vec<_> = base64
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).expect("base64 is ASCII"))
        .collect();
    format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(data: &BTreeMap<String, ByteString>, key: &str) -> String {
        String::from_utf8(data[key].0.clone()).expect("PEM is text")
    }

    #[test]
    fn authorities_are_read_back_and_name_the_administrator() {
        let now: Timestamp = "2026-03-04T05:06:07Z".parse().expect("an instant");
        let ca = key_pair(Purpose::Cluster, KeyAlgorithm::EcdsaP256, now).expect("made");
        let config = admin_kubeconfig("demo", "https://h:1", &ca["tls.crt"].0, &ca["tls.key"].0, now);
        let config = kube::config::Kubeconfig::from_yaml(&config.expect("issued")).expect("a kubeconfig");
        assert_eq!(config.current_context.as_deref(), Some("demo-admin@demo"));
        let cluster = config.clusters[0].cluster.clone().expect("a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://h:1"));
        let authority = cluster.certificate_authority_data.expect("an authority");
        assert_eq!(BASE64.decode(authority).expect("base64"), ca["tls.crt"].0);
    }

    #[test]
    fn service_accounts_have_a_public_key_and_no_certificate() {
        let pair = key_pair(
            Purpose::ServiceAccounts,
            KeyAlgorithm::EcdsaP256,
            Timestamp::UNIX_EPOCH,
        )
        .expect("made");
        assert!(text(&pair, "tls.crt").starts_with("-----BEGIN PUBLIC KEY-----\nMIIB"));
        assert!(text(&pair, "tls.key").contains("PRIVATE KEY"));
    }
}
