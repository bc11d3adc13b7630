//! Which certificates of servers are trusted.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use x509_parser::prelude::{ASN1Time, FromDer as _, X509Certificate};

/// Trusts what the authorities have issued, and besides, as client-go does, a certificate that is itself among them:
/// people copy the server's own certificate into the kubeconfig where no authority is known. Such a certificate must fit
/// byte for byte, be valid now, for this name and for servers; the server proves as always that it has the key.
#[derive(Debug)]
struct AuthoritiesAndTheirOwn {
    authorities: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

/// Makes a client trust also what is itself among the authorities, each in DER.
///
/// # Errors
/// When an authority is not a certificate.
pub(crate) fn trust_own(tls: &mut ClientConfig, authorities: &[Vec<u8>]) -> Result<(), BoxedError> {
    let verifier = AuthoritiesAndTheirOwn::new(tls, authorities)?;
    tls.dangerous().set_certificate_verifier(Arc::new(verifier));
    Ok(())
}

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

impl AuthoritiesAndTheirOwn {
    fn new(tls: &ClientConfig, authorities: &[Vec<u8>]) -> Result<Self, BoxedError> {
        let certificates: Vec<_> = authorities
            .iter()
            .map(|der| CertificateDer::from(der.clone()))
            .collect();
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        let provider = Arc::clone(tls.crypto_provider());
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Self {
            authorities,
            certificates,
        })
    }
}

/// Whether a certificate that is trusted by itself may be that of this server now.
fn fits(certificate: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), Error> {
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
    let malformed = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| malformed())?;
    let seconds = i64::try_from(now.as_secs()).map_err(|_| malformed())?;
    let now = ASN1Time::from_timestamp(seconds).map_err(|_| malformed())?;
    let validity = parsed.validity();
    if now < validity.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after {
        return Err(CertificateError::Expired.into());
    }
    match parsed.extended_key_usage() {
        // Without a list it is for everything.
        Ok(None) => Ok(()),
        Ok(Some(usage)) if usage.value.server_auth || usage.value.any => Ok(()),
        Ok(Some(_)) => Err(CertificateError::InvalidPurpose.into()),
        Err(_) => Err(malformed()),
    }
}

impl ServerCertVerifier for AuthoritiesAndTheirOwn {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.contains(end_entity) {
            return fits(end_entity, server_name, now).map(|()| ServerCertVerified::assertion());
        }
        self.authorities
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair};

    use super::*;

    const YEAR: u64 = 365 * 86_400;

    /// A self-signed certificate for `api.example`, valid from 1975 to 4096, or from 1975 to 1976.
    fn certificate(is_ca: bool, usages: &[ExtendedKeyUsagePurpose], is_over: bool) -> Vec<u8> {
        let mut params = CertificateParams::new(["api.example".to_owned()]).expect("a name");
        params.is_ca = match is_ca {
            true => IsCa::Ca(BasicConstraints::Unconstrained),
            false => IsCa::NoCa,
        };
        params.extended_key_usages = usages.to_vec();
        params.not_before = rcgen::date_time_ymd(1975, 1, 1);
        if is_over {
            params.not_after = rcgen::date_time_ymd(1976, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    fn verified(trusted: &[&Vec<u8>], sent: &[u8], name: &str, now: u64) -> Result<(), Error> {
        let tls = ClientConfig::builder()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let trusted: Vec<_> = trusted.iter().map(|der| (*der).clone()).collect();
        let verifier = AuthoritiesAndTheirOwn::new(&tls, &trusted).expect("certificates");
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        verifier
            .verify_server_cert(&sent.to_vec().into(), &[], &name, &[], now)
            .map(drop)
    }

    #[test]
    fn a_certificate_that_is_itself_trusted_must_fit_in_all_else() {
        use ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
        let now = 50 * YEAR;
        let plain = certificate(false, &[], false);
        for (der, expected) in [
            (plain.clone(), None),
            // As `openssl req -x509` makes them.
            (certificate(true, &[], false), None),
            (certificate(false, &[ServerAuth, ClientAuth], false), None),
            (certificate(false, &[Any], false), None),
            (
                certificate(false, &[ClientAuth], false),
                Some(CertificateError::InvalidPurpose),
            ),
            (certificate(false, &[], true), Some(CertificateError::Expired)),
        ] {
            let found = verified(&[&der], &der, "api.example", now);
            assert_eq!(found, expected.map_or(Ok(()), |error| Err(error.into())));
        }
        assert_eq!(
            verified(&[&plain], &plain, "api.example", YEAR),
            Err(CertificateError::NotValidYet.into())
        );
        let other_name = verified(&[&plain], &plain, "other.example", now).expect_err("another name");
        assert!(
            other_name.to_string().contains("not valid for name"),
            "{other_name}"
        );
        // It does not vouch for another one, of the same name and even of the same maker.
        let other = certificate(false, &[], false);
        let unknown = verified(&[&plain], &other, "api.example", now).expect_err("another certificate");
        assert!(matches!(unknown, Error::InvalidCertificate(_)), "{unknown}");
    }
}
