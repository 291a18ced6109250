//! Payloads and bodies, from a file or standard input.

use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use delaybridge_config::take_standard_input;

use super::failed::Failed;

/// The longest string that Redis holds; nothing larger is an element.
const LONGEST: u64 = 512 << 20;

/// Standard input, unless the configuration came by it; `what` names what is meant to be in it.
pub(crate) fn standard_input(what: &str) -> Result<io::Stdin, Failed> {
    if !take_standard_input() {
        let text =
            format!("read the {what} from standard input: the configuration came by it; write one of them to a file");
        return Err(Failed::usage(text));
    }
    Ok(io::stdin())
}

/// Reads a file, or standard input where there is none; `what` names what is in it.
pub(crate) fn input(what: &str, file: Option<&Path>) -> Result<Bytes, Failed> {
    let mut bytes = Vec::new();
    let (read, from) = match file {
        Some(path) => {
            let read = std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
            (read, path.display().to_string())
        }
        None => {
            let read = standard_input(what)?.lock().take(LONGEST + 1).read_to_end(&mut bytes);
            (read, "standard input".to_owned())
        }
    };
    match read {
        Ok(length) if length as u64 > LONGEST => {
            Err(Failed::usage(format!("read the {what} from {from}: more than the 512 MiB that Redis can hold")))
        }
        Ok(_) => Ok(bytes.into()),
        Err(error) => Err(Failed::usage(format!("read the {what} from {from}: {error}"))),
    }
}
