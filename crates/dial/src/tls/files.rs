//! Reads a file of certificates, within bounds.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Largest file: a bundle of all public authorities has a quarter of it.
const LARGEST: u64 = 1 << 20;

/// Reads a file. Blocks.
///
/// # Errors
///
/// Which file cannot be used, and why.
pub(super) fn read(key: &str, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("read {key} {}: {why}", path.display());
    let unreadable = |error: std::io::Error| failed(&format_args!("{error}: check that it exists and may be read"));
    // Looked at before it is opened: to open a pipe waits for a writer.
    let kind = fs::metadata(path).map_err(unreadable)?;
    if !kind.is_file() {
        return Err(failed(&"it is no regular file: write the path of one"));
    }
    let mut content = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > LARGEST {
        return Err(failed(&"it is larger than 1 MiB: keep the certificates that are needed"));
    }
    Ok(content)
}
