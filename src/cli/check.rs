//! `check`: everything that is wrong with the configuration, or the settings in effect.
//!
//! Connects nowhere itself. Prints no secret.

use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::live::{self, Finding, State};
use super::{Failed, Global, Output, show};
use crate::config::{self, ConfigErrors, Loaded, Problem};

/// Say what is wrong with the configuration, or show the settings in effect.
///
/// All problems are told at once, each with its place and what to do. Without --live nothing is connected to; with it,
/// server, rights, queues and sinks are looked at, and nothing is changed.
///
/// file -> problems | settings -> (--live) Redis -> rights -> queues -> sinks
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct CheckArgs {
    /// Connect, and say whether it would work
    #[arg(long)]
    pub live: bool,
}

const AFTER: &str = "\
Examples:
  delaybridge check --config delaybridge.yaml
  delaybridge check --live --output json

Exit codes: 0 it can be run, 1 --live found something that has to be mended, 2 the configuration is wrong";

pub(super) async fn run(global: &Global, args: &CheckArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let result = super::read(&global.config);
    let findings = match &result {
        Ok(loaded) if args.live => Some(live::look(&loaded.config).await),
        _ => None,
    };
    match global.output {
        Output::Json => json(&result, findings.as_deref(), out)?,
        Output::Text => text(&global.config, &result, findings.as_deref(), out)?,
    }
    Ok(code(&result, findings.as_deref()))
}

/// Warnings do not count.
fn code(result: &Result<Loaded, ConfigErrors>, findings: Option<&[Finding]>) -> u8 {
    match result {
        Err(_) => 2,
        Ok(_) => u8::from(failed(findings.unwrap_or_default()) > 0),
    }
}

fn failed(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.state == State::Failed).count()
}

fn json(result: &Result<Loaded, ConfigErrors>, findings: Option<&[Finding]>, out: &mut dyn Write) -> io::Result<()> {
    let (problems, warnings, settings) = match result {
        Ok(loaded) => (&[][..], &loaded.warnings[..], Some(config::describe_json(&loaded.config))),
        Err(errors) => (&errors.problems[..], &errors.warnings[..], None),
    };
    let mut answer = json!({
        "ok": code(result, findings) == 0,
        "problems": problems.iter().map(problem).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(problem).collect::<Vec<_>>(),
        "settings": settings,
    });
    if let Some(findings) = findings {
        answer["live"] = live::json(findings);
    }
    writeln!(out, "{answer:#}")
}

fn text(
    path: &Path,
    result: &Result<Loaded, ConfigErrors>,
    findings: Option<&[Finding]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let warnings = match result {
        Ok(loaded) => &loaded.warnings,
        Err(errors) => &errors.warnings,
    };
    for warning in warnings {
        writeln!(out, "warning: {warning}\n")?;
    }
    let loaded = match result {
        Ok(loaded) => loaded,
        Err(errors) => return writeln!(out, "{errors}"),
    };
    let doubts = match warnings.len() {
        0 => String::new(),
        some => format!(", with {} above", show::count(some, "warning")),
    };
    match findings {
        None => {
            write!(out, "{}", config::describe(&loaded.config))?;
            writeln!(out, "\n{} can be run{doubts}. Above: the settings in effect.", path.display())
        }
        Some(findings) => {
            write!(out, "{}", live::text(findings))?;
            match failed(findings) {
                0 => writeln!(out, "\n{} can be run{doubts}. Nothing was changed.", path.display()),
                some => writeln!(
                    out,
                    "\n{} to be mended before it can be run. Nothing was changed.",
                    show::count(some, "thing")
                ),
            }
        }
    }
}

fn problem(problem: &Problem) -> Value {
    json!({
        "file": problem.file,
        "line": problem.position.map(|position| position.line),
        "column": problem.position.map(|position| position.column),
        "path": problem.path,
        "message": problem.message,
        "help": problem.help,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, as_json: bool) -> (u8, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.yaml");
        std::fs::write(&path, text).unwrap();
        let mut out = Vec::new();
        let result = config::load(&path, &|_| None);
        match as_json {
            true => json(&result, None, &mut out).unwrap(),
            false => super::text(&path, &result, None, &mut out).unwrap(),
        }
        (code(&result, None), String::from_utf8(out).unwrap())
    }

    const GOOD: &str = "redis: { url: 'redis://:geheim@h' }\nsinks: { out: { stdout: } }\n\
        queues: { q: { source: { redisson: { name: n } }, to: [{ sink: out }] } }\n";

    #[test]
    fn a_good_file_shows_its_settings_without_the_password() {
        let (code, text) = run(GOOD, false);
        assert_eq!(code, 0);
        assert!(text.contains("warning: ") && text.contains("c.yaml:1:15: redis.url"), "{text}");
        assert!(text.contains("  password: (hidden)\n"), "{text}");
        assert!(text.contains("    lease: 30s\n"), "{text}");
        assert!(text.contains("      - sink: out\n        envelope: raw\n"), "{text}");
        assert!(text.contains("can be run, with 1 warning above."), "{text}");
        assert!(!text.contains("geheim"), "{text}");
    }

    #[test]
    fn json_says_the_same() {
        let (code, text) = run(GOOD, true);
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &answer["ok"]), (0, &json!(true)));
        assert_eq!(answer["settings"]["queues"]["q"]["retry"]["max_attempts"], 10);
        assert_eq!(answer["warnings"][0]["line"], 1);
        assert!(!text.contains("geheim"), "{text}");

        let (code, text) = run("redis: 5\n", true);
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &answer["ok"], &answer["settings"]), (2, &json!(false), &json!(null)));
        assert_eq!(answer["problems"][0]["message"], "`queues` is missing");
    }

    #[test]
    fn a_bad_file_lists_its_problems_and_their_number() {
        let (code, text) = run("redis: { url: 'redis://h', passwort: x }\nsinks: {}\nqueues: {}\n", false);
        assert_eq!(code, 2);
        assert!(text.contains("c.yaml:1:28: redis.passwort\n  unknown key\n  did you mean `password`?\n"), "{text}");
        assert!(text.ends_with("2 problems in the configuration\n"), "{text}");
    }
}
