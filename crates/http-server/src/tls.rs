//! The listener's certificate: read at start, and again when its files change, so that it can be renewed under way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::file::{Content, News, Reread};
use delaybridge_settings::files;
use delaybridge_telemetry::events::api::ApiEvents;

/// Certificate and key of the listener.
pub struct Certificates(Reread<TlsAcceptor>);

impl Certificates {
    /// Reads both files, and again when they change: certificate first, with those of its issuers behind; then its key. Blocks.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn read(files: [PathBuf; 2], events: ApiEvents) -> Result<Certificates, String> {
        let paths = files.clone();
        let tell = move |news: Option<News<'_, TlsAcceptor>>, age| {
            if let Some(News::Failed(problem)) = news {
                events.certificate_refused(problem);
            }
            events.file_seen("jobs.tls", age);
        };
        Reread::new(files.into(), move |contents| acceptor(&paths, contents), tell).map(Certificates)
    }

    /// Returns the acceptor of the next connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        (*self.0.get()).clone()
    }
}

/// Looks whether certificate and key can be used. Blocks.
///
/// # Errors
/// Those of [`Certificates::read`].
pub fn check(files: &[PathBuf; 2]) -> Result<(), String> {
    let contents = files.each_ref().map(|file| files::read(file));
    acceptor(files, &contents).map(drop)
}

fn acceptor([certificate, key]: &[PathBuf; 2], contents: &[Content]) -> Result<TlsAcceptor, String> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| format!("read {}: {error}", path.display());
    let content = |at: usize, path: &Path| match contents.get(at) {
        Some(Ok(content)) => Ok(&content[..]),
        Some(Err(error)) => Err(failed(path, error)),
        None => Err(failed(path, &"there is no content")),
    };
    let chain = CertificateDer::pem_slice_iter(content(0, certificate)?).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| failed(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_slice(content(1, key)?).map_err(|error| failed(key, &error))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private);
    let mut config = config.map_err(|error| format!("use {} with its key: {error}", certificate.display()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
