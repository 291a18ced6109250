//! The ways to log in, and what the server is told: user and password, a key, or a token with its key. Pure, but for the files.
//!
//! A key signs a number that the server has drawn. Keys are texts in base32: two bytes for the kind, 32 for the seed, two for a
//! checksum.

use std::path::{Path, PathBuf};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::ExposeSecret;
use serde::{Serialize, Serializer};

use delaybridge_settings::{Secret, files};

/// A login to NATS. Shown as the keys that it was read from.
#[derive(Debug, Clone)]
pub enum NatsLogin {
    /// None: the server takes everybody, or knows the client certificate.
    Anonymous,
    /// User and password.
    User {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A file with the seed of a key (nkey).
    Key(PathBuf),
    /// A file with a user's token (JWT) and the seed of its key, as `nsc` and `synadia` write it.
    Credentials(PathBuf),
}

impl Serialize for NatsLogin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            username: Option<&'a str>,
            #[serde(flatten)]
            password: Option<&'a Secret>,
            #[serde(skip_serializing_if = "Option::is_none")]
            nkey_file: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            credentials_file: Option<String>,
        }
        let file = |path: &PathBuf| Some(path.display().to_string());
        let none = Shown { username: None, password: None, nkey_file: None, credentials_file: None };
        let shown = match self {
            NatsLogin::Anonymous => none,
            NatsLogin::User { username, password } => {
                Shown { username: Some(username), password: Some(password), ..none }
            }
            NatsLogin::Key(path) => Shown { nkey_file: file(path), ..none },
            NatsLogin::Credentials(path) => Shown { credentials_file: file(path), ..none },
        };
        shown.serialize(serializer)
    }
}

/// The fields of `CONNECT` by which the server knows us.
#[derive(Default, Serialize)]
pub(super) struct NatsProof {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nkey: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jwt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sig: Option<String>,
}

/// Proves who we are to a server that has sent this number. Blocks: files are read at every connect, because they are
/// rotated. An error names the file, and never has its content.
pub(super) fn prove(login: &NatsLogin, nonce: Option<&str>) -> Result<NatsProof, String> {
    let asked = || nonce.ok_or("the server does not ask for a key: check that it knows users with keys".to_owned());
    match login {
        NatsLogin::Anonymous => Ok(NatsProof::default()),
        NatsLogin::User { username, password } => {
            let pass = Some(password.read("password_file")?.expose_secret().to_owned());
            Ok(NatsProof { user: Some(username.clone()), pass, ..NatsProof::default() })
        }
        NatsLogin::Key(path) => {
            let key =
                seed(&text("nkey_file", path)?).map_err(|why| format!("use nkey_file {}: {why}", path.display()))?;
            Ok(NatsProof { nkey: Some(public(&key)), sig: Some(sign(&key, asked()?)), ..NatsProof::default() })
        }
        NatsLogin::Credentials(path) => {
            let (token, key) = credentials(&text("credentials_file", path)?)
                .map_err(|why| format!("use credentials_file {}: {why}", path.display()))?;
            Ok(NatsProof { jwt: Some(token), sig: Some(sign(&key, asked()?)), ..NatsProof::default() })
        }
    }
}

fn text(key: &str, path: &Path) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("read {key} {}: {why}", path.display());
    let content = files::read(path).map_err(|error| failed(&error))?;
    String::from_utf8(content).map_err(|_| failed(&"it is not UTF-8 text"))
}

pub(super) fn check_key(text: &str) -> Result<(), &'static str> {
    seed(text).map(drop)
}

/// Checks that the content of a file has a token and a key.
pub(super) fn check_credentials(text: &str) -> Result<(), &'static str> {
    credentials(text).map(drop)
}

/// Reads the token and the key of a file in two sections.
fn credentials(text: &str) -> Result<(String, Ed25519KeyPair), &'static str> {
    let section = |name: &str| {
        let begin = format!("BEGIN {name}-");
        let mut lines = text.lines().map(str::trim).skip_while(|line| !line.contains(&begin)).skip(1);
        lines.find(|line| !line.is_empty()).filter(|line| !line.starts_with('-')).map(str::to_owned)
    };
    let token = section("NATS USER JWT").ok_or("it has no section `NATS USER JWT`")?;
    let key = section("USER NKEY SEED").ok_or("it has no section `USER NKEY SEED`")?;
    Ok((token, seed(&key)?))
}

