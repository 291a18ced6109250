//! Passwords: in the file, in a variable, or in a file of their own. The same two keys wherever there is a login.

use std::path::PathBuf;

use secrecy::SecretString;
use serde::{Serialize, Serializer};

use super::keys::{Key, Kind, key};
use super::reader::Section;

/// The password itself.
pub const PASSWORD: Key = key("password", Kind::Secret, "Password, preferably as `${VAR}`.");
/// The file that it is in.
pub const PASSWORD_FILE: Key = key(
    "password_file",
    Kind::File,
    "File with the password in its first line. It is read at every connect, so the password can be rotated.",
);

/// A password: never shown, and read again at every connect when it lives in a file (files are rotated).
#[derive(Debug, Clone)]
pub enum Secret {
    /// Written in the configuration, usually by `${VAR}`.
    Literal(SecretString),
    /// First line of a file.
    File(PathBuf),
}

/// Hidden, or the name of the file. To be flattened into the map where the two keys are.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (key, shown) = match self {
            Secret::Literal(_) => (PASSWORD.name, "(hidden)".to_owned()),
            Secret::File(path) => (PASSWORD_FILE.name, path.display().to_string()),
        };
        serializer.collect_map([(key, shown)])
    }
}

/// The password of `section`. `variable` is an example of a variable's name, for messages.
pub fn password(section: &Section<'_>, variable: &str) -> Option<Secret> {
    let report = &section.cx.report;
    let literal = section.text(&PASSWORD);
    let file = section.file(&PASSWORD_FILE);
    if section.has(&PASSWORD) && section.has(&PASSWORD_FILE) {
        let spot = section.spot(&PASSWORD);
        report.problem(&spot, "there is both `password` and `password_file`", "keep one of them");
    }
    if let Some((path, content)) = file {
        let first_line = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if first_line.trim_ascii().is_empty() {
            let spot = section.spot(&PASSWORD_FILE);
            report.problem(&spot, "the first line of the file is empty", "it is the password");
        } else if std::str::from_utf8(first_line).is_err() {
            let spot = section.spot(&PASSWORD_FILE);
            report.problem(&spot, "the first line of the file is not UTF-8 text", "it is the password");
        }
        return Some(Secret::File(path));
    }
    let literal = literal?;
    if literal.is_plain() {
        let help = format!("put it into a file of its own with `password_file`, or write `${{{variable}}}`");
        report.warning(&literal.spot, "the password is in the file in plain text", help);
    }
    Some(Secret::Literal(SecretString::from(literal.value)))
}
