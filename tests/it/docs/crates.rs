//! The list of exposed crates: an update of one of them needs another look, so its version there must be the one that is built.

use std::collections::BTreeMap;

use super::read;

/// Returns the versions of each package of `Cargo.lock`.
fn locked(lock: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    for line in lock.lines() {
        if let Some(value) = line.strip_prefix("name = ") {
            name = value.trim_matches('"');
        } else if let Some(value) = line.strip_prefix("version = ") {
            versions.entry(name).or_default().push(value.trim_matches('"'));
        }
    }
    versions
}

/// Returns the rows of the table that do not name a crate of the lock file with its version.
fn outdated<'a>(page: &'a str, lock: &str) -> Vec<&'a str> {
    let locked = locked(lock);
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.filter(|row| {
        let mut cells = row.split('|').skip(1).map(|cell| cell.trim().trim_matches('`'));
        let name = cells.next().unwrap_or_default();
        let version = cells.next().unwrap_or_default();
        !locked.get(name).is_some_and(|versions| versions.contains(&version))
    })
    .collect()
}

#[test]
fn the_list_of_exposed_crates_has_the_versions_that_are_built() {
    let page = read("docs/exposed-crates.md");
    let lock = read("Cargo.lock");
    assert_eq!(page.lines().filter(|line| line.starts_with("| `")).count(), 20);
    assert_eq!(outdated(&page, &lock), [""; 0], "look at these crates again, then correct their rows");
    let updated = lock.replace("name = \"h2\"\nversion = \"", "name = \"h2\"\nversion = \"9");
    assert!(matches!(outdated(&page, &updated)[..], [row] if row.starts_with("| `h2`")));
}
