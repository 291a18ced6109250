//! The test programs, built by cargo.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The name of its target: a crate's for unit tests, that of the file for integration tests.
    pub target: String,
    pub executable: PathBuf,
    /// The folder of its package, in which cargo runs it.
    pub folder: PathBuf,
}

/// One line of cargo's output, as far as it is used.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds all test programs and lists them.
///
/// One selection of packages everywhere: with another one, cargo would build the dependencies with other features.
pub fn programs() -> Result<Vec<Program>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(&cargo)
        .args(["test", "--locked", "--workspace", "--lib", "--bins", "--tests", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("run {cargo} test --no-run: {error}"))?;
    if !output.status.success() {
        return Err(format!("build the tests: {cargo} ended with {}", output.status));
    }
    let programs: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect();
    if programs.is_empty() { Err("build the tests: cargo named no test program".to_owned()) } else { Ok(programs) }
}

/// The test program that a line of cargo's output announces, if it does.
fn program(line: &str) -> Option<Program> {
    let message: Message = serde_json::from_str(line).ok()?;
    let folder = message.manifest_path?.parent()?.to_owned();
    let executable = message.executable.filter(|_| message.profile.is_some_and(|profile| profile.test))?;
    Some(Program { target: message.target?.name, executable, folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_artifacts_that_are_tests_are_programs() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(program(line).map(|program| program.target).as_deref(), expected, "{line}");
        };
        let line = |executable: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/p/crates/jobs/Cargo.toml","target":{{"kind":["lib"],
                "name":"delaybridge_jobs"}},"profile":{{"opt_level":"0","test":{test}}},"executable":{executable}}}"#
            )
        };
        check(&line(r#""/p/target/debug/deps/jobs-1""#, true), Some("delaybridge_jobs"));
        // The daemon itself, and a library.
        check(&line(r#""/p/target/debug/delaybridge""#, false), None);
        check(&line("null", true), None);
        check(r#"{"reason":"build-finished","success":true}"#, None);
        check("a line of a build script", None);
    }
}
