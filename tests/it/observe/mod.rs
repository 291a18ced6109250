//! What is watched from outside: the rules in `deploy/` and the operations page, tried with the tools of Debian's
//! Prometheus.

mod rules;

use std::path::{Path, PathBuf};

/// A file of the project, by its path from the root.
fn project_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Its text.
fn read(path: &str) -> String {
    std::fs::read_to_string(project_file(path)).unwrap_or_else(|e| panic!("read {path}: {e}"))
}
