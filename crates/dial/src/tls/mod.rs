//! TLS: the crypto provider of the process, the certificates of a connection, the handshake, and the sentences for what fails.

mod any_name;
mod explain;
mod pinned;

use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use xxhash_rust::xxh3::xxh3_64;

use delaybridge_core::clock::Instant;
use delaybridge_settings::{TlsFiles, files};

use crate::{DialError, DialStream, Phase};

pub(crate) use explain::client_refusal;
pub use explain::{explain, rustls_error};

/// Longest age of the system's authorities: a large file, which hardly ever changes.
const SYSTEM_FRESH: Duration = Duration::from_secs(10);

/// Installs the crypto provider of the process, without which TLS panics at the first handshake. Calling it again has no effect.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that another one is installed already, which works as well.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}

/// The TLS of a client's connections.
///
/// The files are read for each connection, because certificates are rotated. While they are the same, the settings are too, so that
/// sessions are resumed.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    /// The protocols that are offered, the preferred one first.
    protocols: &'static [&'static [u8]],
    made: Mutex<Option<Made>>,
}

#[derive(Debug, Clone)]
struct Made {
    /// Hash of the content of the files.
    from: u64,
    at: Instant,
    config: Arc<ClientConfig>,
}

/// The content of the files.
struct Content {
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Creates the TLS of these files.
    pub fn new(files: TlsFiles) -> Tls {
        init();
        Tls { files, protocols: &[], made: Mutex::default() }
    }

    /// Sets an offer of protocols (ALPN), the preferred one first.
    #[must_use]
    pub fn with_protocols(self, protocols: &'static [&'static [u8]]) -> Tls {
        Tls { protocols, ..self }
    }

    /// Runs the handshake with a server of this name. The inner error is that of the handshake. The outer one says that
    /// it could not begin.
    pub(crate) async fn over(&self, stream: DialStream, host: &str) -> Result<std::io::Result<DialStream>, DialError> {
        let config = self.config().await?;
        let name = self.files.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            permanent(format!("no certificate can be for `{name}`: write a host name or an IP address"))
        })?;
        Ok(TlsConnector::from(config).connect(name, stream).await.map(DialStream::tls))
    }

    /// Reads the settings for a new connection.
    async fn config(&self) -> Result<Arc<ClientConfig>, DialError> {
        let files = self.files.clone();
        let protocols = self.protocols;
        let last = self.made.lock().clone();
        // On a thread of its own: a file may be on a slow disk.
        let making = tokio::task::spawn_blocking(move || made(&files, protocols, last)).await;
        let made = making.map_err(|_| permanent("read the TLS files: interrupted"))?.map_err(permanent)?;
        *self.made.lock() = Some(made.clone());
        Ok(made.config)
    }
}

fn permanent(text: impl Into<String>) -> DialError {
    DialError::permanent(Phase::Tls, text)
}

/// Reads the files, and makes the settings of them unless they are the same as last time. Blocks.
fn made(files: &TlsFiles, protocols: &[&[u8]], last: Option<Made>) -> Result<Made, String> {
    let content = Content {
        ca: files.ca_file.as_deref().map(|path| read("ca_file", path)).transpose()?,
        client: match &files.client {
            None => None,
            Some((certificate, key)) => Some((read("cert_file", certificate)?, read("key_file", key)?)),
        },
    };
    let from = content.hash();
    if let Some(last) = last
        && last.from == from
        && (content.ca.is_some() || !files.fingerprints.is_empty() || last.at.elapsed() < SYSTEM_FRESH)
    {
        return Ok(last);
    }
    let config = Arc::new(client_config(files, &content, protocols)?);
    Ok(Made { from, at: Instant::now(), config })
}

fn read(key: &str, path: &Path) -> Result<Vec<u8>, String> {
    files::read(path).map_err(|why| format!("read {key} {}: {why}", path.display()))
}

impl Content {
    fn hash(&self) -> u64 {
        let client = self.client.iter().flat_map(|(certificate, key)| [certificate, key]);
        let parts: Vec<u8> = self.ca.iter().chain(client).flat_map(|part| xxh3_64(part).to_le_bytes()).collect();
        xxh3_64(&parts)
    }
}

fn client_config(files: &TlsFiles, content: &Content, protocols: &[&[u8]]) -> Result<ClientConfig, String> {
    let checked_by = |verifier| ClientConfig::builder().dangerous().with_custom_certificate_verifier(verifier);
    let builder = if !files.fingerprints.is_empty() {
        checked_by(pinned::verifier(files.fingerprints.clone()))
    } else if files.verify_hostname {
        ClientConfig::builder().with_root_certificates(roots(files.ca_file.as_deref(), content)?)
    } else {
        checked_by(any_name::verifier(roots(files.ca_file.as_deref(), content)?)?)
    };
    let mut config = match (&content.client, &files.client) {
        (Some((chain, key)), Some((cert_file, key_file))) => {
            let chain = certificates("cert_file", cert_file, chain)?;
            let key = private_key(key_file, key)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| unfit(cert_file, key_file, &error))?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

fn unfit(certificate: &Path, key: &Path, error: &rustls::Error) -> String {
    let certificate = certificate.display();
    let key = key.display();
    match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("use key_file {key}: it is not the key of the certificate in cert_file {certificate}")
        }
        _ => format!("use cert_file {certificate} and key_file {key}: {error}"),
    }
}

/// Reads the authorities that are trusted: only those of the file, if there is one.
fn roots(ca_file: Option<&Path>, content: &Content) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match (ca_file, &content.ca) {
        (Some(path), Some(pem)) => {
            let (added, _) = roots.add_parsable_certificates(certificates("ca_file", path, pem)?);
            if added == 0 {
                return Err(format!(
                    "use ca_file {}: no certificate in it can be read: replace it by X.509 certificates in PEM",
                    path.display()
                ));
            }
        }
        _ => {
            let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if added == 0 {
                return Err("read the system's CAs: there is none: install them, or set `ca_file`".to_owned());
            }
        }
    }
    Ok(roots)
}

fn certificates(key: &str, path: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(content).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(format!("read {key} {}: it holds no PEM section `CERTIFICATE`", path.display())),
        Err(error) => Err(format!("read {key} {}: {error}: write it as PEM", path.display())),
    }
}

fn private_key(path: &Path, content: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let text = String::from_utf8_lossy(content);
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        let path = path.display();
        return Err(format!(
            "read key_file {path}: the key is encrypted with a passphrase: decrypt it with `openssl pkey -in {path} -out FILE`, \
             and protect the file by its mode"
        ));
    }
    PrivateKeyDer::from_pem_slice(content).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            format!("read key_file {}: it holds no PEM section `PRIVATE KEY`", path.display())
        }
        error => format!("read key_file {}: {error}: write it as PEM", path.display()),
    })
}

#[cfg(test)]
mod tests;
