//! Watches the configuration file and the files that it names. It compares contents, not times or names, because
//! editors replace files and Kubernetes swaps a symbolic link above them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use delaybridge_config::STANDARD_INPUT;
use delaybridge_core::clock::Instant;
use delaybridge_ops::reload::ReloadHandle;
use delaybridge_settings::files;

/// Interval between two reads of the files.
const LOOK: Duration = Duration::from_secs(2);
/// Time until a refused file is tried again. It may become valid without a change: a password file may appear later.
const AGAIN: Duration = Duration::from_secs(60);

/// The hashes of the files' contents; `None` for a file that cannot be read.
type Contents = BTreeMap<PathBuf, Option<u64>>;

/// Requests a reload when contents have changed, also while an earlier change was refused.
pub(super) async fn run(path: PathBuf, handle: ReloadHandle, watching: bool) {
    if !watching {
        return std::future::pending().await;
    }
    let mut known = at_start(&path, &handle).await;
    let mut seen = known.clone();
    let mut refused = None::<Instant>;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = look(&path, &handle).await;
        // Two equal reads: nobody is writing the file.
        let settled = std::mem::replace(&mut seen, now.clone()) == now;
        let again = refused.is_some_and(|at| at.elapsed() >= AGAIN);
        if settled && (now != known || again) {
            refused = handle.reload(false).await.is_err().then(Instant::now);
            // The new configuration may name other files.
            let named = look(&path, &handle).await;
            let before = |path: &Path, hash| now.get(path).copied().unwrap_or(hash);
            known = named.into_iter().map(|(path, hash)| (path.clone(), before(&path, hash))).collect();
            seen = known.clone();
        }
    }
}

/// Returns the contents that were read at the start; the files may have changed since.
async fn at_start(path: &Path, handle: &ReloadHandle) -> Contents {
    let mut contents = look(path, handle).await;
    contents.extend(handle.parts().files().map(|(path, hash)| (path.to_owned(), Some(hash))));
    contents
}

async fn look(path: &Path, handle: &ReloadHandle) -> Contents {
    let parts = handle.parts();
    let path = path.to_owned();
    let read = move || {
        let named = parts.files().map(|(path, _)| path.to_owned());
        // What came by standard input cannot change.
        let own = Some(path).filter(|path| path.as_os_str() != STANDARD_INPUT);
        named.chain(own).map(|path| (path.clone(), files::hash(&path))).collect()
    };
    // On a blocking thread: files may be on a slow network.
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}
