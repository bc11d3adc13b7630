//! Tests of the whole crate: authorities of every kind, and verifiers that accept their leaves.

use std::{
    error::Error,
    sync::{Arc, LazyLock},
    time::Duration,
};

use jiff::Timestamp;
use p256::pkcs8::{DecodePrivateKey as _, PrivateKeyInfoRef};
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, PublicKeyData as _, SerialNumber};
use rustls::{
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    server::WebPkiClientVerifier,
};
use x509_parser::prelude::{FromDer as _, ParsedExtension, X509Certificate};

use crate::{
    Authority, AuthorityError, ClientIdentity, KeyAlgorithm, Leaf, LeafRequest,
    certificate::{Unsigned, name},
    key::{PrivateKey, Signer},
    parse_client,
    pem::{self, PemError},
};

const DAY: i64 = 86_400;
const ALGORITHMS: [KeyAlgorithm; 3] = [
    KeyAlgorithm::Rsa2048,
    KeyAlgorithm::EcdsaP256,
    KeyAlgorithm::EcdsaP384,
];

fn at(day: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + day * DAY).unwrap()
}

fn authority(algorithm: KeyAlgorithm) -> Authority {
    Authority::generate("kubernetes", algorithm, at(0), at(3650)).unwrap()
}

/// One authority for all tests that do not modify it.
static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| authority(KeyAlgorithm::EcdsaP256));

fn request() -> LeafRequest {
    LeafRequest {
        common_name: "kube-apiserver".into(),
        organizations: Vec::new(),
        dns_names: vec!["kubernetes.default.svc".into()],
        ip_addresses: vec!["10.0.0.7".parse().unwrap()],
        server_auth: true,
        client_auth: false,
        not_before: at(0),
        not_after: at(365),
        identity: "default/demo/kube-apiserver".into(),
    }
}

fn client_request(organizations: &[&str]) -> LeafRequest {
    LeafRequest {
        common_name: "kubernetes-admin".into(),
        organizations: organizations
            .iter()
            .map(|&organization| organization.into())
            .collect(),
        server_auth: false,
        client_auth: true,
        ..request()
    }
}

fn parse(der: &[u8]) -> X509Certificate<'_> {
    X509Certificate::from_der(der).unwrap().1
}

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_000 + 10 * DAY as u64))
}

fn roots(authority: &Authority) -> Arc<rustls::RootCertStore> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from(authority.certificate_der().to_vec()))
        .unwrap();
    roots.into()
}

fn verify_server(authority: &Authority, leaf: &Leaf, name: &str) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(authority), provider)
        .build()
        .unwrap();
    let certificate = CertificateDer::from(leaf.certificate_der().to_vec());
    let name = ServerName::try_from(name).unwrap();
    verifier
        .verify_server_cert(&certificate, &[], &name, &[], now())
        .map(drop)
}

fn verify_client(authority: &Authority, certificate: &[u8]) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(authority), provider)
        .build()
        .unwrap();
    verifier
        .verify_client_cert(&CertificateDer::from(certificate.to_vec()), &[], now())
        .map(drop)
}

/// An authority with this encoded subject and serial number 0, as Go, Cluster API or a private authority may have it.
fn authority_called(subject: &[u8]) -> Authority {
    let key = p256::SecretKey::from_slice(&[7; 32]).unwrap();
    let signer = Signer::p256(&key);
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&[0]));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let unsigned = Unsigned::new(&params, subject, subject, &signer, &signer).unwrap();
    let certificate = pem::encode("CERTIFICATE", &unsigned.sign(&signer).unwrap());
    let key = pem::encode("EC PRIVATE KEY", &key.to_sec1_der().unwrap());
    Authority::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap()
}

/// The error and its causes, in `Display` and `Debug`.
fn everything_shown(error: &AuthorityError) -> String {
    let mut shown = format!("{error:?}");
    let mut next: Option<&dyn Error> = Some(error);
    while let Some(error) = next {
        shown.push_str(&format!("\n{error}"));
        next = error.source();
    }
    shown
}

