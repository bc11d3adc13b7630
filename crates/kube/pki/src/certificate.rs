//! A certificate before it is signed.
//!
//! rcgen writes the certificate, and this module inserts the names, as bytes. rcgen's own model of a name has one value
//! per attribute and one attribute per set, so it would shorten a private authority called `DC=com, DC=example`. Go
//! compares a leaf's issuer with the authority's subject byte by byte (`crypto/x509`, `Certificate.isValid`), so the
//! issuer has to be the exact bytes of the subject, including its string types.

use p256::pkcs8::der::{self, Decode as _, Header, Reader as _, SliceReader};
use rcgen::{
    CertificateParams, DistinguishedName, Issuer, PublicKeyData, SignatureAlgorithm, SigningKey,
    string::PrintableString,
};

use crate::key::Signer;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `id-at-organizationName` and `id-at-commonName`, encoded (RFC 5280 appendix A.1).
const ORGANIZATION: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x0a];
const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];

/// The positions of the fields that this module writes, in a version 3 `TBSCertificate` (RFC 5280 section 4.1).
const SERIAL: usize = 1;
const ISSUER: usize = 3;
const SUBJECT: usize = 5;

/// A certificate without its signature.
pub(crate) struct Unsigned {
    fields: Vec<Vec<u8>>,
    signature_algorithm: Vec<u8>,
}

impl Unsigned {
    /// A certificate for `public_key` with two encoded names, which replace the names in `params`. The key identifier
    /// method of `params` applies to the issuer.
    pub(crate) fn new(
        params: &CertificateParams,
        issuer: &[u8],
        subject: &[u8],
        public_key: &Signer,
        signer: &Signer,
    ) -> Result<Self, rcgen::Error> {
        let mut nameless = params.clone();
        nameless.distinguished_name = DistinguishedName::new();
        let template = nameless.signed_by(
            public_key,
            &Issuer::from_params(&nameless, WithoutSignature(signer)),
        )?;
        let unreadable = |_: der::Error| rcgen::Error::CouldNotParseCertificate;
        let parts = elements(template.der()).map_err(unreadable)?;
        let mut fields: Vec<_> = elements(parts[0])
            .map_err(unreadable)?
            .into_iter()
            .map(<[u8]>::to_vec)
            .collect();
        fields[ISSUER] = issuer.to_vec();
        fields[SUBJECT] = subject.to_vec();
        Ok(Self {
            fields,
            signature_algorithm: parts[1].to_vec(),
        })
    }

    /// The whole content of the certificate, except its serial number.
    pub(crate) fn content(&self) -> Vec<u8> {
        let rest = |(index, field): (usize, &Vec<u8>)| (index != SERIAL).then(|| field.clone());
        self.fields
            .iter()
            .enumerate()
            .filter_map(rest)
            .flatten()
            .collect()
    }

    /// Sets the serial number: big-endian, the first bit 0, the first byte not 0.
    pub(crate) fn set_serial(&mut self, serial: &[u8]) {
        self.fields[SERIAL] = element(INTEGER, serial);
    }

    /// Signs the certificate and returns its DER.
    pub(crate) fn sign(&self, signer: &Signer) -> Result<Vec<u8>, rcgen::Error> {
        let body = element(SEQUENCE, &self.fields.concat());
        let mut signature = vec![0]; // No bit of the last byte is unused.
        signature.extend(signer.sign(&body)?);
        let signature = element(BIT_STRING, &signature);
        Ok(element(
            SEQUENCE,
            &[body, self.signature_algorithm.clone(), signature].concat(),
        ))
    }
}

/// A name of organizations, each in its own set, and a common name. As in Go, each text is a `PrintableString` if
/// possible, and otherwise a `UTF8String`.
pub(crate) fn name(organizations: &[String], common_name: &str) -> Vec<u8> {
    let attribute = |kind: &[u8], text: &str| {
        let printable = PrintableString::try_from(text).is_ok();
        let value = element(
            if printable { PRINTABLE_STRING } else { UTF8_STRING },
            text.as_bytes(),
        );
        element(SET, &element(SEQUENCE, &[kind, &value].concat()))
    };
    let mut attributes: Vec<_> = organizations
        .iter()
        .map(|organization| attribute(&ORGANIZATION, organization))
        .collect();
    attributes.push(attribute(&COMMON_NAME, common_name));
    element(SEQUENCE, &attributes.concat())
}

/// One DER element: tag, length in the shortest form, content (X.690 section 10.1).
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut element = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => element.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let significant = &bytes[length.leading_zeros() as usize / 8..];
            element.push(0x80 | significant.len() as u8);
            element.extend(significant);
        }
    }
    element.extend(content);
    element
}

/// The elements of a DER sequence, each with its tag and length.
fn elements(sequence: &[u8]) -> der::Result<Vec<&[u8]>> {
    let mut reader = SliceReader::new(sequence)?;
    Header::decode(&mut reader)?;
    let mut elements = Vec::new();
    while !reader.is_finished() {
        elements.push(reader.tlv_bytes()?);
    }
    Ok(elements)
}

/// Lets rcgen write a certificate for the algorithm of a key without signing it.
struct WithoutSignature<'a>(&'a Signer);

impl PublicKeyData for WithoutSignature<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl SigningKey for WithoutSignature<'_> {
    fn sign(&self, _message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_the_shortest_form() {
        let header = |length: usize| {
            let element = element(SEQUENCE, &vec![0; length]);
            element[..element.len() - length].to_vec()
        };
        assert_eq!(header(0), [0x30, 0]);
        assert_eq!(header(127), [0x30, 127]);
        assert_eq!(header(128), [0x30, 0x81, 128]);
        assert_eq!(header(255), [0x30, 0x81, 255]);
        assert_eq!(header(256), [0x30, 0x82, 1, 0]);
        assert_eq!(header(65_536), [0x30, 0x83, 1, 0, 0]);
    }

    #[test]
    fn name_is_printable_where_it_can_be() {
        let expected = [
            b"\x30\x2a".as_slice(),
            b"\x31\x11\x30\x0f\x06\x03\x55\x04\x0a\x13\x08system:a",
            b"\x31\x15\x30\x13\x06\x03\x55\x04\x03\x0c\x0cn\xc3\xa9ph\xc3\xa8l\xc3\xa9@x",
        ];
        assert_eq!(
            name(&["system:a".to_owned()], "n\u{e9}ph\u{e8}l\u{e9}@x"),
            expected.concat()
        );
    }
}
