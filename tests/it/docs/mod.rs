//! The examples in README and docs: every block of commands is run, every configuration passes `check`, or a comment
//! before the block says why not. `docs/migrating.md` has a test of its own (`moving/guide.rs`).

mod crates;
mod kinds;
mod links;
pub mod page;
mod promises;
mod sizing;
#[cfg(all(feature = "amqp", feature = "kafka"))]
mod tutorials;
mod walk;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use harness::daemon::{ConfigFile, cli};
use harness::tls::Pki;
use page::{Remark, blocks};
use walk::Walk;

/// The pages whose commands are all run by a test, in order.
const RUN: &[&str] = &[
    "README.md",
    "docs/codecs.md",
    "docs/conditions.md",
    "docs/http-api.md",
    "docs/migrating.md",
    "docs/security.md",
    "docs/testing-a-configuration.md",
    "docs/tutorials/delayed-messages.md",
    "docs/tutorials/kafka-team.md",
    "docs/tutorials/kubernetes-team.md",
    "docs/tutorials/redisson-team.md",
];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: &str) -> String {
    std::fs::read_to_string(project().join(page)).unwrap_or_else(|e| panic!("read {page}: {e}"))
}

fn pages() -> Vec<String> {
    let markdown = |folder: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(project().join(folder)).expect("read a folder of the project");
        entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|e| e == "md"))
            .collect()
    };
    let all = [".", "docs", "docs/cli", "docs/spec", "docs/tutorials"].into_iter().flat_map(markdown);
    let relative = |path: PathBuf| path.strip_prefix(project()).unwrap_or(&path).to_string_lossy().into_owned();
    let mut all: Vec<_> = all.map(relative).map(|page| page.trim_start_matches("./").to_owned()).collect();
    all.sort();
    all
}

/// The configuration with existing files instead of the reader's, because `check` reads them.
fn with_files(text: &str, pki: &Pki, password: &Path, secret: &Path) -> String {
    let files = [
        ("password_file: ", password),
        ("bearer_token_file: ", password),
        ("secret_file: ", secret),
        ("credentials_file: ", &secret.with_file_name("credentials")),
        ("ca_file: ", &pki.ca),
        ("cert_file: ", &pki.client_cert),
        ("key_file: ", &pki.client_key),
    ];
    files.iter().fold(text.to_owned(), |text, (key, file)| {
        let mut parts = text.split(key);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| {
            let end = part.find([' ', ',', '}', '\n']).unwrap_or(part.len());
            format!("{all}{key}{}{}", file.display(), &part[end..])
        })
    })
}

