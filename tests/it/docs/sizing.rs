//! `docs/sizing.md`: what a daemon takes and delivers, written from `bench/results`. No other page has such a figure of its own.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{pages, project, read};

const PAGE: &str = "docs/sizing.md";
const BESIDE: &str = "2026-11-27-beside.txt";
const SINKS: &str = "2026-11-27-sinks.txt";
const DEEP: &str = "2026-11-27-deep.txt";
const BACKLOG: &str = "2026-11-21-memory.txt";
const PAYLOADS: &str = "2026-11-23-memory.txt";

/// One figure in a file of results.
struct Figure {
    file: &'static str,
    /// The heading above the line, or an empty text.
    under: &'static str,
    /// The first words of the line.
    line: &'static str,
    /// The field of the line; fields are two spaces or more apart.
    field: usize,
    /// The word of the field.
    word: usize,
}

const fn figure(file: &'static str, under: &'static str, line: &'static str, field: usize, word: usize) -> Figure {
    Figure { file, under, line, field, word }
}

const IDLE: Figure = figure(BESIDE, "", "== Idle:", 0, 8);
const IDLE_CPU: Figure = figure(BESIDE, "", "== Idle:", 0, 2);
const KAFKA: &str = "== 100000 pending to Kafka";
const IN_ORDER: &str = "order of offers  delaybridge ";
const AT_RANDOM: &str = "random           delaybridge ";
const ALONE: &str = "== Single elements";
const AMQP: &str = "== AMQP, this build";
/// The resident memory with the payloads that grow most.
const WORST: Figure = figure(PAYLOADS, "", "The shipped limit is 256 MiB:", 0, 18);

impl Figure {
    fn text(&self) -> String {
        let all = read(&format!("bench/results/{}", self.file));
        let start = all.find(self.under).unwrap_or_else(|| panic!("{} has no {:?}", self.file, self.under));
        let line = all[start..].lines().find(|line| line.starts_with(self.line));
        let line = line.unwrap_or_else(|| panic!("{} has no line {:?} below {:?}", self.file, self.line, self.under));
        let field = line.split("  ").map(str::trim).filter(|field| !field.is_empty()).nth(self.field);
        let word = field.and_then(|field| field.split_whitespace().nth(self.word));
        let word = word.unwrap_or_else(|| panic!("no field {} with word {} in {line:?}", self.field, self.word));
        let number = word.trim_end_matches("/s").trim_end_matches(',');
        assert!(number.parse::<f64>().is_ok(), "{number:?} is no number, in {line:?}");
        number.to_owned()
    }

    fn number(&self) -> f64 {
        self.text().parse().expect("a number")
    }

    /// A figure of megabytes, in mebibytes.
    fn mebibytes(&self) -> String {
        format!("{:.0}", self.number() * 1e6 / f64::from(1 << 20))
    }

    /// A rate, to two digits: runs differ by more than what is left out.
    fn rate(&self) -> String {
        let digits = 10_f64.powf(self.number().log10().floor() - 1.0);
        let rounded = ((self.number() / digits).round() * digits) as u64;
        assert!(rounded >= 1000, "thousands have a comma");
        format!("{},{:03}", rounded / 1000, rounded % 1000)
    }

    fn link(&self) -> String {
        format!("[{0}](../bench/results/{0})", self.file)
    }
}

