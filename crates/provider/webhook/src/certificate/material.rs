//! The certificates and keys in a Secret, and the execution of the plan.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use nephele_pki::{Authority, AuthorityError, IssueError, KeyAlgorithm, LeafRequest};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use thiserror::Error;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

use super::plan::{self, AUTHORITY_VALIDITY, BACKDATED, Issuer, LEAF_VALIDITY, Plan, Stored, StoredLeaf};

/// The most trusted authorities at a time. A new authority is made every four and a half years.
const AUTHORITIES_MAX: usize = 4;
const COMMON_NAME: &str = "nephele-webhook-ca";

const BUNDLE: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const LEAF: &str = "tls.crt";
const LEAF_KEY: &str = "tls.key";

/// Why there are no certificates.
#[derive(Debug, Error)]
pub enum MaterialError {
    /// No authority could be generated.
    #[error("failed to generate a certificate authority for the webhooks")]
    Authority(#[source] AuthorityError),
    /// No leaf could be issued.
    #[error("failed to issue the certificate of the webhooks")]
    Issue(#[source] IssueError),
}

/// An authority, earlier authorities that are still trusted, and the leaf to serve.
#[derive(Clone, PartialEq)]
pub(crate) struct Material {
    authority: Authority,
    /// The certificates of trusted authorities, DER, the newest first.
    trusted: Vec<Vec<u8>>,
    leaf: Option<Leaf>,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Leaf {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: Vec<u8>,
}

impl fmt::Debug for Material {
    /// Never shows a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

/// Material that is up to date until `until`.
#[derive(Debug, Clone)]
pub(crate) struct Current {
    pub(crate) material: Material,
    /// Whether it differs from the stored material.
    pub(crate) changed: bool,
    pub(crate) until: Timestamp,
}

/// Executes the plan until the material is up to date.
pub(crate) fn bring_up_to_date(
    stored: Option<Material>,
    names: &[String],
    now: Timestamp,
) -> Result<Current, MaterialError> {
    let mut changed = false;
    let mut material = stored;
    loop {
        let facts = material.as_ref().map(Material::facts);
        material = match (plan::plan(facts.as_ref(), names, now), material) {
            (Plan::Keep { until }, Some(material)) => {
                return Ok(Current {
                    material,
                    changed,
                    until,
                });
            }
            (Plan::RenewLeaf, Some(material)) => Some(material.with_new_leaf(names, now)?),
            (Plan::NewAuthority, stored) => Some(Material::with_new_authority(stored, now)?),
            (Plan::Keep { .. } | Plan::RenewLeaf, None) => {
                unreachable!("the plan for an empty Secret is a new authority")
            }
        };
        changed = true;
    }
}

impl Material {
    /// Reads the data of a Secret; `None` when it is unusable.
    pub(crate) fn read(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let entry = |name: &str| data.get(name).map(|value| value.0.as_slice());
        let bundle = entry(BUNDLE)?;
        let authority = Authority::from_pem(bundle, entry(AUTHORITY_KEY)?).ok()?;
        let trusted = CertificateDer::pem_slice_iter(bundle)
            .filter_map(Result::ok)
            .map(|certificate| certificate.to_vec())
            .filter(|certificate| Validity::of(certificate).is_some())
            .take(AUTHORITIES_MAX)
            .collect();
        let leaf = || {
            let certificate = CertificateDer::from_pem_slice(entry(LEAF)?).ok()?;
            let key = PrivateKeyDer::from_pem_slice(entry(LEAF_KEY)?).ok()?;
            let PrivateKeyDer::Pkcs8(key) = key else {
                return None;
            };
            Some(Leaf {
                certificate,
                key: key.secret_pkcs8_der().to_vec(),
            })
        };
        let material = Self {
            authority,
            trusted,
            leaf: leaf(),
        };
        // The authority's certificate has to come first. A reordered bundle was not written by Nephele.
        material
            .trusted
            .first()
            .filter(|first| *first == material.authority.certificate_der())?;
        Some(material)
    }

    /// The data of a Secret.
    pub(crate) fn write(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::from([
            (
                BUNDLE,
                self.trusted.iter().map(|der| pem("CERTIFICATE", der)).collect(),
            ),
            (AUTHORITY_KEY, self.authority.key_pem()),
        ]);
        if let Some(leaf) = &self.leaf {
            data.insert(LEAF, pem("CERTIFICATE", &leaf.certificate));
            data.insert(LEAF_KEY, pem("PRIVATE KEY", &leaf.key));
        }
        data.into_iter()
            .map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes())))
            .collect()
    }

    /// The leaf to serve.
    pub(crate) fn leaf(&self) -> Option<&Leaf> {
        self.leaf.as_ref()
    }

    /// Certificates that a client has to trust, PEM.
    pub(crate) fn bundle(&self, now: Timestamp) -> String {
        let valid = |der: &&Vec<u8>| Validity::of(der).is_some_and(|validity| now < validity.not_after);
        self.trusted
            .iter()
            .filter(valid)
            .map(|der| pem("CERTIFICATE", der))
            .collect()
    }

    /// When the leaf ends.
    pub(crate) fn leaf_not_after(&self) -> Option<Timestamp> {
        Validity::of(&self.leaf.as_ref()?.certificate).map(|validity| validity.not_after)
    }

    /// The facts that the plan needs.
    fn facts(&self) -> Stored {
        let authority = Validity::of(self.authority.certificate_der());
        let authority = authority.unwrap_or(Validity {
            not_before: Timestamp::MIN,
            not_after: Timestamp::MIN,
        });
        Stored {
            authority_not_before: authority.not_before,
            authority_not_after: authority.not_after,
            leaf: self
                .leaf
                .as_ref()
                .and_then(|leaf| self.leaf_facts(&leaf.certificate)),
        }
    }

    fn leaf_facts(&self, leaf: &[u8]) -> Option<StoredLeaf> {
        let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
        let issued_by = |authority: &Vec<u8>| {
            let Ok((_, authority)) = X509Certificate::from_der(authority) else {
                return false;
            };
            parsed.verify_signature(Some(authority.public_key())).is_ok()
        };
        let issuer = match self.trusted.iter().position(issued_by) {
            Some(0) => Issuer::Newest,
            Some(_) => Issuer::Trusted,
            None => Issuer::Unknown,
        };
        let names = parsed.subject_alternative_name().ok().flatten();
        let dns_names = names.into_iter().flat_map(|names| &names.value.general_names);
        let dns_names = dns_names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
        Some(StoredLeaf {
            not_after: Validity::read(&parsed)?.not_after,
            dns_names: dns_names.collect(),
            issuer,
        })
    }

    fn with_new_authority(before: Option<Self>, now: Timestamp) -> Result<Self, MaterialError> {
        let now = whole_second(now);
        let authority = Authority::generate(
            COMMON_NAME,
            KeyAlgorithm::EcdsaP256,
            now - BACKDATED,
            now + AUTHORITY_VALIDITY,
        )
        .map_err(MaterialError::Authority)?;
        let mut trusted = vec![authority.certificate_der().to_vec()];
        let mut leaf = None;
        if let Some(before) = before {
            let valid = |der: &Vec<u8>| Validity::of(der).is_some_and(|validity| now < validity.not_after);
            trusted.extend(before.trusted.into_iter().filter(valid));
            trusted.truncate(AUTHORITIES_MAX);
            leaf = before.leaf;
        }
        Ok(Self {
            authority,
            trusted,
            leaf,
        })
    }

    fn with_new_leaf(mut self, names: &[String], now: Timestamp) -> Result<Self, MaterialError> {
        let now = whole_second(now);
        let leaf = self
            .authority
            .issue(&LeafRequest {
                common_name: names.first().cloned().unwrap_or_default(),
                organizations: Vec::new(),
                dns_names: names.to_vec(),
                ip_addresses: Vec::new(),
                server_auth: true,
                client_auth: false,
                not_before: now - BACKDATED,
                not_after: now + LEAF_VALIDITY,
                identity: "webhook".to_owned(),
            })
            .map_err(MaterialError::Issue)?;
        self.leaf = Some(Leaf {
            certificate: CertificateDer::from(leaf.certificate_der().to_vec()),
            key: leaf.key_der().to_vec(),
        });
        Ok(self)
    }
}

/// The validity of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Validity {
    not_before: Timestamp,
    not_after: Timestamp,
}

impl Validity {
    fn of(certificate: &[u8]) -> Option<Self> {
        Self::read(&X509Certificate::from_der(certificate).ok()?.1)
    }

    fn read(certificate: &X509Certificate<'_>) -> Option<Self> {
        let validity = certificate.validity();
        Some(Self {
            not_before: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
            not_after: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
        })
    }
}

/// Certificates count in whole seconds.
fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).expect("what is in range stays there without its fraction")
}

fn pem(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in encoded.as_bytes().chunks(64) {
        text.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests;