#[test]
fn every_block_is_run_or_checked_or_says_why_not() {
    let directory = TempDir::with_prefix("delaybridge-docs-").expect("make a directory for certificates");
    let pki = Pki::create(directory.path());
    let password = directory.path().join("password");
    harness::write_secret(&password, "secret\n");
    let secret = directory.path().join("secret");
    harness::write_secret(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    // A key of the documentation of NATS.
    let credentials = "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n-----BEGIN USER NKEY SEED-----\n\
                       SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n------END USER NKEY SEED------\n";
    harness::write_secret(&secret.with_file_name("credentials"), credentials);
    let mut wrong = Vec::new();
    for page in pages() {
        for block in blocks(&read(&page)) {
            let place = format!("{page}:{}", block.line);
            match (block.kind.as_str(), &block.remark) {
                ("text" | "ini" | "json", None) => {}
                (_, Some(Remark::NotRun(reason))) if !reason.is_empty() => {}
                ("yaml", Some(Remark::Cases)) if RUN.contains(&&*page) => {}
                ("sh", None) if RUN.contains(&&*page) => {}
                ("sh", _) => wrong.push(format!(
                    "{place}: no test runs these commands: add the page to RUN, or write `<!-- not run: REASON -->` before"
                )),
                ("yaml", remark) => {
                    let beside = if let Some(Remark::Beside(yaml)) = remark { yaml } else { "" };
                    let text = with_files(&format!("http: none\n{}{beside}\n", block.text), &pki, &password, &secret);
                    let config = ConfigFile::new(&text);
                    let output = cli(&config, &["check"]);
                    if !output.status.success() {
                        wrong.push(format!("{place}: {}", String::from_utf8_lossy(&output.stdout)));
                    }
                }
                (kind, _) => wrong.push(format!("{place}: a block of kind `{kind}`: sh, yaml, ini, json and text are known")),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_five_minutes_of_the_readme_end_with_a_delivery() {
    let mut walk = Walk::new("README.md").await;
    walk.until("delaybridge offer");
    walk.appears("hello, later").await;
    walk.ends().await;
}

#[tokio::test]
async fn the_commands_about_codecs_show_what_the_page_says() {
    let mut walk = Walk::new("docs/codecs.md").await;
    // "abc" in Kryo's format.
    walk.aside(r"printf '\003\141\142\343' | delaybridge offer order_timeout --delay 1h - --config delaybridge.yaml");
    let shown = walk.until("delaybridge decode");
    let told = ["codec   kryo5", "value   \"abc\""];
    assert!(told.iter().all(|line| shown.contains(line)), "{shown}");
    walk.ends().await;
}

#[tokio::test]
async fn the_commands_about_the_job_queue_take_a_job_through_its_life() {
    let mut walk = Walk::new("docs/http-api.md").await;
    let added = walk.until("curl -sS http://127.0.0.1:7777/v1/topics/orders/jobs");
    assert!(added.contains(r#""id":"orders~o-7","created":true"#), "{added}");
    let popped = walk.until("curl -sS -X POST 'http://127.0.0.1:7777/v1/topics/orders/pop");
    assert!(popped.contains(r#""body":"{\"orderId\":7}""#), "{popped}");
    walk.until("curl -sS -f -X PUT");
    assert!(walk.aside("curl -sS http://127.0.0.1:7777/v1/topics/orders").contains(r#""reserved":0"#));
    walk.until("grep -i");
    assert_eq!(std::fs::read(walk.file("body")).expect("read the body"), b"not \xff text");
    let held = walk.until("curl -sS 'http://127.0.0.1:7777/v1/topics/files/jobs?state=reserved'");
    assert!(held.contains(r#""state":"reserved""#), "{held}");
    walk.until("sha256sum");
    walk.ends().await;
}

#[tokio::test]
async fn the_cases_of_the_page_about_testing_come_true() {
    let mut walk = Walk::new("docs/testing-a-configuration.md").await;
    let shown = walk.until("delaybridge test");
    assert!(shown.contains("\n3 cases, all as expected\n"), "{shown}");
    let report = std::fs::read_to_string(walk.file("result.xml")).expect("read the report");
    assert!(report.contains(r#"<testsuite name="order.test.yaml" tests="3" failures="0""#), "{report}");
    let file = walk.file("order.test.yaml");
    let wrong = std::fs::read_to_string(&file).expect("read the cases").replace("key: 7,", "key: 8,");
    std::fs::write(&file, wrong).expect("write the cases");
    // The failure that the page shows, the other way round.
    let shown = walk.aside("delaybridge test order.test.yaml || test $? = 1");
    assert!(shown.contains("        deliver[events].key\n          expected  8\n          got       7\n"), "{shown}");
    walk.ends().await;
}

#[tokio::test]
async fn the_cases_of_the_page_about_conditions_come_true() {
    let mut walk = Walk::new("docs/conditions.md").await;
    assert!(walk.until("delaybridge test").contains("3 cases, all as expected"));
    walk.ends().await;
}

#[tokio::test]
async fn the_tutorial_for_a_platform_team_renders_its_chart() {
    let mut walk = Walk::new("docs/tutorials/kubernetes-team.md").await;
    walk.link("helm", &brokers::helm().unwrap_or_else(|e| panic!("{e}")));
    walk.link("deploy", &project().join("deploy"));
    assert!(walk.until("delaybridge test").contains("2 cases, all as expected"));
    let kinds = walk.until("grep");
    for kind in ["ConfigMap", "Deployment", "PodDisruptionBudget", "NetworkPolicy"] {
        assert!(kinds.contains(kind), "{kind} in {kinds}");
    }
    walk.until("! helm template");
    walk.ends().await;
}

#[tokio::test]
async fn a_user_made_as_the_page_on_security_says_may_do_everything() {
    let mut walk = Walk::new("docs/security.md").await;
    let shown = walk.until("delaybridge check --live");
    assert!(!shown.contains("unknown: that takes") && !shown.contains("FAILED"), "{shown}");
    // The rules for an older server are valid for a newer one as well.
    walk.aside("redis-cli ACL DELUSER delaybridge");
    walk.aside("delaybridge acl --redis 6 --config delaybridge.yaml | grep '^ACL' | redis-cli");
    walk.aside("redis-cli ACL SETUSER delaybridge \">$(cat password)\"");
    walk.aside("delaybridge check --live --config delaybridge.yaml");
    walk.until("delaybridge acl --for operator");
    walk.ends().await;
}
