//! A private certificate authority with certificates of a server and a client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

use crate::error::{During, Error, Result};

/// The PEM files, in a folder of the caller's.
#[derive(Debug, Clone)]
pub struct Certificates {
    /// The authority's certificate.
    pub ca: PathBuf,
    /// The server's certificate, valid for localhost and 127.0.0.1.
    pub server_cert: PathBuf,
    /// The server's key.
    pub server_key: PathBuf,
    /// Certificate and key of the server in one file, as Kafka reads them.
    pub server_pem: PathBuf,
    /// A client's certificate.
    pub client_cert: PathBuf,
    /// The client's key.
    pub client_key: PathBuf,
}

impl Certificates {
    /// Creates all files. Another call creates another authority, which the servers of the first do not trust.
    pub fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).during(format_args!("create {}", folder.display()))?;
        Self::make(folder).map_err(|e| e.during("make certificates"))
    }

    fn make(folder: &Path) -> Result<Self> {
        let failed = |e: rcgen::Error| Error::new(e.to_string());
        let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
        // A distinct name: OpenSSL considers a leaf self-signed if it has the name of its issuer.
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(failed)?;
        let authority = CertifiedIssuer::self_signed(params, key).map_err(failed)?;

        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            let written = fs::write(&path, text).and_then(|()| match name {
                // The daemon warns of a key that everybody can read.
                "client.key" => fs::set_permissions(&path, fs::Permissions::from_mode(0o600)),
                _ => Ok(()),
            });
            written.during(format_args!("write {}", path.display())).map(|()| path)
        };
        let leaf = |name: &str, hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
            let key = KeyPair::generate().map_err(failed)?;
            let mut params = CertificateParams::new(hosts).map_err(failed)?;
            params.distinguished_name.push(DnType::CommonName, name);
            let cert = params.signed_by(&key, &authority).map_err(failed)?;
            Ok::<_, Error>((cert.pem(), key.serialize_pem()))
        };
        let (server, server_key) = leaf("server", &["localhost", "127.0.0.1"])?;
        let (client, client_key) = leaf("client", &["delaybridge-client"])?;
        Ok(Certificates {
            ca: write("ca.crt", &authority.pem())?,
            server_cert: write("server.crt", &server)?,
            server_key: write("server.key", &server_key)?,
            server_pem: write("server.pem", &format!("{server_key}{server}"))?,
            client_cert: write("client.crt", &client)?,
            client_key: write("client.key", &client_key)?,
        })
    }
}
