//! Certificate files: the same keys wherever a connection can use TLS.

use std::path::PathBuf;

use crate::config::keys::tls;
use crate::config::model::TlsFiles;
use crate::config::reader::Section;

/// The files under `tls:`, looked into.
pub(super) fn files(section: &Section<'_>) -> TlsFiles {
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
    let ca_file = pem(&tls::CA_FILE, "CERTIFICATE");
    let certificate = pem(&tls::CERT_FILE, "CERTIFICATE");
    let key = pem(&tls::KEY_FILE, "PRIVATE KEY");
    for (one, other) in [(&tls::CERT_FILE, &tls::KEY_FILE), (&tls::KEY_FILE, &tls::CERT_FILE)] {
        if section.has(one) && !section.has(other) {
            let message = format!("there is `{}`, but no `{}`", one.name, other.name);
            section.cx.report.problem(&section.spot(one), message, "a client certificate needs both");
        }
    }
    TlsFiles { ca_file, client: certificate.zip(key) }
}
