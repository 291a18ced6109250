//! TLS for Redis: the crypto provider of the process, and the certificate files of an endpoint.

use std::path::Path;
use std::sync::Once;

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use delaybridge_settings::TlsFiles;

/// Installs the crypto provider of the process; the Redis client has none and would panic at the first handshake.
/// Calling it again has no effect.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that another one is installed already, which works as well.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    });
}

/// Reads the files. They are read at every connect, because certificates are rotated.
///
/// # Errors
///
/// Returns which file cannot be used, and why.
pub(super) fn read(files: &TlsFiles) -> Result<TlsCertificates, String> {
    let root_cert = files.ca_file.as_deref().map(|path| pem(path, "ca_file", "CERTIFICATE")).transpose()?;
    let client_tls = match &files.client {
        None => None,
        Some((cert, key)) => Some(ClientTlsConfig {
            client_cert: pem(cert, "cert_file", "CERTIFICATE")?,
            client_key: pem(key, "key_file", "PRIVATE KEY")?,
        }),
    };
    Ok(TlsCertificates { client_tls, root_cert })
}

/// Creates the settings of a handshake with these certificates. Without a CA, those of the system are trusted.
///
/// # Errors
///
/// Returns what cannot be used, and why.
pub(super) fn client_config(files: &TlsCertificates) -> Result<ClientConfig, String> {
    let unusable = |key: &str, error: &dyn std::fmt::Display| format!("use {key}: {error}");
    let certificates = |key: &str, pem: &[u8]| {
        CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(|error| unusable(key, &error))
    };
    let found = match &files.root_cert {
        Some(pem) => certificates("ca_file", pem)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 {
        let text = match files.root_cert {
            Some(_) => "use ca_file: it holds no certificate that can be read",
            None => "read the system's CAs: there is none: install them, or set `ca_file`",
        };
        return Err(text.to_owned());
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let Some(client) = &files.client_tls else { return Ok(config.with_no_client_auth()) };
    let chain = certificates("cert_file", &client.client_cert)?;
    let key = PrivateKeyDer::from_pem_slice(&client.client_key).map_err(|error| unusable("key_file", &error))?;
    config.with_client_auth_cert(chain, key).map_err(|error| unusable("cert_file and key_file", &error))
}

/// Reads a PEM file that must have a section of this kind. Without this check, a file without one would only show as an
/// unknown issuer at the handshake.
fn pem(path: &Path, key: &str, section: &str) -> Result<Vec<u8>, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("read {key} {}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    if !text.lines().any(|line| line.starts_with("-----BEGIN ") && line.contains(section)) {
        return Err(format!("read {key} {}: it holds no PEM section `{section}`", path.display()));
    }
    Ok(bytes)
}

/// Creates the settings of a handshake with these files, for clients of other servers. They are read at every connect.
///
/// # Errors
///
/// Returns which file cannot be used, and why.
pub fn config(files: &TlsFiles) -> Result<ClientConfig, String> {
    init();
    client_config(&read(files)?)
}

/// Explains a failed handshake to the operator. `peer` is the other side in a sentence, `plain` the spelling of a
/// connection without TLS.
pub fn explain(error: &rustls::Error, peer: &str, plain: &str) -> String {
    use rustls::{AlertDescription as Alert, CertificateError as Cert, Error};
    let advice = match error {
        // A CA that was recreated under its old name shows as a bad signature.
        Error::InvalidCertificate(Cert::UnknownIssuer | Cert::BadSignature) => format!(
            "the {peer}'s certificate was issued by a CA that is not trusted: set `ca_file` to the CA that issued it"
        ),
        Error::InvalidCertificate(Cert::Expired | Cert::ExpiredContext { .. }) => {
            format!("the {peer}'s certificate has expired: renew it")
        }
        Error::InvalidCertificate(Cert::NotValidForName | Cert::NotValidForNameContext { .. }) => {
            format!("the {peer}'s certificate is for another name: use the host name that it was issued for")
        }
        Error::InvalidMessage(_) => format!("the port does not speak TLS: use `{plain}`, or the {peer}'s TLS port"),
        Error::AlertReceived(Alert::CertificateRequired | Alert::HandshakeFailure) => format!(
            "the {peer} refused the handshake, it may ask for a client certificate: set `cert_file` and `key_file`"
        ),
        Error::AlertReceived(_) => format!("the {peer} refused the handshake or the client certificate"),
        _ => "the TLS handshake failed".to_owned(),
    };
    format!("{advice} ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("ca.pem");
        let files = TlsFiles { ca_file: Some(missing.clone()), client: None };
        assert!(read(&files).unwrap_err().starts_with(&format!("read ca_file {}", missing.display())));
        std::fs::write(&missing, "not a certificate").unwrap();
        assert!(read(&files).unwrap_err().contains("holds no PEM section `CERTIFICATE`"));
    }

    #[test]
    fn the_provider_can_be_chosen_twice() {
        init();
        init();
        assert!(rustls::crypto::CryptoProvider::get_default().is_some());
    }
}
