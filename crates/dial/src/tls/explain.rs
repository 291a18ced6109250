//! Sentences for operators about TLS that failed.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription as Alert, CertificateError as Cert, Error, OtherError};
use webpki::Error as Odd;

use super::pinned::NotPinned;
use delaybridge_settings::Fingerprint;

/// Explains what failed in TLS. `plain` is what to do for a connection without it.
pub fn explain(error: &Error, plain: &str) -> String {
    let advice = match error {
        // A CA that was recreated under its old name shows as a bad signature.
        Error::InvalidCertificate(Cert::UnknownIssuer | Cert::BadSignature) => {
            "the server's certificate was issued by a CA that is not trusted: set `ca_file` to the CA that issued it".into()
        }
        Error::InvalidCertificate(Cert::Expired | Cert::ExpiredContext { .. }) => {
            "the server's certificate has expired: renew it".into()
        }
        Error::InvalidCertificate(Cert::NotValidYet | Cert::NotValidYetContext { .. }) => {
            "the server's certificate is not valid yet: check the clocks of both machines".into()
        }
        Error::InvalidCertificate(Cert::NotValidForName | Cert::NotValidForNameContext { .. }) => {
            "the server's certificate is for another name: use the host name that it was issued for, or set `server_name` to it"
                .into()
        }
        Error::InvalidCertificate(Cert::Other(other)) => match odd(other) {
            Some(Odd::CaUsedAsEndEntity) => {
                "the server's certificate is that of a CA itself: give the server a certificate that the CA issued \
                 (basicConstraints CA:FALSE)"
                    .into()
            }
            Some(Odd::UnsupportedCertVersion) => {
                "the server's certificate is X.509 version 1, which has no names: issue a version 3 certificate with a \
                 subjectAltName"
                    .into()
            }
            None if let Some(NotPinned(found)) = other.0.downcast_ref() => not_pinned(*found),
            _ => "the server's certificate cannot be used: issue another one".to_owned(),
        },
        Error::InvalidCertificate(_) => "the server's certificate cannot be used: issue another one".to_owned(),
        Error::InvalidMessage(_) => format!("the port does not speak TLS: {plain}, or use the server's TLS port"),
        Error::PeerIncompatible(_) | Error::AlertReceived(Alert::ProtocolVersion) => {
            "the server and delaybridge have no version of TLS in common: allow TLS 1.2 or 1.3 at the server".into()
        }
        Error::AlertReceived(Alert::CertificateRequired | Alert::HandshakeFailure) => {
            "the server refused the handshake, it may ask for a client certificate: set `cert_file` and `key_file`".into()
        }
        Error::AlertReceived(Alert::UnrecognisedName) => {
            "the server has no certificate for this host name: use the name that it was issued for".into()
        }
        Error::AlertReceived(_) if refuses_client(error) => {
            "the server refused the client certificate, or that there is none: set `cert_file` and `key_file` to those of a \
             client certificate that the server trusts"
                .into()
        }
        Error::AlertReceived(_) => "the server refused the handshake: see its log".into(),
        _ => "the TLS handshake failed".to_owned(),
    };
    format!("{advice} ({error})")
}

fn not_pinned(found: Option<Fingerprint>) -> String {
    let found = found.map_or_else(|| "another".to_owned(), |found| format!("the fingerprint {found}"));
    format!(
        "the server's certificate has {found}, which is not in `fingerprints`: if it was renewed, compare it at the server, and add it"
    )
}

/// The alerts by which the other side refuses our certificate, or that there is none.
const REFUSALS: [Alert; 9] = [
    Alert::AccessDenied,
    Alert::BadCertificate,
    Alert::CertificateExpired,
    Alert::CertificateRequired,
    Alert::CertificateRevoked,
    Alert::CertificateUnknown,
    Alert::HandshakeFailure,
    Alert::UnknownCA,
    Alert::UnsupportedCertificate,
];

fn refuses_client(error: &Error) -> bool {
    matches!(error, Error::AlertReceived(alert) if REFUSALS.contains(alert))
}

/// Returns the refusal of our certificate that an error is, or was caused by. HTTP/2 keeps only the words of an error.
pub(crate) fn client_refusal(error: &(dyn StdError + 'static)) -> Option<Error> {
    if let Some(error) = rustls_error(error) {
        return refuses_client(error).then(|| error.clone());
    }
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let words = innermost.to_string();
    let alert = words.rsplit_once("received fatal alert: ")?.1;
    REFUSALS.into_iter().find(|refusal| format!("{refusal:?}") == alert).map(Error::AlertReceived)
}

/// Returns the certificate errors that rustls has no names for.
fn odd(other: &OtherError) -> Option<&Odd> {
    other.0.downcast_ref()
}

/// Returns the error of TLS that an error is, or was caused by.
pub fn rustls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref() {
            return Some(tls);
        }
        // An I/O error hides the error in it from `source`.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
