//! `check`: everything that is wrong with the configuration, or the settings in effect. Prints no secret.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use clap::Args;

use super::access::environment;
use super::alike::{alike, first_few};
use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::table::TextTable;
use delaybridge_config::{Loaded, Needs};
use delaybridge_model::Config;
use delaybridge_ops::check::{ConfigCheck, Health, LiveFinding};
use delaybridge_ops::plural;
use delaybridge_settings::problem::{ConfigErrors, Problem};

/// Report all mistakes of the configuration, or show the settings in effect.
///
/// Each problem has its place and a correction. Without --live it does not connect; with --live it checks server,
/// rights, queues and sinks, and changes nothing. What is the same for more than three queues is said once; --output json
/// has it for each.
///
/// file -> problems | settings -> (--live) Redis -> rights -> queues -> sinks -> inputs
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct CheckArgs {
    /// Connect, and check that the daemon would work
    #[arg(long)]
    pub live: bool,
    /// Variables and files with secrets and certificates may be missing, as in CI
    #[arg(long, conflicts_with = "live")]
    pub without_secrets: bool,
}

const AFTER: &str = "\
Examples:
  delaybridge check --config delaybridge.yaml
  delaybridge check --live --output json
  delaybridge check --without-secrets --config deploy/delaybridge.yaml   as CI does

Exit codes: 0 it can be run, 1 --live found something that must be fixed, 2 the configuration is wrong";

pub(super) async fn run(global: &Global, args: &CheckArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let mut read = if args.without_secrets {
        // The clients of the sinks would look for their files.
        delaybridge_config::load_for(&global.config, &environment, Needs::Nothing)
    } else {
        delaybridge_config::load_with_clients(&global.config, &environment)
    };
    if let Ok(loaded) = &mut read {
        loaded.config = global.redis.over(loaded.config.clone())?;
    }
    let check = check(&read, args.live).await;
    answer(global, out, &check, |check| {
        let mut text = text(&global.config, &read, check);
        if args.without_secrets && check.ok {
            text.push_str("Secrets and certificates were not looked at: where one is missing, the settings show 1.\n");
        }
        text
    })?;
    Ok(code(&check))
}

async fn check(read: &Result<Loaded, ConfigErrors>, live: bool) -> ConfigCheck {
    match read {
        Err(errors) => ConfigCheck::refused(errors),
        Ok(loaded) => {
            let settings = delaybridge_config::describe_json(&loaded.config);
            ConfigCheck::of(&loaded.config, &loaded.warnings, settings, live).await
        }
    }
}

