//! The cluster's authority, its certificates and kubeconfigs.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use anyhow::Context;
use jiff::Timestamp;
use nephele_controller::Credentials;
use nephele_pki::{Authority, KeyAlgorithm, LeafRequest};

use super::{layout::Layout, network::Network, site::Site};
use crate::files::write;

const VALIDITY: Duration = Duration::from_hours(24 * 365);

/// The owners of certificates: file name, common name, organization.
const IDENTITIES: [(&str, &str, Option<&str>); 6] = [
    ("admin", "admin", Some("system:masters")),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kubelet", "system:node:node", Some("system:nodes")),
    ("kube-proxy", "system:kube-proxy", None),
    ("kube-apiserver", "kube-apiserver", None),
];

/// Writes the authority, the certificates and one kubeconfig per client.
pub(super) fn create(layout: &Layout, site: &Site) -> anyhow::Result<()> {
    let folder = layout.pki();
    let authority = authority(&folder, "ca")?;
    for (name, common_name, organization) in IDENTITIES {
        let (dns_names, ip_addresses): (&[&str], &[&str]) = match name {
            "kube-apiserver" => (
                &[
                    "kubernetes",
                    "kubernetes.default",
                    "kubernetes.default.svc",
                    "localhost",
                ],
                &["127.0.0.1", &site.address, Network::API_SERVICE],
            ),
            "kubelet" => (&["node"], &[Network::NODE]),
            _ => (&[], &[]),
        };
        let mut request = request(name, common_name);
        request.organizations = organization.map(str::to_owned).into_iter().collect();
        request.dns_names = dns_names.iter().map(|&name| name.to_owned()).collect();
        request.ip_addresses = ip_addresses
            .iter()
            .map(|address| Network::address(address))
            .collect();
        let leaf = authority.issue(&request)?;
        write(&folder.join(format!("{name}.crt")), leaf.certificate_pem())?;
        write_secret(&folder.join(format!("{name}.key")), &leaf.key_pem())?;
        let proof = Credentials::Certificate {
            certificate: &leaf.certificate_pem(),
            key: &leaf.key_pem(),
        };
        let kubeconfig = kubeconfig(site, &authority, proof)?;
        write_secret(&layout.at(&format!("{name}.kubeconfig")), &kubeconfig)?;
    }
    // This key only signs service account tokens.
    let tokens = authority.issue(&request("service-accounts", "service-accounts"))?;
    write(&folder.join("service-accounts.crt"), tokens.certificate_pem())?;
    write_secret(&folder.join("service-accounts.key"), &tokens.key_pem())
}

/// The authority stored under this name, generated if there is none.
pub(super) fn authority(folder: &Path, name: &str) -> anyhow::Result<Authority> {
    let certificate = folder.join(format!("{name}.crt"));
    let key = folder.join(format!("{name}.key"));
    if let (Ok(certificate), Ok(key)) = (fs::read(&certificate), fs::read(&key)) {
        return Authority::from_pem(&certificate, &key)
            .with_context(|| format!("failed to read authority {name}"));
    }
    let (not_before, not_after) = validity();
    let authority = Authority::generate(
        &format!("nephele-e2e-{name}"),
        KeyAlgorithm::EcdsaP256,
        not_before,
        not_after,
    )?;
    write(&certificate, authority.certificate_pem())?;
    write_secret(&key, &authority.key_pem())?;
    Ok(authority)
}

/// A request for a certificate for servers and clients.
pub(super) fn request(identity: &str, common_name: &str) -> LeafRequest {
    let (not_before, not_after) = validity();
    LeafRequest {
        common_name: common_name.to_owned(),
        organizations: Vec::new(),
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        server_auth: true,
        client_auth: true,
        not_before,
        not_after,
        identity: identity.to_owned(),
    }
}

fn validity() -> (Timestamp, Timestamp) {
    let now = Timestamp::now();
    (now - Duration::from_hours(1), now + VALIDITY)
}

/// Writes a kubeconfig of a service account, with a token.
pub(super) fn service_account(layout: &Layout, site: &Site, file: &Path, token: &str) -> anyhow::Result<()> {
    let authority = authority(&layout.pki(), "ca")?;
    write_secret(file, &kubeconfig(site, &authority, Credentials::Token(token))?)
}

pub(super) fn write_secret(path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .with_context(|| format!("failed to protect {}", path.display()))
}

fn kubeconfig(site: &Site, authority: &Authority, proof: Credentials<'_>) -> anyhow::Result<String> {
    let server = format!("https://{}:{}", site.local, site.port);
    let config =
        nephele_controller::kubeconfig("nephele", "nephele", &server, &authority.certificate_pem(), proof);
    Ok(serde_yaml_ng::to_string(&config)?)
}
