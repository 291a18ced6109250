//! The formats of everything that the daemon keeps in Redis, as bytes that were recorded once. A change of a format fails here,
//! so that it gets a version; what an earlier version has written must be read; what a newer one has written must stay.
//!
//! `tests/vectors/formats/N.jsonl` has every key after [`scenario`], one on each line. The last N is what this version writes.

mod dump;
mod newer;
mod recorded;
mod scenario;

use std::path::PathBuf;

use dump::{Dump, masked};

/// The recorded formats, the oldest first.
fn recordings() -> Vec<(PathBuf, Dump)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/formats");
    let files = (1..).map(|n| folder.join(format!("{n}.jsonl"))).take_while(|file| file.exists());
    let all: Vec<_> = files.map(|file| (file.clone(), Dump::load(&file))).collect();
    assert!(!all.is_empty(), "no recording in {}", folder.display());
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_has_the_format_that_was_recorded() {
    let dump = scenario::run().await;
    let fresh = std::env::temp_dir().join("delaybridge-formats.jsonl");
    dump.save(&fresh);
    let (file, recorded) = recordings().pop().expect("a recording");
    let ours = masked(&dump);
    let theirs = masked(&recorded);
    let differing: Vec<_> = ours.symmetric_difference(&theirs).collect();
    assert!(
        differing.is_empty(),
        "a format has changed since {}:\n{differing:#?}\nDaemons of other versions read the same keys. Give the new format a \
         version that they leave alone (docs/upgrading.md), read both, and copy {} to the next number beside it.",
        file.display(),
        fresh.display()
    );
}
