//! Links between pages, and the list of pages of the documentation site: no target is missing. Only the pages are read;
//! addresses of other sites are not requested.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{pages, project, read};

/// Pages of the site that are in other folders.
const ELSEWHERE: &[&str] = &["bench/README.md", "deploy/helm/delaybridge/README.md"];

fn all() -> Vec<String> {
    pages().into_iter().chain(ELSEWHERE.iter().map(|page| (*page).to_owned())).collect()
}

/// The lines of a page outside of its code blocks, with their numbers.
fn prose(page: &str) -> Vec<(usize, &str)> {
    let mut open = false;
    let lines = page.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        open ^= fence;
        !open && !fence
    });
    lines.map(|(number, line)| (number + 1, line)).collect()
}

/// The text without the parts in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("x")
}

/// The targets of the links of a page, with their lines.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(page) {
        let line = without_code(line);
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| (number, target.to_owned())));
    }
    found
}

/// The anchors of a page's headings, which are the same in the forge and on the site.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(page).into_iter().filter_map(|(_, line)| {
        let text = line.trim_start_matches('#');
        (line.starts_with('#') && text.starts_with(' ')).then(|| anchor(text.trim()))
    });
    let mut named = BTreeSet::new();
    for name in headings {
        let count = times.entry(name.clone()).or_default();
        named.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    named
}

fn anchor(heading: &str) -> String {
    // For a link in a heading, only its text.
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
    let text = std::iter::once(first).chain(rest).collect::<String>();
    let letters = text.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter if letter.is_alphanumeric() => Some(letter),
        _ => None,
    });
    letters.flat_map(char::to_lowercase).collect()
}

/// The path of a link from this page, relative to the root of the repository; `None` if it leads out of it.
fn resolved(page: &str, target: &str) -> Option<PathBuf> {
    let mut path = Path::new(page).parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[test]
fn every_link_has_its_target() {
    let mut wrong = Vec::new();
    for page in all() {
        let text = read(&page);
        for (line, target) in links(&text) {
            if target.starts_with("https://") || target.starts_with("http://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').map_or((target.as_str(), None), |(file, h)| (file, Some(h)));
            let to = if file.is_empty() { Some(PathBuf::from(&page)) } else { resolved(&page, file) };
            let Some(to) = to.filter(|to| project().join(to).exists()) else {
                wrong.push(format!("{page}:{line}: {target}: no such file"));
                continue;
            };
            let is_page = to.extension().is_some_and(|extension| extension == "md");
            match heading {
                Some(heading) if is_page && !anchors(&read(&to.to_string_lossy())).contains(heading) => {
                    wrong.push(format!("{page}:{line}: {target}: no such heading"));
                }
                Some(_) if !is_page => wrong.push(format!("{page}:{line}: {target}: only pages have headings")),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_summary_has_every_page_once() {
    let summary = "docs/SUMMARY.md";
    let listed: Vec<_> =
        links(&read(summary)).into_iter().map(|(_, target)| resolved(summary, &target).expect("a page")).collect();
    let unique: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(unique.len(), listed.len(), "a page is there twice");
    let wanted: BTreeSet<_> = all().into_iter().filter(|page| page != summary).map(PathBuf::from).collect();
    assert_eq!(unique, wanted);
}

#[test]
fn a_link_and_a_heading_are_read_as_a_forge_reads_them() {
    let page = "# A `b.C[]`: d, _e_ (f)\n\n## Same\n\n## Same\n\n[x](y.md#z) `[no](link)` [p](q)\n\n```text\n[no](link)\n# no\n```\n";
    assert_eq!(links(page), [(7, "y.md#z".to_owned()), (7, "q".to_owned())]);
    assert_eq!(anchors(page), ["a-bc-d-_e_-f", "same", "same-1"].map(str::to_owned).into());
    assert_eq!(resolved("docs/a.md", "../b.md"), Some("b.md".into()));
    assert_eq!(resolved("docs/a.md", "../../b.md"), None);
}
