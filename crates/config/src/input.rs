//! The text of a configuration: of a file, or of standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use delaybridge_settings::files::LARGEST_CONFIGURATION;

/// The path that means standard input. A file of this name is `./-`.
pub const STANDARD_INPUT: &str = "-";

/// The use of standard input, which can be read only once.
enum StandardInput {
    /// Nothing yet.
    Unread,
    /// The configuration. A reload reads the same text.
    Configuration(Vec<u8>),
    /// Something else, such as a payload.
    Other,
}

static CAME: Mutex<StandardInput> = Mutex::new(StandardInput::Unread);

/// Reads the configuration. Unlike other files it may be a pipe, as a shell makes it of `<(...)`: the start waits for its writer.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path.as_os_str() != STANDARD_INPUT {
        return bounded(File::open(path)?);
    }
    let mut came = CAME.lock().unwrap_or_else(PoisonError::into_inner);
    match &*came {
        StandardInput::Configuration(text) => return Ok(text.clone()),
        StandardInput::Other => return Err(io::Error::other("standard input was read for something else")),
        StandardInput::Unread => {}
    }
    let text = bounded(io::stdin().lock())?;
    *came = StandardInput::Configuration(text.clone());
    Ok(text)
}

/// Takes standard input for something else. `false` if the configuration came by it.
pub fn take_standard_input() -> bool {
    let mut came = CAME.lock().unwrap_or_else(PoisonError::into_inner);
    let is_free = !matches!(&*came, StandardInput::Configuration(_));
    if is_free {
        *came = StandardInput::Other;
    }
    is_free
}

fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    source.take(LARGEST_CONFIGURATION + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST_CONFIGURATION {
        Err(io::Error::other(format!("it is larger than {} MiB", LARGEST_CONFIGURATION >> 20)))
    } else {
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let error = bounded(io::repeat(b'#')).unwrap_err();
        assert!(error.to_string().contains("larger than 16 MiB"), "{error}");
        assert_eq!(bounded(&b"redis: 1"[..]).unwrap(), b"redis: 1");
    }
}
