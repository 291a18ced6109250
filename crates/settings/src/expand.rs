//! Environment variables inside a scalar: `${VAR}` and `${VAR:-default}`.
//!
//! Variables are upper case, templates lower case; which of the two a field takes is the caller's to say.

use std::ffi::OsString;

/// A fault in a scalar, and its correction.
pub struct BadVariable {
    pub message: String,
    pub help: String,
}

/// Replaces the variables of `text`.
///
/// With `templates`, holes that begin with a lower-case letter stay, and so does the escape `$${`; a value of the
/// environment cannot bring in a hole of its own. Without, such holes are errors and `$${` becomes `${`.
pub fn expand(text: &str, templates: bool, env: &dyn Fn(&str) -> Option<OsString>) -> Result<String, Vec<BadVariable>> {
    let mut expanded = String::with_capacity(text.len());
    let mut bad = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            let keep = if templates { at + 2 } else { at - 1 };
            expanded.push_str(&rest[..keep]);
            expanded.push_str(if templates { "" } else { "${" });
            rest = &rest[at + 2..];
            continue;
        }
        expanded.push_str(&rest[..at]);
        let Some(length) = rest[at..].find('}') else {
            bad.push(BadVariable {
                message: "`${` has no closing `}`".to_owned(),
                help: "a literal `${` is written `$${`".to_owned(),
            });
            rest = "";
            break;
        };
        let hole = &rest[at + 2..at + length];
        let (name, default) = hole.split_once(":-").map_or((hole, None), |(name, default)| (name, Some(default)));
        if is_variable(name) {
            // As in a shell, the default replaces an empty variable too.
            let value = env(name).filter(|value| default.is_none() || !value.is_empty()).map(OsString::into_string);
            match value.as_ref().map(|value| value.as_deref()).or(default.map(Ok)) {
                Some(Ok(value)) if templates => expanded.push_str(&value.replace("${", "$${")),
                Some(Ok(value)) => expanded.push_str(value),
                Some(Err(_)) => bad.push(BadVariable {
                    message: format!("the environment variable {name} is not UTF-8 text"),
                    help: "set it to text; where it is a secret in bytes, put it into a file".to_owned(),
                }),
                None => bad.push(BadVariable {
                    message: format!("the environment variable {name} is not set"),
                    help: format!("set it, or write a default: `${{{name}:-...}}`"),
                }),
            }
        } else if name.starts_with(|c: char| c.is_ascii_lowercase()) {
            if templates {
                expanded.push_str(&rest[at..=at + length]);
            } else {
                bad.push(BadVariable {
                    message: format!("`${{{name}}}` is a template, and this key takes none"),
                    help: "environment variables are upper case; a literal `${` is written `$${`".to_owned(),
                });
            }
        } else {
            bad.push(BadVariable {
                message: format!("`${{{name}}}` is neither a variable nor a template"),
                help: "variables are written like `${REDIS_HOST}`; a literal `${` is written `$${`".to_owned(),
            });
        }
        rest = &rest[at + length + 1..];
    }
    expanded.push_str(rest);
    if bad.is_empty() { Ok(expanded) } else { Err(bad) }
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn check(text: &str, templates: bool, expected: Result<&str, &str>) {
        let env = |name: &str| match name {
            "HOST" => Some("redis-0".into()),
            "EMPTY" => Some(OsString::new()),
            "HOLE" => Some("a${id}".into()),
            // A password in Latin-1.
            "LATIN" => Some(OsString::from_vec(b"gr\xfcn".to_vec())),
            _ => None,
        };
        let got = expand(text, templates, &env).map_err(|bad| bad[0].message.clone());
        assert_eq!(got.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn variables_are_replaced_and_templates_stay() {
        for templates in [false, true] {
            check("plain $ $$ text$", templates, Ok("plain $ $$ text$"));
            check("x${HOST}:${PORT:-6379}y", templates, Ok("xredis-0:6379y"));
            check("${EMPTY}|${EMPTY:-d}|${GONE:-}", templates, Ok("|d|"));
            check("${GONE}", templates, Err("the environment variable GONE is not set"));
            check("${LATIN}", templates, Err("the environment variable LATIN is not UTF-8 text"));
            check("${LATIN:-other}", templates, Err("the environment variable LATIN is not UTF-8 text"));
            check("a${HOST", templates, Err("`${` has no closing `}`"));
            check("${Host}", templates, Err("`${Host}` is neither a variable nor a template"));
            check("${}", templates, Err("`${}` is neither a variable nor a template"));
        }
        check("$${HOST}", false, Ok("${HOST}"));
        check("$${HOST}", true, Ok("$${HOST}"));
        check("${id}-${HOST}", true, Ok("${id}-redis-0"));
        check("${id}", false, Err("`${id}` is a template, and this key takes none"));
        check("${HOLE}", true, Ok("a$${id}"));
        check("${HOLE}", false, Ok("a${id}"));
    }
}
