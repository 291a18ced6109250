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
    either(section, &PASSWORD, &PASSWORD_FILE, variable)
}

/// The secret under one of two keys: `literal` has it, or `file` names the file that has it in its first line. `variable` is an
/// example of a variable's name, for messages.
pub fn either(section: &Section<'_>, literal: &Key, file: &Key, variable: &str) -> Option<Secret> {
    let report = &section.cx.report;
    let written = section.text(literal);
    let read = section.file(file);
    let what = literal.name.replace('_', " ");
    if section.has(literal) && section.has(file) {
        let message = format!("there is both `{}` and `{}`", literal.name, file.name);
        report.problem(&section.spot(literal), message, "keep one of them");
    }
    if let Some((path, content)) = read {
        let first_line = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let problem = match first_line.trim_ascii().is_empty() {
            true => Some("the first line of the file is empty"),
            false => std::str::from_utf8(first_line).err().map(|_| "the first line of the file is not UTF-8 text"),
        };
        if let Some(problem) = problem {
            report.problem(&section.spot(file), problem, format!("it is the {what}"));
        }
        return Some(Secret::File(path));
    }
    let written = written?;
    if written.is_plain() {
        let help = format!("put it into a file of its own with `{}`, or write `${{{variable}}}`", file.name);
        report.warning(&written.spot, format!("the {what} is in the file in plain text"), help);
    }
    Some(Secret::Literal(SecretString::from(written.value)))
}
