//! Certificate files: the same keys wherever a connection can use TLS.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::keys::{Group, tables};
use super::reader::Section;

/// TLS files of a server.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// Private CA in PEM; `None` trusts the system's.
    pub ca_file: Option<PathBuf>,
    /// Client certificate and key in PEM.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl Serialize for TlsFiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let path = |path: &PathBuf| path.display().to_string();
        let (certificate, key) = self.client.as_ref().map(|(certificate, key)| (certificate, key)).unzip();
        let ca_file = self.ca_file.as_ref().map_or_else(|| "(the system's)".to_owned(), path);
        let fields = [
            (table::CA_FILE, Some(ca_file)),
            (table::CERT_FILE, certificate.map(path)),
            (table::KEY_FILE, key.map(path)),
        ];
        serializer.collect_map(fields.into_iter().filter_map(|(key, value)| Some((key.name, value?))))
    }
}

/// The table of the keys.
pub use self::table::TABLE;

/// The keys, for a table that has more of them.
pub static KEYS: &[Group] = &[Group { of: None, keys: &[table::CA_FILE, table::CERT_FILE, table::KEY_FILE] }];

tables! {
    mod table at "redis.tls", "Also under `tls` of sinks." {
        CA_FILE = key("ca_file", Kind::File, "Certificate authorities in PEM. Default: those of the system.");
        CERT_FILE = key("cert_file", Kind::File, "Client certificate in PEM; needs `key_file`.");
        KEY_FILE = key("key_file", Kind::File, "Key of the client certificate in PEM; needs `cert_file`.");
    }
}

/// The files under `tls:`, looked into.
pub fn files(section: &Section<'_>) -> TlsFiles {
    let pem = |key, what: &str| -> Option<PathBuf> {
        let (path, content) = section.file(key)?;
        let begin = content.windows(11).any(|window| window == b"-----BEGIN ");
        let fits = String::from_utf8_lossy(&content)
            .lines()
            .any(|line| line.starts_with("-----BEGIN ") && line.contains(what));
        if !fits {
            let found = if begin { "PEM, but" } else { "no PEM, so" };
            let message = format!("the file is {found} no {} is in it", what.to_lowercase());
            section.cx.report.problem(&section.spot(key), message, "the file begins with `-----BEGIN ...`");
        }
        Some(path)
    };
    let ca_file = pem(&table::CA_FILE, "CERTIFICATE");
    let certificate = pem(&table::CERT_FILE, "CERTIFICATE");
    let key = pem(&table::KEY_FILE, "PRIVATE KEY");
    for (one, other) in [(&table::CERT_FILE, &table::KEY_FILE), (&table::KEY_FILE, &table::CERT_FILE)] {
        if section.has(one) && !section.has(other) {
            let message = format!("there is `{}`, but no `{}`", one.name, other.name);
            section.cx.report.problem(&section.spot(one), message, "a client certificate needs both");
        }
    }
    TlsFiles { ca_file, client: certificate.zip(key) }
}
