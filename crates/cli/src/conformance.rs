//! `conformance`: run by a program of its own, `delaybridge-tools`.
//!
//! The kit starts the programs of producers and reads Redis in its own way; nothing of that is of use to a daemon.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::failed::Failed;

/// The program.
const TOOLS: &str = "delaybridge-tools";

/// Becomes the program, with the arguments of this process: signals and the exit code are the program's own. Returns the reason if
/// it could not be started.
pub(super) fn run() -> Failed {
    let own = env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent);
    let error = Command::new(program(folder)).args(env::args_os().skip(1)).exec();
    Failed::runtime(match error.kind() {
        io::ErrorKind::NotFound => {
            let beside = folder.map(|folder| format!("neither in {} nor ", folder.display())).unwrap_or_default();
            format!(
                "conformance: find {TOOLS}: it is {beside}in PATH. The packages and archives have it, the container image does not; \
                 `make build` builds it"
            )
        }
        _ => format!("conformance: start {TOOLS}: {error}"),
    })
}

/// Returns the program in the folder of this one, or its name, for which PATH is searched.
fn program(folder: Option<&Path>) -> OsString {
    let beside = folder.map(|folder| folder.join(TOOLS)).filter(|path| path.is_file());
    beside.map_or_else(|| TOOLS.into(), PathBuf::into_os_string)
}
