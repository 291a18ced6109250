//! Values behind keys: each read by its kind, each mistake answered with what to write instead.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Context, Scalar, Section, clip};
use crate::Listen;
use crate::files::{self, content_hash};
use crate::keys::{Key, Kind, Word, Words, nearest};
use crate::problem::Spot;
use crate::units::{self, BadUnit};
use delaybridge_core::template::{Template, TemplateError};

/// Placeholder for the content of a file that was not read. It is accepted as a password, a certificate and a key.
pub const STAND_IN: &[u8] = b"-----BEGIN CERTIFICATE, PRIVATE KEY-----";

impl Section<'_> {
    /// Reads the scalar with `parse`; on a problem reports it and reads the default.
    pub(super) fn parsed<T>(&self, key: &Key, parse: impl Fn(&str) -> Result<T, BadUnit>) -> Option<T> {
        if let Some(scalar) = self.scalar(key) {
            match parse(&scalar.value) {
                Ok(value) => return Some(value),
                Err(bad) => {
                    // What a variable brought in may be a secret.
                    let message = if scalar.written == scalar.value {
                        bad.message
                    } else {
                        format!("`{}`: the variable's value does not fit here", clip(&scalar.written))
                    };
                    self.cx.report.problem(&scalar.spot, message, bad.help);
                }
            }
        }
        key.default.and_then(|default| parse(default).ok())
    }

    /// Returns a duration; keys with a default only.
    pub fn duration(&self, key: &Key) -> Duration {
        let Kind::Duration { min_ms } = key.kind else { return Duration::ZERO };
        self.parsed(key, |text| at_least(text, min_ms)).unwrap_or_default()
    }

    /// Returns a duration, or `None` for the word `auto`.
    pub fn duration_or_auto(&self, key: &Key) -> Option<Duration> {
        let Kind::DurationOrAuto { min_ms } = key.kind else { return None };
        self.parsed(key, |text| if text == "auto" { Ok(None) } else { at_least(text, min_ms).map(Some) }).flatten()
    }

    /// Returns a duration above zero, or `none`.
    pub fn duration_or_none(&self, key: &Key) -> Option<Duration> {
        let parse = |text: &str| match text {
            "none" => Ok(None),
            _ => match units::duration(text)? {
                Duration::ZERO => Err(zero()),
                value => Ok(Some(value)),
            },
        };
        self.parsed(key, parse).flatten()
    }

    /// Returns a duration, or `never`; keys with a default only.
    pub fn duration_or_never(&self, key: &Key) -> Option<Duration> {
        let parse = |text: &str| if text == "never" { Ok(None) } else { units::duration(text).map(Some) };
        self.parsed(key, parse).flatten()
    }

    /// Returns a size above zero, in bytes; keys with a default only.
    pub fn size(&self, key: &Key) -> u64 {
        let parse = |text: &str| match units::size(text)? {
            0 => Err(BadUnit {
                message: "0 would stop everything".to_owned(),
                help: "write a size such as 16MiB".into(),
            }),
            value => Ok(value),
        };
        self.parsed(key, parse).unwrap_or_default()
    }

    /// Returns a rate above zero in elements per second, or `none`.
    pub fn rate(&self, key: &Key) -> Option<f64> {
        let parse = |text: &str| match text {
            "none" => Ok(None),
            _ => match units::rate(text)? {
                value if value > 0.0 => Ok(Some(value)),
                _ => Err(zero()),
            },
        };
        self.parsed(key, parse).flatten()
    }

    /// Returns a whole number in the key's range; `None` for the key's word.
    pub fn count(&self, key: &Key) -> Option<u64> {
        let Kind::Count { min, max, word } = key.kind else { return None };
        let parse = |text: &str| {
            if word == Some(text) {
                return Ok(None);
            }
            let range = match max {
                u64::MAX => format!("at least {min}"),
                _ => format!("from {min} to {max}"),
            };
            let or = word.map(|word| format!(", or `{word}`")).unwrap_or_default();
            match text.parse() {
                Ok(value) if (min..=max).contains(&value) => Ok(Some(value)),
                Ok(_) => Err(BadUnit {
                    message: format!("{text} is out of range"),
                    help: format!("write a number {range}{or}"),
                }),
                Err(_) => Err(BadUnit {
                    message: format!("`{}` is not a whole number", clip(text)),
                    help: format!("write a number {range}{or}"),
                }),
            }
        };
        self.parsed(key, parse).flatten()
    }

    /// Returns a number in the key's range; keys with a default only.
    pub fn factor(&self, key: &Key) -> f64 {
        let Kind::Factor { min, max } = key.kind else { return 0.0 };
        let parse = |text: &str| match text.parse::<f64>() {
            Ok(value) if (min..=max).contains(&value) => Ok(value),
            Ok(_) => Err(BadUnit {
                message: format!("{} is out of range", clip(text)),
                help: format!("write a number from {min} to {max}"),
            }),
            Err(_) => Err(BadUnit {
                message: format!("`{}` is not a number", clip(text)),
                help: format!("write a number from {min} to {max}"),
            }),
        };
        self.parsed(key, parse).unwrap_or_default()
    }

    /// Reads one of the key's many names.
    pub fn name(&self, key: &Key) -> Option<Scalar> {
        let Kind::Name { all, main, by_another_name, .. } = key.kind else { return None };
        let scalar = self.scalar(key)?;
        let names = all();
        if names.contains(&scalar.value.as_str()) {
            return Some(scalar);
        }
        let known = |name: &&str| names.contains(name);
        let help = match by_another_name(&scalar.value).filter(known).or_else(|| nearest(&scalar.value, names.clone()))
        {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("possible here: {}", main().join(", ")),
        };
        self.cx.report.problem(&scalar.spot, format!("`{}` is not known here", clip(&scalar.written)), help);
        None
    }

    /// Reads `true` or `false`; `None` without a value and a default.
    pub fn flag(&self, key: &Key) -> Option<bool> {
        self.parsed(key, |text| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(BadUnit {
                message: format!("`{}` is neither true nor false", clip(text)),
                help: "write `true` or `false`".to_owned(),
            }),
        })
    }

    /// Reads `address:port`.
    pub fn address(&self, key: &Key) -> Option<SocketAddr> {
        self.parsed(key, |text| {
            text.parse().map_err(|_| BadUnit {
                message: format!("`{}` is not an address with a port", clip(text)),
                help: "write an IP address and a port, as in `0.0.0.0:9464` or `[::1]:9464`".to_owned(),
            })
        })
    }

    /// Returns an address, or the path of a Unix socket.
    pub fn listen(&self, key: &Key) -> Option<Listen> {
        self.parsed(key, |text| {
            Listen::parse(text).ok_or_else(|| BadUnit {
                message: format!("`{}` is neither an address with a port nor the path of a socket", clip(text)),
                help: "write an IP address and a port, as in `127.0.0.1:9465`, or a whole path of at most 107 bytes, as in \
                       `unix:/run/delaybridge/admin.sock`"
                    .to_owned(),
            })
        })
    }

    /// Reads text that is not empty, unless the key says that it may be.
    pub fn text(&self, key: &Key) -> Option<Scalar> {
        self.checked_text(key, self.scalar(key)?)
    }

    /// Returns the scalar, if it was written as text; else the problem is reported.
    pub fn checked_text(&self, key: &Key, scalar: Scalar) -> Option<Scalar> {
        if scalar.kind != "text" {
            let help = "if it is meant as text, write it in quotes";
            self.cx.report.problem(&scalar.spot, format!("expected text, found {}", scalar.kind), help);
            return None;
        }
        if scalar.value.is_empty() && !matches!(key.kind, Kind::TextOrEmpty | Kind::TemplateOrEmpty) {
            self.cx.report.problem(&scalar.spot, "the text is empty", key.help);
            return None;
        }
        Some(scalar)
    }

    /// Returns a template; one that may be empty, or a number, if the key says so.
    pub fn template(&self, key: &Key) -> Option<Template> {
        let scalar = self.scalar(key)?;
        let scalar = match key.kind {
            Kind::NumberTemplate if scalar.kind == "a number" => scalar,
            _ => self.checked_text(key, scalar)?,
        };
        compile(self.cx, &scalar)
    }

    /// Reads path and contents of a file. Of one that cannot be read, or need not be there, the content is
    /// [`STAND_IN`].
    pub fn file(&self, key: &Key) -> Option<(PathBuf, Vec<u8>)> {
        let scalar = self.text(key)?;
        let path = self.cx.base.join(&scalar.value);
        match files::read(&path) {
            Ok(content) => {
                if holds_secret(key) && is_open_to_all(&path) {
                    let help = "take that right away with `chmod o-rwx`; the file belongs to the user of the daemon";
                    self.cx.report.warning(&scalar.spot, "every user of this machine can read the file", help);
                }
                let hash = content_hash(&content);
                self.cx.files.borrow_mut().insert(scalar.spot.at, (path.clone(), hash));
                Some((path, content))
            }
            Err(_) if self.cx.spares(&scalar.spot.path) => Some((path, STAND_IN.to_vec())),
            Err(error) => {
                let message = format!("read `{}`: {error}", clip(&scalar.written));
                let help = "the daemon needs to read the file; a relative path starts at the configuration file";
                if error.absent {
                    self.cx.report.absent(&scalar.spot, message, help)
                } else {
                    self.cx.report.problem(&scalar.spot, message, help)
                }
                // Reported once: that there is no password, or no certificate, would be a consequence.
                Some((path, STAND_IN.to_vec()))
            }
        }
    }

    /// Returns the value that belongs to the word; the table's default if the user did not write the key.
    pub fn word<T: Copy>(&self, key: &Key, values: &[(&str, T)]) -> Option<T> {
        let Kind::Word(words) = key.kind else { return None };
        let value_of = |text: &str| values.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        self.scalar(key)
            .and_then(|scalar| self.checked_word(words, &scalar))
            .and_then(value_of)
            .or_else(|| value_of(key.default?))
    }

    /// Returns the value of the word; that of the default if the user did not write the key.
    pub fn one_of<T: Words>(&self, key: &Key) -> Option<T::Value> {
        self.word(key, T::VALUES)
    }

    /// Returns the word, if the key takes it in this build; else the problem is reported.
    pub fn checked_word(&self, words: &'static [Word], scalar: &Scalar) -> Option<&'static str> {
        let word = words.iter().find(|word| word.text == scalar.value);
        match word {
            Some(word) if word.available => return Some(word.text),
            Some(word) => self.unavailable(&scalar.spot, word.text),
            None => {
                let known = || words.iter().filter(|word| word.available).map(|word| word.text);
                let help = match nearest(&scalar.value, known()) {
                    Some(meant) if known().count() > 1 => format!("did you mean `{meant}`?"),
                    _ => format!("possible here: {}", known().collect::<Vec<_>>().join(", ")),
                };
                self.cx.report.problem(&scalar.spot, format!("`{}` is not known here", clip(&scalar.written)), help);
            }
        }
        None
    }
}

