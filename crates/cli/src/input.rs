//! Payloads and bodies, from a file or standard input.

use std::io::{self, BufRead, Read};
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

/// The longest line of standard input that can be an id.
const LONGEST_ID: usize = 1_024;
/// Ids that are taken from standard input at once: so many are in memory.
const IDS_AT_ONCE: usize = 1_000;

/// Returns the next ids on standard input, at most 1,000; empty at its end.
pub(crate) fn ids_of_stdin(read: &mut u64) -> Result<Vec<String>, Failed> {
    let mut ids = Vec::new();
    let mut input = standard_input("ids")?.lock();
    let mut line = Vec::new();
    while ids.len() < IDS_AT_ONCE {
        line.clear();
        let number = *read + 1;
        let failed = |why: &str| Failed::usage(format!("read ids from standard input, line {number}: {why}"));
        let length = (&mut input)
            .take(LONGEST_ID as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(|error| failed(&error.to_string()))?;
        if length == 0 {
            break;
        }
        if length > LONGEST_ID {
            return Err(failed("the line is longer than an id"));
        }
        *read += 1;
        let id = std::str::from_utf8(&line).map_err(|_| failed("not UTF-8"))?.trim();
        if !id.is_empty() {
            ids.push(id.to_owned());
        }
    }
    Ok(ids)
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
