//! The choice of the Java that runs everything.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{During, Error, Result};

/// The real path of `java`: the one in PATH stays the same when another one is installed.
pub(crate) fn program() -> Result<PathBuf> {
    let found = match env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => Some(Path::new(&home).join("bin/java")),
        None => env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .map(|folder| folder.join("java"))
            .find(|path| path.is_file()),
    };
    let found = found.ok_or_else(|| Error::new("find java: not in PATH; run `make setup`"))?;
    fs::canonicalize(&found).during(format_args!("find {}", found.display()))
}
