//! The classes of the JDK whose values Jackson writes as text of a certain form.

use crate::classes::{Body, Classes};
use crate::kryo5::class::Class;

/// Returns whether a text is certainly a value of this class, and not a second text beside the name of a class.
pub(super) fn is_of(class: &str, text: &str, classes: &Classes) -> bool {
    let first = text.bytes().next().unwrap_or_default();
    let is_number = first.is_ascii_digit() || matches!(first, b'+' | b'-');
    match class {
        // The binary formats had bytes for it.
        "java.util.UUID" => is_uuid(text) || text.len() == 24 && text.ends_with("=="),
        "java.lang.Double" | "java.lang.Float" => matches!(text, "NaN" | "Infinity" | "-Infinity"),
        "java.lang.Character" => text.chars().count() == 1,
        "java.util.Locale" => {
            let language = text.split('_').next().unwrap_or_default();
            (2..=3).contains(&language.len()) && language.bytes().all(|letter| letter.is_ascii_lowercase())
        }
        "java.util.Currency" => text.len() == 3 && text.bytes().all(|letter| letter.is_ascii_uppercase()),
        "java.util.TimeZone" | "java.time.ZoneId" => is_zone(text),
        "java.net.URI" | "java.net.URL" | "java.nio.file.Path" => text.contains(':'),
        "java.io.File" => text.contains(['/', '\\']),
        "java.util.Date" | "java.util.Calendar" | "java.util.GregorianCalendar" => is_number,
        // Arrays of bytes and characters.
        "[B" | "[C" => true,
        _ if is_constant(class, text, classes) => true,
        _ if class.starts_with("java.math.") || class.starts_with("java.sql.") => is_number,
        _ if class.starts_with("java.time.") => is_number || text == "Z" || text.starts_with("PT") || is_period(text),
        _ => false,
    }
}

/// Returns whether it is a constant of an enum of the JDK, or of a declared one.
fn is_constant(class: &str, text: &str, classes: &Classes) -> bool {
    match classes.named(class) {
        Some(Class::Constants(names)) => names.contains(&text),
        Some(Class::Own(place)) => match &classes.at(place).body {
            Body::Constants(names) => names.iter().any(|name| name == text),
            _ => false,
        },
        _ => false,
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

fn is_zone(text: &str) -> bool {
    text.contains('/') || text.len() == 3 && text.bytes().all(|letter| letter.is_ascii_uppercase())
}

fn is_period(text: &str) -> bool {
    text.strip_prefix('P').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit() || first == '-'))
}
