//! Passwords: in the file, in a variable, or in a file of their own. The same two keys wherever there is a login.

use secrecy::SecretString;

use crate::config::keys::redis as login;
use crate::config::model::Secret;
use crate::config::reader::Section;

/// The password of `section`. `variable` is an example of a variable's name, for messages.
pub(super) fn password(section: &Section<'_>, variable: &str) -> Option<Secret> {
    let report = &section.cx.report;
    let literal = section.text(&login::PASSWORD);
    let file = section.file(&login::PASSWORD_FILE);
    if section.has(&login::PASSWORD) && section.has(&login::PASSWORD_FILE) {
        let spot = section.spot(&login::PASSWORD);
        report.problem(&spot, "there is both `password` and `password_file`", "keep one of them");
    }
    if let Some((path, content)) = file {
        let first_line = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if first_line.trim_ascii().is_empty() {
            let spot = section.spot(&login::PASSWORD_FILE);
            report.problem(&spot, "the first line of the file is empty", "it is the password");
        } else if std::str::from_utf8(first_line).is_err() {
            let spot = section.spot(&login::PASSWORD_FILE);
            report.problem(&spot, "the first line of the file is not UTF-8 text", "it is the password");
        }
        return Some(Secret::File(path));
    }
    let literal = literal?;
    if literal.is_plain() {
        let help = format!("put it into a file of its own with `password_file`, or write `${{{variable}}}`");
        report.warning(&literal.spot, "the password stands in the file in plain text", help);
    }
    Some(Secret::Literal(SecretString::from(literal.value)))
}