/// The page, from the results.
fn page() -> String {
    let mut rows = String::new();
    let mut row =
        |what: &str, found: String, of: &Figure| rows.push_str(&format!("| {what} | {found} | {} |\n", of.link()));
    row("ten queues at rest", format!("{} MiB, {} % of a core", IDLE.text(), IDLE_CPU.text()), &IDLE);
    let many = figure(DEEP, "== 10,000 queues of which", "at rest ", 1, 5);
    let cpu = figure(DEEP, "== 10,000 queues of which", "at rest ", 1, 0);
    row("10,000 queues at rest", format!("{} MiB, {} % of a core", many.mebibytes(), cpu.text()), &many);
    let many = figure(DEEP, "== 10,000 queues of which", "busy ", 1, 5);
    let cpu = figure(DEEP, "== 10,000 queues of which", "busy ", 1, 0);
    row(
        "10,000 queues, 1,000 elements a second in all",
        format!("{} MiB, {} % of a core", many.mebibytes(), cpu.text()),
        &many,
    );
    let small = figure(BESIDE, KAFKA, IN_ORDER, 8, 0);
    row("a backlog of 256 B to Kafka, at full speed", format!("{} MiB", small.text()), &small);
    let large = figure(BACKLOG, "", "1,000 of 1 MB", 1, 0);
    row(
        "1,000 elements of 1 MB in ten queues, all due: `limits.in_flight_bytes` (64 MiB) is full",
        format!("{} MiB", large.mebibytes()),
        &large,
    );
    row(
        "the payloads that grow most when they are decoded, at once with elements of 16 MiB",
        format!("{} MiB", WORST.text()),
        &WORST,
    );

    let mut rates = String::new();
    let mut rate = |sink: &str, rate: Figure, cpu: String| {
        rates.push_str(&format!("| {sink} | {} | {cpu} | {} |\n", rate.rate(), rate.link()));
    };
    let each = |figure: Figure| format!("{:.1} us", figure.number() * 10.0);
    rate(
        "Kafka, in the order of offers",
        figure(BESIDE, KAFKA, IN_ORDER, 4, 0),
        each(figure(BESIDE, KAFKA, IN_ORDER, 6, 0)),
    );
    rate(
        "Kafka, due times at random",
        figure(BESIDE, KAFKA, AT_RANDOM, 4, 0),
        each(figure(BESIDE, KAFKA, AT_RANDOM, 6, 0)),
    );
    let us = |file, under, line| format!("{} us", figure(file, under, line, 1, 1).text());
    rate(
        "a topic of RocketMQ",
        figure(SINKS, "== RocketMQ, after", "100000 to a topic of RocketMQ  ", 1, 0),
        us(SINKS, "== RocketMQ, after", "100000 to a topic of RocketMQ, CPU each"),
    );
    rate(
        "a quorum queue of RabbitMQ",
        figure(BESIDE, AMQP, "100000 to a quorum queue  ", 1, 0),
        us(BESIDE, AMQP, "100000 to a quorum queue, CPU each"),
    );
    rate(
        "a classic queue of RabbitMQ",
        figure(BESIDE, AMQP, "100000 to a classic queue  ", 1, 0),
        us(BESIDE, AMQP, "100000 to a classic queue, CPU each"),
    );
    rate(
        "SQS (ElasticMQ)",
        figure(SINKS, "== SQS, after", "20000 to a queue of ElasticMQ  ", 1, 0),
        us(SINKS, "== SQS, after", "20000 to a queue of ElasticMQ, CPU each"),
    );
    let single = figure(BESIDE, ALONE, "1000/s  delaybridge ", 9, 0);
    format!(
        "# Sizing\n\n\
         <!-- Written by a test from bench/results (tests/it/docs/sizing.rs). -->\n\n\
         What one daemon takes and delivers, for whoever sets its limits. All servers ran on the same machine with two cores: with cores of its\n\
         own it delivers more. `make bench` measures your machine ([bench/README.md](../bench/README.md)).\n\n\
         | resident memory | measured | results |\n|---|---|---|\n{rows}\n\
         | elements a second from one queue to | measured | CPU of the daemon for each | results |\n|---|---|---|---|\n{rates}\n\
         Elements that fall due one by one cannot share a claim: at 1,000 a second, each took {} us of the daemon's CPU\n\
         ({}).\n\n\
         - **Daemons**: two are for the failure of a node, seldom for speed. A queue with `order: queue` is delivered by one.\n\
         - **Memory**: the limit of 256 MiB in `deploy` is for the defaults of `limits.in_flight_bytes` and `max_decoded_size`. Raise it with them, and\n  \
         for elements of more than 16 MiB: one above the bound is delivered alone, but is in memory [twice or more](limits.md#bounds).\n\
         - **CPU**: no limit, because throttling makes deliveries late.\n\
         - [limits.md](limits.md#measured-not-bounded) has what very large queues, and very many, cost.\n",
        single.text(),
        single.link(),
    )
}

#[test]
fn the_page_has_the_figures_of_the_results() {
    let (path, page): (PathBuf, _) = (project().join(PAGE), page());
    if fs::read_to_string(&path).ok().as_deref() != Some(page.as_str()) {
        fs::write(&path, page).expect("write the page");
        panic!("{PAGE} was out of date and has been rewritten: look at it and commit it");
    }
}

/// What the manifests ask for, in MiB.
#[test]
fn the_manifests_have_room_for_what_was_measured() {
    let values: Value = serde_yaml::from_str(&read("deploy/helm/delaybridge/values.yaml")).expect("YAML");
    let mebibytes = |kind: &str| -> f64 {
        let text = values["resources"][kind]["memory"].as_str().and_then(|text| text.strip_suffix("Mi"));
        text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{kind}: {}", values["resources"]))
    };
    assert!(mebibytes("requests") > IDLE.number());
    assert!(mebibytes("limits") > WORST.number());
}

/// Words by which a page would give a figure of its own. `docs/comparison.md` compares programs in one run, and links to it.
const FIGURES: &[&str] = &[
    "MB idle",
    "MiB idle",
    "MB while idle",
    "MB and two connections",
    "ten thousand elements a second",
    "000 elements a second from",
    "000 elements a second to",
    "daemon delivers some",
    "pod delivers some",
    "% of a core. No CPU",
    "elements a second take",
];

#[test]
fn no_other_page_has_such_a_figure() {
    let deployed = [
        "deploy/helm/delaybridge/values.yaml",
        "deploy/helm/delaybridge/README.md",
        "deploy/kubernetes/base/deployment.yaml",
        "deploy/kubernetes/components/sidecar/sidecar.yaml",
        "deploy/systemd/delaybridge.service",
        "compose.yaml",
    ];
    let all = pages().into_iter().chain(deployed.map(str::to_owned));
    for page in all.filter(|page| page != PAGE && page != "docs/comparison.md" && page != "CHANGELOG.md") {
        // A sentence may go over several lines, also of comments.
        let text = read(&page).replace('#', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        for figure in FIGURES {
            assert!(!text.contains(figure), "{page} has {figure:?}: link to {PAGE} instead");
        }
    }
}
