//! `check`: everything that is wrong with the configuration, or the settings in effect. Prints no secret.

use std::io::Write;
use std::path::Path;

use clap::Args;

use super::access::environment;
use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::table::TextTable;
use delaybridge_config::{Loaded, Needs};
use delaybridge_ops::check::{ConfigCheck, Health};
use delaybridge_ops::plural;
use delaybridge_settings::problem::ConfigErrors;

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
    let mut text: String = check.warnings.iter().map(|warning| format!("warning: {warning}\n\n")).collect();
    let loaded = match read {
        Ok(loaded) => loaded,
        Err(errors) => return format!("{text}{errors}\n"),
    };
    let doubts = match check.warnings.len() {
        0 => String::new(),
        some => format!(", with {} above", plural::count(some, "warning")),
    };
    text.extend(check.notes.iter().map(|note| format!("note: {note}\n\n")));
    let path = path.display();
    match &check.live {
        None => {
            text.push_str(&delaybridge_config::describe(&loaded.config));
            text.push_str(&format!("\n{path} can be run{doubts}. Above: the settings in effect.\n"));
        }
        Some(findings) => {
            let mut table = TextTable::new("WHAT|STATE|DETAIL");
            for finding in findings {
                let state = match finding.state {
                    Health::Well => "ok",
                    Health::Warning => "warning",
                    Health::Failed => "FAILED",
                };
                table.row([finding.what.clone(), state.to_owned(), finding.detail.clone()]);
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
}
