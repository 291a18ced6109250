//! Certificates: the same keys wherever a connection can use TLS.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::Settings;
use super::keys::{Group, Key};
use super::reader::{Scalar, Section};

/// TLS of connections to a server: its files, and the name in its certificate.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Private CA in PEM; `None` trusts the system's.
    pub ca_file: Option<PathBuf>,
    /// Client certificate and key in PEM.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The name that the certificate must have; `None` for the host that is connected to.
    pub server_name: Option<String>,
    /// Whether the name in the certificate counts.
    pub verify_hostname: bool,
    /// The certificates that are accepted, whoever issued them; empty for those of the authorities.
    pub fingerprints: Vec<Fingerprint>,
}

/// The SHA-256 of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Reads 64 hexadecimal digits, which may have colons between the bytes.
    fn read(text: &str) -> Option<Fingerprint> {
        let parts: Vec<&str> = text.split(':').collect();
        let is_hex = parts.iter().all(|part| part.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if !is_hex || (parts.len() > 1 && parts.iter().any(|part| part.len() != 2)) {
            return None;
        }
        let text = parts.concat();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = (text.len() == 64).then(|| text.as_bytes().chunks(2).map(byte).collect())?;
        bytes?.try_into().ok().map(Fingerprint)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<String> = self.0.iter().map(|byte| format!("{byte:02X}")).collect();
        f.write_str(&bytes.join(":"))
    }
}

impl Default for TlsFiles {
    fn default() -> Self {
        TlsFiles { ca_file: None, client: None, server_name: None, verify_hostname: true, fingerprints: Vec::new() }
    }
}

impl Serialize for TlsFiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let path = |path: &PathBuf| path.display().to_string();
        let (certificate, key) = self.client.as_ref().map(|(certificate, key)| (certificate, key)).unzip();
        let ca_file = match (&self.ca_file, self.fingerprints.as_slice()) {
            (Some(ca_file), _) => Some(path(ca_file)),
            (None, []) => Some("(the system's)".to_owned()),
            _ => None,
        };
        let fields = [
            (table::CA_FILE, ca_file),
            (table::CERT_FILE, certificate.map(path)),
            (table::KEY_FILE, key.map(path)),
            (table::SERVER_NAME, self.server_name.clone()),
        ];
        let fields = fields.into_iter().filter_map(|(key, value)| Some((key.name, Value::from(value?))));
        let unchecked = (!self.verify_hostname).then_some((table::VERIFY_HOSTNAME.name, Value::from(false)));
        let pinned = self.fingerprints.iter().map(|pin| Value::from(pin.to_string())).collect::<Vec<_>>();
        let pinned = (!pinned.is_empty()).then(|| (table::FINGERPRINTS.name, Value::from(pinned)));
        serializer.collect_map(fields.chain(unchecked).chain(pinned))
    }
}

/// The table of the keys.
pub use self::table::TABLE;

/// The keys of the files, for a table that has more of them.
pub static KEYS: &[Group] = &[Group { of: None, keys: &[table::CA_FILE, table::CERT_FILE, table::KEY_FILE] }];

/// Also under `tls` of sinks.
#[derive(Settings)]
#[settings(table, at = "redis.tls", hidden)]
struct TlsKeys {
    /// Certificate authorities in PEM. Default: those of the system.
    #[key(Kind::File, read = certificate)]
    ca_file: Option<PathBuf>,
    /// Client certificate in PEM; needs `key_file`.
    #[key(Kind::File, read = certificate)]
    cert_file: Option<PathBuf>,
    /// Key of the client certificate in PEM; needs `cert_file`.
    #[key(Kind::File, read = private_key)]
    key_file: Option<PathBuf>,
    /// Name that the server's certificate must have. Default: the host of the connection.
    #[key(Kind::Text)]
    server_name: Option<String>,
    /// Whether the certificate must be for the host, or for `server_name`. With `false`, any certificate of the authority
    /// can impersonate a server.
    #[key(Kind::Flag, default = "true")]
    verify_hostname: bool,
    /// SHA-256 of the servers' certificates in hexadecimal, as `openssl x509 -noout -fingerprint -sha256` prints it. Only
    /// these are accepted, from any issuer, for any name and time.
    #[key(Kind::Texts, read = fingerprints)]
    fingerprints: Vec<Fingerprint>,
}