/// `S`, and `U` for a user, in the first two bytes of a seed.
const SEED: u8 = 18 << 3;
/// `U` in the first byte of a public key.
const USER: u8 = 20 << 3;

/// Reads the key in the first line that is no comment and not empty.
fn seed(text: &str) -> Result<Ed25519KeyPair, &'static str> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', '-']));
    let bytes = line.and_then(from_base32).ok_or("it has no key: a key begins with `SU`")?;
    let (content, sum) = bytes.split_last_chunk::<2>().ok_or("the key is too short")?;
    if crc16(content) != u16::from_le_bytes(*sum) {
        return Err("the checksum of the key is wrong: a part of it is missing");
    }
    let (kind, seed) = content.split_first_chunk::<2>().ok_or("the key is too short")?;
    let of = (kind[0] & 7) << 5 | kind[1] >> 3;
    if kind[0] & 0xf8 != SEED || of != USER {
        return Err("it is no key of a user: that begins with `SU`");
    }
    Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| "the key has not 32 bytes")
}

/// Returns the public key as text, which the server has in its configuration.
fn public(key: &Ed25519KeyPair) -> String {
    let mut bytes = vec![USER];
    bytes.extend_from_slice(key.public_key().as_ref());
    let sum = crc16(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    to_base32(&bytes)
}

fn sign(key: &Ed25519KeyPair, nonce: &str) -> String {
    URL_SAFE_NO_PAD.encode(key.sign(nonce.as_bytes()))
}

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn from_base32(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut bits = 0_u32;
    let mut count = 0;
    for letter in text.bytes() {
        let value = ALPHABET.iter().position(|known| *known == letter)?;
        bits = bits << 5 | u32::try_from(value).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
        bits &= 0xff;
    }
    Some(bytes)
}

fn to_base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut bits = 0_u32;
    let mut count = 0;
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(char::from(ALPHABET[(bits >> count & 31) as usize]));
        }
        bits &= 0xff;
    }
    if count > 0 {
        text.push(char::from(ALPHABET[(bits << (5 - count) & 31) as usize]));
    }
    text
}

/// Computes the checksum of keys, CRC-16 as XMODEM has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |mut sum, byte| {
        sum ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
        }
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair of the documentation of NATS.
    const KEY: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

    #[test]
    fn a_key_has_the_public_key_that_the_server_knows() {
        let key = seed(&format!("# a comment\n\n{KEY}\n")).unwrap();
        assert_eq!(public(&key), PUBLIC);
        assert_eq!(sign(&key, "nonce").len(), 86);
    }

    #[test]
    fn what_is_no_key_is_explained() {
        let rows = [
            ("", "it has no key: a key begins with `SU`"),
            ("secret", "it has no key: a key begins with `SU`"),
            (&KEY[..56], "the checksum of the key is wrong: a part of it is missing"),
            (PUBLIC, "it is no key of a user: that begins with `SU`"),
        ];
        for (text, expected) in rows {
            assert_eq!(check_key(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn token_and_key_are_found_in_a_file_of_credentials() {
        let file = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0.x.y\n------END NATS USER JWT------\n\n*** IMPORTANT ***\n\n\
             -----BEGIN USER NKEY SEED-----\n{KEY}\n------END USER NKEY SEED------\n"
        );
        let (token, key) = credentials(&file).unwrap();
        assert_eq!((token.as_str(), public(&key).as_str()), ("eyJ0.x.y", PUBLIC));
        assert_eq!(check_credentials(KEY), Err("it has no section `NATS USER JWT`"));
        let half = file.split("-----BEGIN USER").next().unwrap();
        assert_eq!(check_credentials(half), Err("it has no section `USER NKEY SEED`"));
    }
}
