//! The pages of the runbook: their links, the panels that they name, and their commands.

use super::panels::rows;
use super::read;
use harness::daemon::{ConfigFile, cli};

const PAGES: &[&str] = &["docs/operations.md", "docs/alerts.md", "docs/health.md"];

fn pages() -> String {
    PAGES.iter().map(|page| read(page)).collect()
}

/// All texts between the two delimiters.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(open).skip(1).filter_map(move |rest| Some(rest.split_once(close)?.0))
}

#[test]
fn links_lead_to_sections() {
    PAGES.iter().for_each(|page| links_of_a_page_lead_to_sections(&read(page)));
}

fn links_of_a_page_lead_to_sections(page: &str) {
    // As GitHub makes them: lower case, dashes for blanks, nothing else.
    let anchor = |heading: &str| -> String {
        let kept =
            heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -".contains(*c)).collect::<String>();
        kept.replace(' ', "-")
    };
    let headings =
        page.lines().filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches('#').trim()));
    let anchors: Vec<String> = headings.collect();
    for link in between(page, "](#", ")") {
        assert!(anchors.iter().any(|anchor| anchor == link), "#{link} leads nowhere");
    }
}

#[test]
fn the_panels_that_they_name_are_on_the_dashboard() {
    // A name may be broken over two lines.
    let page = pages().split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = rows();
    let titles: Vec<&str> = rows.iter().flat_map(|row| &row.panels).map(|panel| panel.title).collect();
    let mut named = 0;
    for title in ["anel \"", "anels \"", "\" and \""].iter().flat_map(|before| between(&page, before, "\"")) {
        assert!(titles.contains(&title), "there is no panel {title:?}");
        named += 1;
    }
    assert!(named > 10, "{named} panels are named");
}

#[test]
fn their_commands_are_commands() {
    let config = ConfigFile::new("");
    let page = pages();
    let commands: Vec<&str> = between(&page, "`delaybridge ", "`").collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let words = command.replace("QUEUE", "q").replace("ID...", "ID").replace("ID", "0123456789abcdef");
        // With help as the last word, the words before it are parsed, and nothing is executed.
        let mut words: Vec<&str> = words.split(' ').collect();
        words.push("--help");
        let output = cli(&config, &words);
        assert!(output.status.success(), "delaybridge {command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