#[test]
fn server_leaf_of_every_algorithm_verifies_against_its_authority() {
    for algorithm in ALGORITHMS {
        let authority = authority(algorithm);
        let leaf = authority.issue(&request()).unwrap();
        for name in ["10.0.0.7", "kubernetes.default.svc"] {
            assert_eq!(
                verify_server(&authority, &leaf, name),
                Ok(()),
                "{algorithm:?} {name}"
            );
        }
        assert!(
            verify_server(&authority, &leaf, "10.0.0.8").is_err(),
            "{algorithm:?}"
        );
        assert!(
            verify_client(&authority, leaf.certificate_der()).is_err(),
            "{algorithm:?}"
        );
    }
}

#[test]
fn larger_rsa_keys_issue_too() {
    let authority = authority(KeyAlgorithm::Rsa3072);
    let leaf = authority.issue(&request()).unwrap();
    assert_eq!(verify_server(&authority, &leaf, "10.0.0.7"), Ok(()));
}

#[test]
fn leaf_of_another_authority_of_the_same_name_does_not_verify() {
    let leaf = authority(KeyAlgorithm::EcdsaP256).issue(&request()).unwrap();
    assert!(verify_server(&AUTHORITY, &leaf, "10.0.0.7").is_err());
}

#[test]
fn client_leaf_verifies_and_names_its_user_and_groups() {
    for groups in [&[][..], &["system:masters"], &["system:nodes", "b\u{e9}ta"]] {
        let leaf = AUTHORITY.issue(&client_request(groups)).unwrap();
        assert_eq!(verify_client(&AUTHORITY, leaf.certificate_der()), Ok(()));
        assert_eq!(
            parse_client(leaf.certificate_der()).unwrap(),
            ClientIdentity {
                common_name: "kubernetes-admin".into(),
                organizations: groups.iter().map(|&group| group.into()).collect(),
            }
        );
    }
}

#[test]
fn client_certificate_with_serial_zero_is_read() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&[0]));
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "cluster-api.x-k8s.io");
    let certificate = params.self_signed(&key).unwrap();
    assert_eq!(
        parse_client(certificate.der()).unwrap(),
        ClientIdentity {
            common_name: "cluster-api.x-k8s.io".into(),
            organizations: Vec::new()
        }
    );
}

#[test]
fn client_certificate_without_a_common_name_names_no_user() {
    let signer = Signer::p256(&p256::SecretKey::from_slice(&[7; 32]).unwrap());
    let no_one = [0x30, 0x00];
    let unsigned = Unsigned::new(&CertificateParams::default(), &no_one, &no_one, &signer, &signer).unwrap();
    let error = parse_client(&unsigned.sign(&signer).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to find a common name in the client certificate's subject"
    );
}

#[test]
fn same_request_gives_the_same_certificate_after_the_authority_is_read_again() {
    for algorithm in ALGORITHMS {
        let first = authority(algorithm);
        let again =
            Authority::from_pem(first.certificate_pem().as_bytes(), first.key_pem().as_bytes()).unwrap();
        assert_eq!(first, again);
        assert_eq!(
            first.issue(&request()).unwrap(),
            again.issue(&request()).unwrap(),
            "{algorithm:?}"
        );
    }
}