fn at_least(text: &str, min_ms: u64) -> Result<Duration, BadUnit> {
    match units::duration(text)? {
        value if value < Duration::from_millis(min_ms) => Err(BadUnit {
            message: format!("`{}` is too short", clip(text)),
            help: format!("the shortest is {}", units::show_duration(Duration::from_millis(min_ms))),
        }),
        value => Ok(value),
    }
}

fn zero() -> BadUnit {
    BadUnit { message: "0 would stop everything".to_owned(), help: "write a value above 0, or `none`".to_owned() }
}

pub fn compile(cx: &Context<'_>, scalar: &Scalar) -> Option<Template> {
    if scalar.is_plain() {
        warn_of_constants(cx, &scalar.value, &scalar.spot);
    }
    match Template::compile(&scalar.value) {
        Ok(template) => Some(template),
        Err(error) => {
            cx.report.problem(&scalar.spot, error.to_string(), meant(&error));
            None
        }
    }
}

/// Returns the help for a hole that names no field.
pub fn meant(error: &TemplateError) -> String {
    let TemplateError::UnknownField { field } = error else { return String::new() };
    let (first, rest) = field.split_at(field.find('.').unwrap_or(field.len()));
    match nearest(first, Template::FIELDS) {
        // Only a payload has fields inside.
        Some(field) if rest.is_empty() || field == "payload" => format!("did you mean `${{{field}{rest}}}`?"),
        _ => format!("a field of the payload is written `${{payload.{field}}}`"),
    }
}

