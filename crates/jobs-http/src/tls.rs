//! The listener's certificate: read at start, and again when its files change, so that it can be renewed under way.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::file::Stamps;

/// Certificate and key of the listener.
pub struct Certificates {
    /// Certificate first, with those of its issuers behind; then its key.
    files: [PathBuf; 2],
    current: Mutex<(Stamps, TlsAcceptor)>,
}

impl Certificates {
    /// Reads both files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn read(files: [PathBuf; 2]) -> Result<Certificates, String> {
        let stamps = Stamps::of(&files);
        let acceptor = read(&files)?;
        Ok(Certificates { files, current: Mutex::new((stamps, acceptor)) })
    }

    /// The acceptor of the next connection. Files that cannot be used are ignored until they change again: a
    /// certificate and its key are written one after the other.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock();
        if current.0.changed(&self.files)
            && let Ok(acceptor) = read(&self.files)
        {
            current.1 = acceptor;
        }
        current.1.clone()
    }
}

fn read([certificate, key]: &[PathBuf; 2]) -> Result<TlsAcceptor, String> {
    let failed = |path: &PathBuf, error: &dyn std::fmt::Display| format!("read {}: {error}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|error| failed(certificate, &error))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| failed(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private);
    let mut config = config.map_err(|error| format!("use {} with its key: {error}", certificate.display()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