/// Go writes RSA keys as PKCS#1 and elliptic-curve keys as SEC1; users may convert both to PKCS#8.
#[test]
fn key_in_another_encoding_is_the_same_authority() {
    for algorithm in ALGORITHMS {
        let authority = authority(algorithm);
        let pkcs8 = pem::decode::<PrivateKeyDer<'_>>(authority.key_pem().as_bytes()).unwrap();
        let pkcs8 = pkcs8.secret_der();
        let (label, other) = match algorithm {
            KeyAlgorithm::EcdsaP256 => (
                "EC PRIVATE KEY",
                p256::SecretKey::from_pkcs8_der(pkcs8)
                    .unwrap()
                    .to_sec1_der()
                    .unwrap()
                    .to_vec(),
            ),
            KeyAlgorithm::EcdsaP384 => (
                "EC PRIVATE KEY",
                p384::SecretKey::from_pkcs8_der(pkcs8)
                    .unwrap()
                    .to_sec1_der()
                    .unwrap()
                    .to_vec(),
            ),
            KeyAlgorithm::Rsa2048 | KeyAlgorithm::Rsa3072 | KeyAlgorithm::Rsa4096 => {
                let info = PrivateKeyInfoRef::try_from(pkcs8).unwrap();
                ("RSA PRIVATE KEY", info.private_key.as_bytes().to_vec())
            }
        };
        let encoded = pem::encode(label, &other);
        let again = Authority::from_pem(authority.certificate_pem().as_bytes(), encoded.as_bytes()).unwrap();
        assert_eq!(again.key_pem(), encoded);
        assert_eq!(
            again.issue(&request()).unwrap(),
            authority.issue(&request()).unwrap(),
            "{algorithm:?}"
        );
    }
}

#[test]
fn curve_parameters_before_the_key_are_skipped() {
    let key = p256::SecretKey::from_slice(&[7; 32]).unwrap();
    let parameters = pem::encode("EC PARAMETERS", b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07");
    let text = parameters + &pem::encode("EC PRIVATE KEY", &key.to_sec1_der().unwrap());
    let read = PrivateKey::read(pem::decode(text.as_bytes()).unwrap()).unwrap();
    assert_eq!(read.signer().der_bytes(), Signer::p256(&key).der_bytes());
}

#[test]
fn another_identity_gives_another_key_and_serial() {
    let one = AUTHORITY.issue(&request()).unwrap();
    let other = AUTHORITY
        .issue(&LeafRequest {
            identity: "other".into(),
            ..request()
        })
        .unwrap();
    assert_ne!(one.key_der(), other.key_der());
    assert_ne!(
        parse(one.certificate_der()).raw_serial(),
        parse(other.certificate_der()).raw_serial()
    );
}

#[test]
fn renewed_leaf_keeps_its_key_and_gets_another_serial() {
    let one = AUTHORITY.issue(&request()).unwrap();
    let renewed = AUTHORITY
        .issue(&LeafRequest {
            not_after: at(700),
            ..request()
        })
        .unwrap();
    assert_eq!(one.key_der(), renewed.key_der());
    assert_ne!(
        parse(one.certificate_der()).raw_serial(),
        parse(renewed.certificate_der()).raw_serial()
    );
}

/// Go compares issuer and subject byte by byte. The names: as Go writes them, with two values of one attribute, with
/// two attributes in one set, in an old string type, and empty.
#[test]
fn issuer_of_a_leaf_is_the_subject_of_the_authority_byte_by_byte() {
    let subjects: [&[u8]; 4] = [
        &name(&["one".into(), "two".into()], "kubernetes"),
        b"\x30\x1c\x31\x1a\x30\x0b\x06\x03\x55\x04\x0a\x13\x04demo\x30\x0b\x06\x03\x55\x04\x03\x13\x04demo",
        b"\x30\x0f\x31\x0d\x30\x0b\x06\x03\x55\x04\x03\x14\x04d\xe9mo",
        b"\x30\x00",
    ];
    for subject in subjects {
        let authority = authority_called(subject);
        let leaf = authority.issue(&request()).unwrap();
        assert_eq!(parse(leaf.certificate_der()).issuer().as_raw(), subject);
        assert_eq!(
            verify_server(&authority, &leaf, "10.0.0.7"),
            Ok(()),
            "{subject:x?}"
        );
    }
}

#[test]
fn leaf_names_the_key_of_its_authority() {
    let leaf = AUTHORITY.issue(&request()).unwrap();
    let named = parse(leaf.certificate_der())
        .iter_extensions()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(named) => {
                named.key_identifier.as_ref().map(|id| id.0.to_vec())
            }
            _ => None,
        });
    let own = parse(AUTHORITY.certificate_der())
        .iter_extensions()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(own) => Some(own.0.to_vec()),
            _ => None,
        });
    assert!(own.is_some());
    assert_eq!(named, own);
}

