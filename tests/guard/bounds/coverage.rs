//! The check that every script has a case.

use std::path::{Path, PathBuf};

/// Collects the files below a folder with this ending.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
}

/// The scripts with a cost independent of the stored data.
const CONSTANT: [(&str, &str); 18] = [
    ("crates/ledger/src/scripts/pause.lua", "a few fields of one small hash"),
    ("crates/ledger/src/scripts/others.lua", "the same"),
    ("crates/ledger/src/scripts/look.lua", "counts in at most 1,000 keys, each by its ranks"),
    ("crates/ledger/src/claims/scripts/order/leave.lua", "the same"),
    ("crates/ledger/src/fsck/scripts/field.lua", "the same"),
    ("crates/source/src/redisson/scripts/fsck/sweep.lua", "the same"),
    ("crates/jobs/src/scripts/counts.lua", "the sizes of at most 750 keys, each of which Redis knows"),
    ("crates/jobs/src/scripts/forget.lua", "looks whether keys are there, and removes one field"),
    ("crates/ledger/src/fsck/scripts/aside.lua", "one key gets another name"),
    ("crates/ledger/src/fsck/scripts/persist.lua", "one key loses its time to live"),
    ("crates/ledger/src/fsck/scripts/end_lease.lua", "the name of one claim"),
    ("crates/ledger/src/fsck/scripts/give_lease.lua", "the name of one claim"),
    ("crates/ledger/src/fsck/scripts/shorten_lease.lua", "the name of one claim"),
    ("crates/ledger/src/fsck/scripts/member.lua", "one member that it is given"),
    ("crates/ledger/src/fsck/scripts/header.lua", "one member that it is given"),
    ("crates/ledger/src/fsck/scripts/copy.lua", "one member that it is given"),
    ("crates/ledger/src/fsck/scripts/no_body.lua", "one member that it is given"),
    ("crates/ledger/src/fsck/scripts/no_id.lua", "one member that it is given"),
];

/// A script documents its return value at its head; a part of one does not.
#[test]
fn every_script_has_a_case() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut scripts = Vec::new();
    let mut cases = Vec::new();
    for folder in ["src", "crates"] {
        files(&root.join(folder), "lua", &mut scripts);
    }
    files(&root.join("tests/guard/bounds"), "rs", &mut cases);
    let text = |path: &PathBuf| std::fs::read_to_string(path).expect("a file of the repository");
    let cases: String = cases.iter().map(text).collect();
    scripts.retain(|path| text(path).lines().any(|line| line.starts_with("-- Returns")));
    assert!(scripts.len() > 30, "{} scripts: are they found?", scripts.len());
    let name = |path: &PathBuf| path.strip_prefix(root).expect("below").to_str().expect("UTF-8").to_owned();
    let has_case = |name: &String| {
        let job = name.strip_prefix("crates/jobs/src/scripts/").and_then(|name| name.strip_suffix(".lua"));
        cases.contains(&format!("\"{name}\"")) || job.is_some_and(|job| cases.contains(&format!("script!(\"{job}\")")))
    };
    let constant = |name: &String| CONSTANT.iter().any(|(script, _)| script == name);
    let missing: Vec<_> = scripts.iter().map(name).filter(|name| !has_case(name) && !constant(name)).collect();
    assert!(missing.is_empty(), "without a case in tests/guard/bounds: {missing:?}");
}