fn code(check: &ConfigCheck) -> u8 {
    match (check.ok, check.problems.is_empty()) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

fn text(path: &Path, read: &Result<Loaded, ConfigErrors>, check: &ConfigCheck) -> String {
    let mut text = warnings(&check.warnings);
    let loaded = match read {
        Ok(loaded) => loaded,
        Err(errors) => return format!("{text}{errors}\n"),
    };
    let doubts = match check.warnings.len() {
        0 => String::new(),
        some => format!(", with {} above", plural::count(some, "warning")),
    };
    text.push_str(&notes(&loaded.config));
    let path = path.display();
    match &check.live {
        None => {
            text.push_str(&delaybridge_config::describe(&loaded.config));
            text.push_str(&format!("\n{path} can be run{doubts}. Above: the settings in effect.\n"));
        }
        Some(findings) => {
            let mut table = TextTable::new("WHAT|STATE|DETAIL");
            for (what, finding) in grouped(&loaded.config, findings) {
                table.row([what, state(finding).to_owned(), finding.detail.clone()]);
            }
            text.push_str(&table.render());
            text.push_str(&match check.failed() {
                0 => format!("\n{path} can be run{doubts}. Nothing was changed.\n"),
                some => format!(
                    "\n{} to be fixed before it can be run. Nothing was changed.\n",
                    plural::count(some, "thing")
                ),
            });
        }
    }
    text
}

/// Returns the warnings about the file, those that many queues have once.
fn warnings(all: &[Problem]) -> String {
    let all: Vec<_> = all.iter().collect();
    let mut text = String::new();
    for group in alike(&all, |warning| (&warning.message, &warning.help)) {
        let Some((first, others)) = group.split_first() else { continue };
        text.push_str(&format!("warning: {first}\n"));
        if !others.is_empty() {
            let paths: Vec<_> = others.iter().map(|other| &*other.path).collect();
            text.push_str(&format!("  the same at {}\n", first_few(&paths)));
        }
        text.push('\n');
    }
    text
}

/// Returns the notes about queues.
fn notes(config: &Config) -> String {
    let all: Vec<_> = config.queues.iter().filter_map(|spec| Some((&*spec.id, spec.source.note()?))).collect();
    let mut text = String::new();
    for group in alike(&all, |(_, note)| note) {
        let ids: Vec<_> = group.iter().map(|(id, _)| *id).collect();
        let queues = if ids.len() > 1 { "queues" } else { "queue" };
        let note = group.first().map_or("", |(_, note)| note);
        text.push_str(&format!("note: {queues} {}: {note}\n\n", first_few(&ids)));
    }
    text
}

/// Returns the findings with what they are about; what is wrong in the same way with many queues is one of them.
fn grouped<'a>(config: &Config, findings: &'a [LiveFinding]) -> Vec<(String, &'a LiveFinding)> {
    let ids: HashSet<&str> = config.queues.iter().map(|spec| &*spec.id).collect();
    // `queue orders`, `queue orders: rights`.
    let part_of = |finding: &'a LiveFinding| {
        let rest = finding.what.strip_prefix("queue ")?;
        let (id, part) = if ids.contains(rest) { (rest, "") } else { rest.rsplit_once(": ")? };
        (ids.contains(id) && finding.state != Health::Well).then_some((id, part))
    };
    let all: Vec<_> = findings.iter().enumerate().collect();
    let groups = alike(&all, |(number, finding)| match part_of(finding) {
        Some((_, part)) => Ok((part, state(finding), &finding.detail)),
        None => Err(number),
    });
    let row = |group: Vec<(usize, &'a LiveFinding)>| {
        let (_, first) = *group.first()?;
        let parts: Vec<_> = group.iter().filter_map(|(_, finding)| part_of(finding)).collect();
        let what = match parts.as_slice() {
            [(_, part), _, ..] => {
                let ids: Vec<_> = parts.iter().map(|(id, _)| *id).collect();
                let part = if part.is_empty() { String::new() } else { format!(": {part}") };
                format!("queues {}{part}", first_few(&ids))
            }
            _ => first.what.clone(),
        };
        Some((what, first))
    };
    groups.into_iter().filter_map(row).collect()
}