#[test]
fn expired_authority_is_read() {
    let expired = Authority::generate("old", KeyAlgorithm::EcdsaP256, at(-20), at(-10)).unwrap();
    let read =
        Authority::from_pem(expired.certificate_pem().as_bytes(), expired.key_pem().as_bytes()).unwrap();
    assert_eq!(read, expired);
}

#[test]
fn wrong_pairs_say_what_is_wrong_with_them() {
    let check = |certificate: &str, key: &str, expected: (&str, &str)| {
        let error = Authority::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err();
        assert_eq!((error.category(), error.to_string().as_str()), expected);
    };
    let certificate = AUTHORITY.certificate_pem();
    let key = AUTHORITY.key_pem();
    let leaf = AUTHORITY.issue(&request()).unwrap();
    let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519)
        .unwrap()
        .serialize_pem();
    let cut = pem::encode("RSA PRIVATE KEY", &[0x30, 0x03, 0x02, 0x01, 0x00]);

    check(
        "hello",
        &key,
        ("InvalidCertificate", "failed to read the certificate from PEM"),
    );
    check(
        &pem::encode("CERTIFICATE", b"hello"),
        &key,
        ("InvalidCertificate", "failed to parse the certificate"),
    );
    check(
        &certificate,
        "",
        ("InvalidKey", "failed to read the private key from PEM"),
    );
    check(
        &certificate,
        &cut,
        ("InvalidKey", "failed to read the private key"),
    );
    check(
        &certificate,
        &ed25519,
        ("UnsupportedKeyAlgorithm", "failed to read the private key"),
    );
    check(
        &certificate,
        &authority(KeyAlgorithm::EcdsaP256).key_pem(),
        (
            "KeyMismatch",
            "failed to pair the private key with the certificate: they do not match",
        ),
    );
    check(
        &leaf.certificate_pem(),
        &leaf.key_pem(),
        (
            "NotAnAuthority",
            "failed to use the certificate as an issuer: it is not a certificate authority's",
        ),
    );
}

#[test]
fn authority_that_may_not_sign_certificates_is_none() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key).unwrap();
    let error =
        Authority::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap_err();
    assert_eq!(error.category(), "NotAnAuthority");
}

/// Line breaks get lost when a Secret is written by hand; the parser's own error would quote the line.
#[test]
fn key_whose_line_breaks_were_lost_is_refused_without_being_shown() {
    let key = AUTHORITY.key_pem();
    let body: String = key.lines().filter(|line| !line.starts_with('-')).collect();
    let broken = [
        key.replace('\n', ""),
        key.replace('\n', " "),
        format!("-----BEGIN PRIVATE KEY-----{body}"),
    ];
    let as_numbers = format!("{:?}", body.as_bytes());
    for text in broken {
        let certificate = AUTHORITY.certificate_pem();
        let as_key = Authority::from_pem(certificate.as_bytes(), text.as_bytes()).unwrap_err();
        let as_certificate = Authority::from_pem(text.as_bytes(), key.as_bytes()).unwrap_err();
        for error in [as_key, as_certificate] {
            let shown = everything_shown(&error);
            assert!(!shown.contains(&body[..20]), "{shown}");
            assert!(!shown.contains(&as_numbers[1..60]), "{shown}");
        }
    }
}

#[test]
fn pem_faults_are_told_apart() {
    let fault = |text: &str| pem::decode::<CertificateDer<'_>>(text.as_bytes()).unwrap_err();
    assert_eq!(fault(""), PemError::NoSection);
    assert_eq!(fault("-----BEGIN CERTIFICATE-----\nAAAA\n"), PemError::NoEnd);
    assert_eq!(
        fault("-----BEGIN CERTIFICATE----- AAAA\n"),
        PemError::MalformedStart
    );
    assert_eq!(
        fault("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"),
        PemError::NotBase64
    );
}

