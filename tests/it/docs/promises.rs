//! What several pages say about one thing: no page says more than the one that has the details.

use super::{pages, read};

/// The text of a page, with one blank between words.
fn words(page: &str) -> String {
    read(page).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_readme_is_read_in_some_minutes() {
    let count = read("README.md").split_whitespace().count();
    assert!(count <= 900, "README.md has {count} words: move what is in another page there, and link to it");
}

#[test]
fn pages_agree_on_who_needs_a_token() {
    for page in ["docs/security.md", "docs/admin.md"] {
        let open = "Without `tokens_file`, clients on the same machine need no token";
        assert!(words(page).contains(open), "{page} does not say: {open}");
    }
    assert!(
        words("docs/threat-model.md")
            .contains("operators' port, `http.admin` | this machine; with `tokens_file` who has a token")
    );
}

/// Sentences that were on a page and are not true, with the page that has the limits.
const UNTRUE: [(&str, &str); 2] = [
    ("every possible second delivery", "docs/guarantees.md has second deliveries that nothing announces"),
    (
        "requires a token of `tokens_file` to show",
        "docs/admin.md: without a file, clients on the same machine need none",
    ),
];

#[test]
fn no_page_promises_more_than_another_keeps() {
    for page in pages().iter().filter(|page| *page != "CHANGELOG.md") {
        let text = words(page);
        for (promise, truth) in UNTRUE {
            assert!(!text.contains(promise), "{page} says {promise:?}, but {truth}");
        }
    }
}

/// Files with a Redisson queue that a reader copies.
const COPIED: [&str; 9] = [
    "README.md",
    "config.example.yaml",
    "deploy/compose/delaybridge.yaml",
    "deploy/kubernetes/overlays/deployment/delaybridge.yaml",
    "deploy/kubernetes/overlays/sidecar/delaybridge.yaml",
    "docs/migrating.md",
    "docs/tutorials/kafka-team.md",
    "docs/tutorials/kubernetes-team.md",
    "docs/tutorials/redisson-team.md",
];

/// A reader whose Java names no codec copies a wrong one otherwise.
#[test]
fn whatever_is_copied_says_which_codec_is_redissons_default() {
    for file in COPIED {
        let text = words(file);
        assert!(text.contains("kryo5"), "{file} does not name kryo5, Redisson's default since 3.19");
        let shown = text.contains("discover") || file.contains("compose");
        assert!(shown, "{file} does not say that `delaybridge discover` recognises the codec");
    }
}
