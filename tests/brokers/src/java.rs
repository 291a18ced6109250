//! The choice of the Java that runs everything.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::error::{During, Error, Result};
use crate::tool::run;
use crate::{cache, process};

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

/// The classes of a program, a class and its source, compiled into `folder` once per machine, source text and set of libraries.
pub(crate) fn classes(java: &Path, folder: &Path, (class, source): (&str, &str), libraries: &str) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (source, libraries).hash(&mut hasher);
    let classes = folder.join(format!("classes-{:016x}", hasher.finish()));
    cache::once(&classes, |unfinished| {
        fs::create_dir(unfinished).during(format_args!("create {}", unfinished.display()))?;
        let file = unfinished.join(format!("{class}.java"));
        fs::write(&file, source).during(format_args!("write {}", file.display()))?;
        let compiler = java.with_file_name("javac");
        if !compiler.exists() {
            return Err(Error::new(format!("find {}: not there; run `make setup`", compiler.display())));
        }
        let mut command = process::command(&compiler);
        command.args(["-proc:none", "-encoding", "UTF-8", "-cp", libraries, "-d"]);
        command.arg(unfinished).arg(&file);
        run(command, None, "javac").map(drop)
    })?;
    Ok(classes)
}
