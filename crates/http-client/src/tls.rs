//! TLS settings, made of their files again when these change.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Mutex;

use delaybridge_core::clock::Instant;
use delaybridge_settings::TlsFiles;

/// Longest age of the settings. They are kept for a while because sessions are resumed by them, and because the
/// system's certificates are a large file.
const FRESH: Duration = Duration::from_secs(10);

/// The files, and the settings made of them last.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    /// The protocols that are offered, the preferred one first.
    protocols: &'static [&'static [u8]],
    made: Mutex<Option<(Instant, Arc<ClientConfig>)>>,
}

impl Tls {
    /// The settings made of these files, which are read at the first connection. `protocols` are those that are offered (ALPN), the
    /// preferred one first.
    pub fn new(files: TlsFiles, protocols: &'static [&'static [u8]]) -> Tls {
        delaybridge_link::tls::init();
        Tls { files, protocols, made: Mutex::default() }
    }

    /// The settings for a new connection.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why.
    pub async fn current(&self) -> Result<Arc<ClientConfig>, String> {
        let mut made = self.made.lock().await;
        if let Some((at, config)) = &*made
            && at.elapsed() < FRESH
        {
            return Ok(config.clone());
        }
        let (files, protocols) = (self.files.clone(), self.protocols);
        // Files may be on a slow disk.
        let making = tokio::task::spawn_blocking(move || client_config(&files, protocols));
        let config = Arc::new(making.await.map_err(|_| "read the TLS files: interrupted".to_owned())??);
        *made = Some((Instant::now(), config.clone()));
        Ok(config)
    }
}

fn client_config(files: &TlsFiles, protocols: &[&[u8]]) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder().with_root_certificates(roots(files.ca_file.as_deref())?);
    let mut config = match &files.client {
        None => config.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = certificates(cert, "cert_file")?;
            let private = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("read key_file {}: {error}", key.display()))?;
            config.with_client_auth_cert(chain, private).map_err(|error| format!("use cert_file: {error}"))?
        }
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// The CAs that are trusted: only that of the file, if there is one.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let found = match ca_file {
        Some(path) => certificates(path, "ca_file")?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 {
        return Err("read the system's CAs: there is none: install them, or set `ca_file`".to_owned());
    }
    Ok(roots)
}

fn certificates(path: &Path, key: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(format!("read {key} {}: it holds no PEM section `CERTIFICATE`", path.display())),
        Err(error) => Err(format!("read {key} {}: {error}", path.display())),
    }
}

/// Explains a failed handshake; `None` for a connection that only broke.
pub fn explain(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(delaybridge_link::tls::explain(error, "server", "http://"))
}
