//! Payloads and bodies, from a file or standard input.

use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;

use super::failed::Failed;

/// The longest string that Redis holds; nothing larger is an element.
const LONGEST: u64 = 512 << 20;

/// Reads a file, or standard input where there is none; `what` names what is in it.
pub(crate) fn input(what: &str, file: Option<&Path>) -> Result<Bytes, Failed> {
    let mut bytes = Vec::new();
    let (read, from) = match file {
        Some(path) => {
            let read = std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
            (read, path.display().to_string())
        }
        None => (io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes), "standard input".to_owned()),
    };
    match read {
        Ok(length) if length as u64 > LONGEST => {
            Err(Failed::usage(format!("read the {what} from {from}: more than the 512 MiB that Redis can hold")))
        }
        Ok(_) => Ok(bytes.into()),
        Err(error) => Err(Failed::usage(format!("read the {what} from {from}: {error}"))),
    }
}