#[test]
fn debug_output_never_shows_a_key() {
    let authority = format!("{:?}", *AUTHORITY);
    assert!(
        authority.starts_with("Authority { fingerprint: ") && authority.len() < 60,
        "{authority}"
    );
    let leaf = AUTHORITY.issue(&request()).unwrap();
    assert_eq!(
        format!("{leaf:?}"),
        format!("Leaf {{ certificate_len: {}, .. }}", leaf.certificate_der().len())
    );
}

#[test]
fn names_and_times_that_no_certificate_can_say_are_refused() {
    let category = |request: LeafRequest| AUTHORITY.issue(&request).unwrap_err().category();
    assert_eq!(
        category(LeafRequest {
            dns_names: vec!["caf\u{e9}".into()],
            ..request()
        }),
        "InvalidDnsName"
    );
    assert_eq!(
        category(LeafRequest {
            not_before: Timestamp::MIN,
            ..request()
        }),
        "InvalidValidity"
    );
    let error =
        Authority::generate("kubernetes", KeyAlgorithm::EcdsaP256, Timestamp::MIN, at(0)).unwrap_err();
    assert_eq!(error.category(), "GenerateFailed");
}

/// Replaces a byte, or cuts the DER there: the kinds of damage that get furthest through a parser.
fn damage(der: &[u8], place: prop::sample::Index, byte: u8, cut: bool) -> Vec<u8> {
    let mut der = der.to_vec();
    let place = place.index(der.len());
    der[place] = byte;
    if cut {
        der.truncate(place);
    }
    der
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_an_error_and_never_a_panic(
        certificate in prop::collection::vec(any::<u8>(), 0..300),
        key in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        prop_assert!(Authority::from_pem(&certificate, &key).is_err());
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
            let certificate = pem::encode("CERTIFICATE", &certificate);
            let key = pem::encode(label, &key);
            prop_assert!(Authority::from_pem(certificate.as_bytes(), key.as_bytes()).is_err());
        }
        prop_assert!(parse_client(&certificate).is_err());
    }

    #[test]
    fn damaged_pairs_never_panic_and_what_is_still_read_still_issues(
        in_certificate: prop::sample::Index,
        in_key: prop::sample::Index,
        byte: u8,
        cut_certificate: bool,
        cut_key: bool,
    ) {
        let key = pem::decode::<PrivateKeyDer<'_>>(AUTHORITY.key_pem().as_bytes()).unwrap();
        let whole = AUTHORITY.certificate_der();
        let damaged_certificate = damage(whole, in_certificate, byte, cut_certificate);
        let damaged_key = damage(key.secret_der(), in_key, byte, cut_key);
        for (certificate, key) in
            [(damaged_certificate.as_slice(), key.secret_der()), (whole, damaged_key.as_slice())]
        {
            let certificate = pem::encode("CERTIFICATE", certificate);
            let key = pem::encode("PRIVATE KEY", key);
            if let Ok(authority) = Authority::from_pem(certificate.as_bytes(), key.as_bytes()) {
                prop_assert!(authority.issue(&request()).is_ok());
            }
        }
        let _ = parse_client(&damaged_certificate);
    }

    #[test]
    fn any_request_is_issued_or_refused_and_never_a_panic(
        common_name in ".*",
        organizations in prop::collection::vec(".*", 0..4),
        dns_names in prop::collection::vec(".*", 0..4),
        seconds in (-377_705_023_201i64..=253_402_207_200, -377_705_023_201i64..=253_402_207_200),
        identity in ".*",
    ) {
        let request = LeafRequest {
            common_name,
            organizations,
            dns_names,
            not_before: Timestamp::from_second(seconds.0).unwrap(),
            not_after: Timestamp::from_second(seconds.1).unwrap(),
            identity,
            ..request()
        };
        if let Ok(leaf) = AUTHORITY.issue(&request) {
            let client = parse_client(leaf.certificate_der()).unwrap();
            prop_assert_eq!(client.common_name, request.common_name);
            prop_assert_eq!(client.organizations, request.organizations);
        }
    }
}
