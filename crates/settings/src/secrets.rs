//! Passwords: in the file, in a variable, or in a file of their own. The same two keys wherever there is a login.

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde::{Serialize, Serializer};

use super::files;
use super::keys::{Key, Kind, key};
use super::reader::Section;

/// The password itself.
pub const PASSWORD: Key = key("password", Kind::Secret, "Password, preferably as `${VAR}`.");
/// The file that it is in.
pub const PASSWORD_FILE: Key =
    key("password_file", Kind::File, "File with the password in its first line, read at every connect.");

/// A password: never shown, and read again at every connect when it lives in a file (files are rotated).
#[derive(Debug, Clone)]
pub enum Secret {
    /// Written in the configuration, usually by `${VAR}`.
    Literal(SecretString),
    /// First line of a file.
    File(PathBuf),
}

impl Secret {
    /// Reads the current secret. Blocks: a file is read again each time, because secrets are rotated. `key` is the name
    /// of the key with the file.
    ///
    /// # Errors
    ///
    /// Returns which file cannot be used, and why; never its content.
    pub fn read(&self, key: &str) -> Result<SecretString, String> {
        match self {
            Secret::Literal(text) => Ok(text.clone()),
            Secret::File(path) => read_file(key, path),
        }
    }
}

/// Reads the secret in the first line of a file, which belongs to this key or option.
///
/// # Errors
///
/// Returns which file cannot be used, and why; never its content.
pub fn read_file(key: &str, path: &Path) -> Result<SecretString, String> {
    line_of(path).map_err(|why| format!("read {key} {}: {why}", path.display()))
}

/// Reads the secret in the first line of a file.
///
/// # Errors
///
/// Returns why the file cannot be used; never its content.
pub fn line_of(path: &Path) -> Result<SecretString, String> {
    let content = files::read(path).map_err(|error| error.to_string())?;
    Ok(SecretString::from(first_line(&content)?))
}

/// Reads the secret in the content of a file: its first line, without the byte order mark that editors on Windows write
/// in front.
///
/// # Errors
///
/// Returns why there is none.
pub fn first_line(content: &[u8]) -> Result<&str, &'static str> {
    let line = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| "its first line is not UTF-8 text")?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    if line.trim().is_empty() { Err("its first line is empty") } else { Ok(line) }
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

/// Returns the password of `section`. `variable` is an example of a variable's name, for messages.
pub fn password(section: &Section<'_>, variable: &str) -> Option<Secret> {
    either(section, &PASSWORD, &PASSWORD_FILE, variable)
}

/// Returns the secret under one of two keys: `literal` has it, or `file` names the file that has it in its first line.
/// `variable` is an example of a variable's name, for messages.
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
        if let Err(problem) = first_line(&content) {
            report.problem(
                &section.spot(file),
                format!("the file cannot be used: {problem}"),
                format!("it is the {what}"),
            );
        }
        return Some(Secret::File(path));
    }
    let written = written?;
    if written.is_plain() {
        let help = format!("put it into a file of its own with `{}`, or write `${{{variable}}}`", file.name);
        report.warning(&written.spot, format!("the {what} is in the file in plain text"), help);
    }
    // A variable of a shell or of a file often ends with the line break of its last line.
    let text = written.value.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        report.problem(&written.spot, format!("the {what} is only a line break"), "write one line");
    }
    if text.contains(['\r', '\n']) {
        report.problem(&written.spot, format!("the {what} has several lines"), "write one line");
    }
    Some(Secret::Literal(SecretString::from(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_first_line_without_what_editors_add() {
        let check = |content: &[u8], expected| assert_eq!(first_line(content), expected, "{content:?}");
        check(b"geheim", Ok("geheim"));
        check(b"geheim\nrest", Ok("geheim"));
        check(b"geheim\r\nrest", Ok("geheim"));
        check(b"\xef\xbb\xbfgeheim\r\n", Ok("geheim"));
        check(b" with spaces ", Ok(" with spaces "));
        check("\u{fc}ber\nall".as_bytes(), Ok("\u{fc}ber"));
        check(b"", Err("its first line is empty"));
        check(b"\nsecond", Err("its first line is empty"));
        check(b"\xef\xbb\xbf\r\n", Err("its first line is empty"));
        check(b"\xff\xfeg\0", Err("its first line is not UTF-8 text"));
    }
}
