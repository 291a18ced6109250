//! A folder for a server's data that is deleted on drop, and also when this process dies: a server in a `static` is
//! never dropped, and the data of many runs would fill the disk.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::error::{During, Result};

/// The script that deletes the folder. It waits for the end of its input, which only this process holds open. It
/// deletes repeatedly, because a dying server may still create files.
const SWEEP: &str = r#"cat; for _ in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$0" && exit; sleep 0.2; done"#;

#[derive(Debug)]
pub(crate) struct Scratch {
    dir: Option<TempDir>,
    sweeper: Child,
}

impl Scratch {
    /// Creates a folder for `server` in the folder for temporary files.
    pub(crate) fn new(server: &str) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(&format!("delaybridge-{server}-"))
            .tempdir()
            .during(format_args!("make a folder for {server}"))?;
        let sweeper = Command::new("sh")
            .args(["-c", SWEEP])
            .arg(dir.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .during("start sh to delete a folder later")?;
        Ok(Scratch { dir: Some(dir), sweeper })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.as_ref().expect("taken only on drop").path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.dir.take());
        // Closing its input ends it; it tries once more to delete the rest.
        let _ = self.sweeper.wait();
    }
}