/// Returns the settings under `tls:`, with the files looked into.
pub fn settings(section: &Section<'_>) -> TlsFiles {
    let report = &section.cx.report;
    let keys = TlsKeys::of(section);
    let TlsKeys { ca_file, cert_file, key_file, server_name, verify_hostname, fingerprints } = keys;
    let fits = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'));
    if server_name.as_deref().is_some_and(|name| !fits(name)) {
        let help = "write it as it is in the certificate, without port and wildcard: `redis.example.com`";
        report.problem(&section.spot(&table::SERVER_NAME), "this is no host name", help);
    }
    if !verify_hostname {
        let spot = section.spot(&table::VERIFY_HOSTNAME);
        let message = "the name in the server's certificate is not checked: any certificate of the authority passes";
        report.warning(&spot, message, "write `server_name` with the name that is in the certificate");
        if server_name.is_some() {
            let message = "`server_name` has no effect with `verify_hostname: false`";
            report.problem(&section.spot(&table::SERVER_NAME), message, "keep one of them");
        }
    }
    let client = client(section, cert_file, key_file);
    TlsFiles { ca_file, client, server_name, verify_hostname, fingerprints }
}

/// Returns the files alone.
pub fn files(section: &Section<'_>) -> TlsFiles {
    let ca_file = certificate(section, &table::CA_FILE);
    let own = certificate(section, &table::CERT_FILE);
    TlsFiles { ca_file, client: client(section, own, private_key(section, &table::KEY_FILE)), ..TlsFiles::default() }
}

fn fingerprints(section: &Section<'_>, key: &Key) -> Vec<Fingerprint> {
    let report = &section.cx.report;
    let texts = section.texts(key);
    let read = |text: Scalar| {
        let found = Fingerprint::read(&text.value);
        if found.is_none() {
            let help = "write what `openssl x509 -noout -fingerprint -sha256 -in FILE` prints behind `=`";
            report.problem(&text.spot, "this is no SHA-256 in hexadecimal", help);
        }
        found
    };
    if !texts.is_empty() {
        for key in [&table::CA_FILE, &table::SERVER_NAME, &table::VERIFY_HOSTNAME] {
            if section.has(key) {
                let message = format!("`{}` has no effect with `fingerprints`", key.name);
                report.problem(&section.spot(key), message, "keep one of them");
            }
        }
    }
    texts.into_iter().filter_map(read).collect()
}

fn certificate(section: &Section<'_>, key: &Key) -> Option<PathBuf> {
    pem(section, key, "CERTIFICATE")
}

fn private_key(section: &Section<'_>, key: &Key) -> Option<PathBuf> {
    pem(section, key, "PRIVATE KEY")
}

/// Returns the path of a file with such a part.
fn pem(section: &Section<'_>, key: &Key, what: &str) -> Option<PathBuf> {
    let (path, content) = section.file(key)?;
    let begin = content.windows(11).any(|window| window == b"-----BEGIN ");
    let fits =
        String::from_utf8_lossy(&content).lines().any(|line| line.starts_with("-----BEGIN ") && line.contains(what));
    if !fits {
        let found = if begin { "PEM, but" } else { "no PEM, so" };
        let message = format!("the file is {found} no {} is in it", what.to_lowercase());
        section.cx.report.problem(&section.spot(key), message, "the file begins with `-----BEGIN ...`");
    }
    Some(path)
}

/// Returns certificate and key of a client.
fn client(
    section: &Section<'_>,
    certificate: Option<PathBuf>,
    private_key: Option<PathBuf>,
) -> Option<(PathBuf, PathBuf)> {
    for (one, other) in [(&table::CERT_FILE, &table::KEY_FILE), (&table::KEY_FILE, &table::CERT_FILE)] {
        if section.has(one) && !section.has(other) {
            let message = format!("there is `{}`, but no `{}`", one.name, other.name);
            section.cx.report.problem(&section.spot(one), message, "a client certificate needs both");
        }
    }
    certificate.zip(private_key)
}
