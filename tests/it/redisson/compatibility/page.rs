//! Writes `docs/compatibility.md`.

use std::fmt::Write;

use super::codecs::{CODECS, Codec, Kind};
use super::run::{Decoded, Outcome};

const INTRODUCTION: &str = "\
# Compatibility

<!-- Written by a test (tests/it/redisson/compatibility) from what it saw; do not edit. -->

Every line was run with the real library: Redisson's client against a Redis server, and delaybridge beside it.

- **deliver**: offered in Java, delivered by delaybridge: the bytes that Java's codec wrote, and the element's id.
- **decode**: what delaybridge reads of it with that `codec:`, for templates and for the envelopes `decoded` and `json`.
  What it cannot read is *opaque*: its bytes are delivered unchanged all the same, or follow `on_decode_error`.
- **offer back**: the same bytes offered by `delaybridge offer`, moved to the ready list by Redisson and read by a Java
  consumer as the same value. A value that this Redisson's own codec writes and cannot read is named.
- **cancel**: of two equal elements one taken out by Java's `remove()` and one by `delaybridge cancel`; Java's `size()`
  and `contains()` agree.

Values: a text with characters outside of ASCII, a whole number (Long), a map with a list and a boolean in it, and an object
of a class of the application's own; for codecs that take only one kind, that one.
";

/// The page.
pub fn page(versions: &[(&str, Vec<Outcome>)]) -> String {
    let mut page = INTRODUCTION.to_owned();
    for (version, outcomes) in versions {
        let layout = if matches!(*version, "3.16.8" | "3.20.1") { "old" } else { "new" };
        write!(
            page,
            "\n## Redisson {version}\n\nElements have the {layout} layout.\n\n\
             | codec in Java | `codec:` | deliver | decode | offer back | cancel |\n|---|---|---|---|---|---|\n"
        )
        .expect("write to a string");
        for (codec, outcome) in CODECS.iter().zip(outcomes) {
            writeln!(page, "{}", line(codec, outcome)).expect("write to a string");
        }
    }
    page
}

fn line(codec: &Codec, outcome: &Outcome) -> String {
    let ours = codec.ours.unwrap_or("raw");
    let cells = match outcome {
        Outcome::Absent => ["not in this Redisson", "", "", ""].map(str::to_owned),
        Outcome::Works { decoded, unreadable } => {
            let back = match &unreadable[..] {
                [] => "yes".to_owned(),
                kinds => format!("yes, but for what Java cannot read itself: {}", names(kinds)),
            };
            ["yes".to_owned(), cell(ours, decoded), back, "yes".to_owned()]
        }
    };
    format!("| `{}` | `{ours}` | {} |", codec.class, cells.join(" | "))
}

fn names(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

fn cell(ours: &str, decoded: &Decoded) -> String {
    match decoded {
        Decoded::Bytes => "opaque: bytes of the application's own".to_owned(),
        Decoded::NoCodec => format!("opaque: no codec `{ours}` here"),
        Decoded::Of { opaque, .. } if opaque.is_empty() => "yes".to_owned(),
        Decoded::Of { values, opaque } if values.is_empty() => format!("opaque: {}", names(opaque)),
        Decoded::Of { values, opaque } => format!("{}; opaque: {}", names(values), names(opaque)),
    }
}