/// Warns of a template in the syntax of another program, which is a constant text here.
pub fn warn_of_constants(cx: &Context<'_>, text: &str, spot: &Spot) {
    if let Some((written, field)) = foreign_hole(text) {
        let message = format!("`{}` is no template: every element gets this text as it is", clip(written));
        cx.report.warning(spot, message, format!("write `${{{field}}}`"));
    }
}

/// Returns the first template in the syntax of other programs, `$payload.id` or `{{payload.id}}`, and the field in it.
fn foreign_hole(text: &str) -> Option<(&str, &str)> {
    let is_field = |name: &str| {
        let first = name.split('.').next().unwrap_or_default();
        Template::FIELDS.contains(&first) && (first == "payload" || first == name)
    };
    let braces = text.match_indices("{{").filter_map(|(at, _)| {
        let inside = text[at + 2..].split_once("}}")?.0;
        let field = inside.trim().trim_start_matches('.');
        is_field(field).then_some((at, &text[at..at + inside.len() + 4], field))
    });
    let dollars = text.match_indices('$').filter_map(|(at, _)| {
        let rest = &text[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.')).unwrap_or(rest.len());
        let field = rest[..end].trim_end_matches('.');
        is_field(field).then_some((at, &text[at..at + 1 + field.len()], field))
    });
    braces.chain(dollars).min_by_key(|(at, ..)| *at).map(|(_, written, field)| (written, field))
}

/// Returns whether the file of this key holds a password, tokens, or a private key.
fn holds_secret(key: &Key) -> bool {
    ["password", "token", "secret", "key_file", "credentials"].iter().any(|word| key.name.contains(word))
}

/// Returns whether every user can read the file and enter the directories above it.
fn is_open_to_all(path: &Path) -> bool {
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.permissions().mode());
    let Ok(path) = path.canonicalize() else { return false };
    mode(&path) & 0o004 != 0 && path.ancestors().skip(1).all(|above| mode(above) & 0o001 != 0)
}
