//! Watches the file, and the files that it names. Contents are compared, not times or names: editors replace files,
//! Kubernetes swaps a symbolic link above them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::Instant;
use crate::config::hash_of_file;
use crate::reload::ReloadHandle;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// What was refused may be good without a change of its own: a password file that it names comes later.
const AGAIN: Duration = Duration::from_secs(60);

/// Contents of files, as hashes; none of one that cannot be read.
type Contents = BTreeMap<PathBuf, Option<u64>>;

/// Asks for a reload when contents have changed, also those of the time before a refused one.
pub(super) async fn run(path: PathBuf, handle: ReloadHandle, watching: bool) {
    if !watching {
        return std::future::pending().await;
    }
    let mut known = at_start(&path, &handle).await;
    let (mut seen, mut refused) = (known.clone(), None::<Instant>);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = look(&path, &handle).await;
        // Twice the same: it is not being written.
        let settled = std::mem::replace(&mut seen, now.clone()) == now;
        let again = refused.is_some_and(|at| at.elapsed() >= AGAIN);
        if settled && (now != known || again) {
            refused = handle.reload(false).await.is_err().then(Instant::now);
            // The files that it names now may be others.
            let named = look(&path, &handle).await;
            let before = |path: &Path, hash| now.get(path).copied().unwrap_or(hash);
            known = named.into_iter().map(|(path, hash)| (path.clone(), before(&path, hash))).collect();
            seen = known.clone();
        }
    }
}

/// What was read at the start, which need not be what is there now.
async fn at_start(path: &Path, handle: &ReloadHandle) -> Contents {
    let mut contents = look(path, handle).await;
    contents.extend(handle.parts().files().map(|(path, hash)| (path.to_owned(), Some(hash))));
    contents
}

async fn look(path: &Path, handle: &ReloadHandle) -> Contents {
    let (parts, path) = (handle.parts(), path.to_owned());
    let read = move || {
        let named = parts.files().map(|(path, _)| path.to_owned());
        named.chain([path]).map(|path| (path.clone(), hash_of_file(&path))).collect()
    };
    // Files may be on a slow network.
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}
