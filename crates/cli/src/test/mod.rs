//! `test`: cases of a configuration. Connects to nothing.

mod junit;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::access::environment;
use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use crate::config_tests::{self, CaseResult};
use delaybridge_ops::content::escaped;
use delaybridge_ops::plural;
use delaybridge_settings::problem::ConfigErrors;

/// Test a configuration with cases, without any server.
///
/// Each case, in YAML, names a queue, an element, and what is expected: messages with destinations, keys, headers and
/// bodies, or a dead letter, a hold, a retry with its times. Cases take the daemon's way: its sources, codecs,
/// templates and retries.
///
/// case -> element -> decode -> route -> judge -> expected | different
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct TestArgs {
    /// Files with cases
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Write the result as JUnit XML to this file too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

const AFTER: &str = "\
Examples:
  delaybridge test config.example.test.yaml
  delaybridge test --junit result.xml tests/*.yaml --config delaybridge.yaml

docs/testing-a-configuration.md describes the files. `config` in a file names its configuration,
else --config.

Exit codes: 0 all cases are as expected, 1 some are not, 2 a file of cases or its configuration is wrong";

/// What was found out.
#[derive(Debug, Serialize)]
struct Tested {
    /// Whether all cases are as expected.
    ok: bool,
    /// Every case, in the order of the files.
    cases: Vec<CaseResult>,
}

pub(super) async fn run(global: &Global, args: &TestArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let mut suites = Vec::with_capacity(args.files.len());
    let mut wrong = Vec::new();
    for file in &args.files {
        match config_tests::read(file, &global.config, &environment, &|path, env| {
            Ok(delaybridge_config::load(path, env)?.config)
        }) {
            Ok(suite) => suites.push(suite),
            Err(ConfigErrors { problems, .. }) => wrong.extend(problems),
        }
    }
    if !wrong.is_empty() {
        let text: String = wrong.iter().map(|problem| format!("{problem}\n\n")).collect();
        return Err(Failed::usage(format!("{text}{}, nothing was tested", plural::count(wrong.len(), "problem"))));
    }
    let cases: Vec<_> = suites.iter().flat_map(config_tests::Suite::run).collect();
    let tested = Tested { ok: cases.iter().all(|case| case.ok), cases };
    if let Some(path) = &args.junit {
        let write = std::fs::write(path, junit::report(&tested.cases));
        write.map_err(|error| Failed::runtime(format!("write {}: {error}", path.display())))?;
    }
    answer(global, out, &tested, text)?;
    Ok(u8::from(!tested.ok))
}

fn text(tested: &Tested) -> String {
    let mut text = String::new();
    for case in &tested.cases {
        let word = if case.ok { "ok    " } else { "FAILED" };
        text.push_str(&format!("{word}  {}:{}  {}\n", case.file, case.line, escaped(&case.name)));
        for difference in &case.differences {
            let path = &difference.path;
            let expected = &difference.expected;
            let got = &difference.got;
            text.push_str(&format!("        {path}\n          expected  {}\n", escaped(expected)));
            text.push_str(&format!("          got       {}\n", escaped(got)));
        }
    }
    let failed = tested.cases.iter().filter(|case| !case.ok).count();
    text.push_str(&match failed {
        0 => format!("\n{}, all as expected\n", plural::count(tested.cases.len(), "case")),
        some => format!("\n{}, {some} not as expected\n", plural::count(tested.cases.len(), "case")),
    });
    text
}