fn state(finding: &LiveFinding) -> &'static str {
    match finding.state {
        Health::Well => "ok",
        Health::Warning => "warning",
        Health::Failed => "FAILED",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the exit code, the text, and the JSON.
    async fn run(yaml: &str) -> (u8, String, Value) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.yaml");
        std::fs::write(&path, yaml).unwrap();
        let read = delaybridge_config::load_with_clients(&path, &|_| None);
        let check = check(&read, false).await;
        (code(&check), text(&path, &read, &check), serde_json::to_value(&check).unwrap())
    }

    const GOOD: &str = "redis: { url: 'redis://:geheim@h' }\nsinks: { out: { stdout: } }\n\
        queues: { q: { source: { redisson: { name: n } }, to: [{ sink: out }] } }\n";

    #[tokio::test]
    async fn a_good_file_shows_its_settings_without_the_password() {
        let (code, text, _) = run(GOOD).await;
        assert_eq!(code, 0);
        assert!(text.contains("warning: ") && text.contains("c.yaml:1:15: redis.url"), "{text}");
        assert!(text.contains("  password: (hidden)\n"), "{text}");
        assert!(text.contains("    lease: 30s\n"), "{text}");
        assert!(text.contains("      - sink: out\n        envelope: raw\n"), "{text}");
        assert!(text.contains("can be run, with 1 warning above."), "{text}");
        assert!(!text.contains("geheim"), "{text}");
    }

    #[tokio::test]
    async fn json_says_the_same() {
        let (code, _, answer) = run(GOOD).await;
        assert_eq!((code, &answer["ok"]), (0, &json!(true)));
        assert_eq!(answer["settings"]["queues"]["q"]["retry"]["max_attempts"], 10);
        assert_eq!(answer["warnings"][0]["line"], 1);
        assert!(!answer.to_string().contains("geheim"), "{answer}");

        let (code, _, answer) = run("redis: 5\n").await;
        assert_eq!((code, &answer["ok"], &answer["settings"]), (2, &json!(false), &json!(null)));
        assert_eq!(answer["problems"][0]["message"], "`queues` is missing");
    }

    #[tokio::test]
    async fn a_bad_file_lists_its_problems_and_their_number() {
        let (code, text, _) = run("redis: { url: 'redis://h', passwort: x }\nsinks: {}\nqueues: {}\n").await;
        assert_eq!(code, 2);
        assert!(text.contains("c.yaml:1:28: redis.passwort\n  unknown key\n  did you mean `password`?\n"), "{text}");
        assert!(text.ends_with("2 problems in the configuration\n"), "{text}");
    }

    #[tokio::test]
    async fn what_many_queues_have_is_said_once() {
        let queue =
            |n| format!("  q{n}: {{ source: {{ zset: {{ key: k{n}, score: ms }} }}, to: [{{ sink: out }}] }}\n");
        let yaml = |count: u32| {
            let queues: String = (1..=count).map(queue).collect();
            let redis = "redis: { url: 'redis://h', command_timeout: 20s }";
            format!("{redis}\nsinks: {{ out: {{ redis: {{ list: l }} }} }}\nqueues:\n{queues}")
        };
        let (code, text, answer) = run(&yaml(100)).await;
        assert_eq!((code, text.matches("warning: ").count(), text.matches("note: ").count()), (0, 1, 1), "{text}");
        let same = "  the same at queues.q2.lease, queues.q3.lease, queues.q4.lease and 96 more\n\n";
        assert!(text.contains(same) && text.contains("note: queues q1, q2, q3 and 97 more: "), "{text}");
        assert!(text.contains("with 100 warnings above"), "{text}");
        assert_eq!(
            (answer["warnings"].as_array().map(Vec::len), answer["notes"].as_array().map(Vec::len)),
            (Some(100), Some(100))
        );
        let (_, text, _) = run(&yaml(3)).await;
        assert_eq!((text.matches("warning: ").count(), text.matches("note: queue q").count()), (3, 3), "{text}");
    }

    #[test]
    fn a_finding_about_many_queues_is_one_row() {
        let queues: String = (1..=5)
            .map(|n| format!("  q{n}: {{ source: {{ redisson: {{ name: n{n} }} }}, to: [{{ sink: out }}] }}\n"))
            .collect();
        let yaml = format!("redis: {{ url: 'redis://h' }}\nsinks: {{ out: {{ stdout: }} }}\nqueues:\n{queues}");
        let config = delaybridge_config::load_str(&yaml, "c.yaml", &|_| None).unwrap().config;
        let finding = |what: String, state, detail: &str| LiveFinding { what, state, detail: detail.to_owned() };
        let mut findings = vec![finding("redis h".to_owned(), Health::Warning, "slow")];
        for n in 1..=5 {
            findings.push(finding(format!("queue q{n}"), Health::Well, "0 scheduled"));
            findings.push(finding(format!("queue q{n}: rights"), Health::Warning, "unknown"));
            findings.push(finding(format!("queue q{n}: expiry"), Health::Failed, &format!("key {n}")));
            findings.push(finding(format!("queue x{n}: rights"), Health::Warning, "unknown"));
        }
        let rows: Vec<_> = grouped(&config, &findings).into_iter().map(|(what, _)| what).collect();
        assert_eq!(
            rows.iter().filter(|row| row.contains("queues")).collect::<Vec<_>>(),
            ["queues q1, q2, q3 and 2 more: rights"]
        );
        assert_eq!((rows.len(), rows[2].as_str()), (17, "queues q1, q2, q3 and 2 more: rights"));
    }
}
