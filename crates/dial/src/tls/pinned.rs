//! Certificates that are known by their fingerprints: neither authority nor name counts.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use delaybridge_settings::Fingerprint;

/// Returns the check for one of these certificates.
pub(super) fn verifier(fingerprints: Vec<Fingerprint>) -> Arc<dyn ServerCertVerifier> {
    let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
    Arc::new(Pinned { fingerprints, algorithms })
}

#[derive(Debug)]
struct Pinned {
    fingerprints: Vec<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The certificate is none of the pinned ones, but that with this fingerprint.
#[derive(Debug)]
pub(super) struct NotPinned(pub(super) Option<Fingerprint>);

impl fmt::Display for NotPinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a pinned certificate")
    }
}

impl std::error::Error for NotPinned {}

fn fingerprint(certificate: &CertificateDer<'_>) -> Option<Fingerprint> {
    digest(&SHA256, certificate).as_ref().try_into().ok().map(Fingerprint)
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match fingerprint(end_entity) {
            Some(found) if self.fingerprints.contains(&found) => Ok(ServerCertVerified::assertion()),
            found => {
                let other = OtherError(Arc::new(NotPinned(found)));
                Err(Error::InvalidCertificate(CertificateError::Other(other)))
            }
        }
    }

    // That the server has the key of the certificate: anybody can send the certificate.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
