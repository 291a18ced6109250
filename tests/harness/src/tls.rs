//! A private certificate authority with certificates of a server and a client, made for one test.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

/// The PEM files, in a directory of the caller's.
#[derive(Debug, Clone)]
pub struct Pki {
    /// The authority's certificate.
    pub ca: PathBuf,
    /// The server's certificate, valid for 127.0.0.1 and localhost.
    pub server_cert: PathBuf,
    /// The server's key.
    pub server_key: PathBuf,
    /// A client's certificate.
    pub client_cert: PathBuf,
    /// The client's key.
    pub client_key: PathBuf,
}

impl Pki {
    /// Creates all files.
    pub fn create(dir: &Path) -> Self {
        Self::create_for(dir, &["127.0.0.1", "localhost"])
    }

    /// The same with a server certificate that is valid only for these hosts.
    pub fn create_for(dir: &Path, hosts: &[&str]) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("an authority has no names to refuse");
        // A distinct name: OpenSSL considers a leaf self-signed if it has the name of its issuer.
        params.distinguished_name.push(DnType::CommonName, "delaybridge test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("generate the authority's key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("sign the authority's certificate");

        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            write_secret(&path, text);
            path
        };
        let leaf = |name: &str, hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
            let key = KeyPair::generate().expect("generate a key");
            let mut params = CertificateParams::new(hosts).expect("names of a leaf certificate");
            params.distinguished_name.push(DnType::CommonName, name);
            let cert = params.signed_by(&key, &authority).expect("sign a leaf certificate");
            (write(&format!("{name}.crt"), &cert.pem()), write(&format!("{name}.key"), &key.serialize_pem()))
        };
        let (server_cert, server_key) = leaf("server", hosts);
        let (client_cert, client_key) = leaf("client", &["delaybridge-client"]);
        Pki { ca: write("ca.crt", &authority.pem()), server_cert, server_key, client_cert, client_key }
    }
}

/// Writes a file with a secret that only its owner can read; otherwise the daemon warns.
pub fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("write the secret");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("keep the secret");
}
