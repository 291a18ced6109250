//! The forge's workflows: valid for actionlint, with targets of the Makefile only, and with no more rights than they need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What may be used besides targets of the Makefile: what needs the forge itself.
const ACTIONS: &[&str] = &[
    "actions/checkout",
    "actions/download-artifact",
    "actions/upload-artifact",
    "helm/kind-action",
    "ossf/scorecard-action",
];

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

/// Every workflow with its text.
fn workflows() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("read {}: {e}", folder.display()));
    let files = entries.map(|entry| entry.expect("an entry").path());
    let all: Vec<_> = files.map(|file| (file.clone(), read(file.to_str().expect("a path")))).collect();
    assert!(!all.is_empty());
    all
}

/// The values of a key of steps.
fn steps<'a>(workflow: &'a str, key: &'static str) -> impl Iterator<Item = &'a str> {
    workflow.lines().filter_map(move |line| Some(line.trim_start().trim_start_matches("- ").strip_prefix(key)?.trim()))
}

#[test]
fn actionlint_accepts_the_workflows() {
    let program = brokers::actionlint().unwrap_or_else(|e| panic!("{e}"));
    let output = Command::new(program)
        // Independent of the machine: shellcheck and pyflakes would be used if they are installed.
        .args(["-no-color", "-shellcheck=", "-pyflakes="])
        .args(workflows().into_iter().map(|(file, _)| file))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("run actionlint");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A command that only the forge runs could not be tried by contributors.
#[test]
fn every_command_is_a_target_of_the_makefile() {
    let makefile = read("Makefile");
    let targets: Vec<&str> =
        makefile.lines().filter_map(|line| line.strip_prefix(".PHONY:")).flat_map(str::split_whitespace).collect();
    for (file, workflow) in workflows() {
        for command in steps(&workflow, "run:") {
            let mut words = command.split_whitespace();
            assert_eq!(words.next(), Some("make"), "{}: {command}", file.display());
            let target = words.next().expect("a target");
            assert!(targets.contains(&target), "{}: the Makefile has no target {target}: {targets:?}", file.display());
            assert!(words.all(|word| word.contains('=')), "{}: {command}", file.display());
        }
    }
}

/// A tag can be moved to other code; a digest cannot.
#[test]
fn every_action_is_known_and_pinned_by_its_digest() {
    for (file, workflow) in workflows() {
        for action in steps(&workflow, "uses:") {
            let (name, rest) = action.split_once('@').unwrap_or_else(|| panic!("{action} has no version"));
            assert!(ACTIONS.contains(&name), "{}: {name} is not in the list of this test", file.display());
            let (digest, version) = rest.split_once(" # v").unwrap_or_else(|| panic!("{action}: no version beside it"));
            assert!(digest.len() == 40 && digest.bytes().all(|b| b.is_ascii_hexdigit()), "{action}");
            assert!(!version.is_empty(), "{action}");
        }
    }
}

/// Rights are few, given to a job and not to a workflow, and no checkout leaves a token behind.
#[test]
fn nothing_may_write_but_the_job_that_drafts_a_release() {
    for (file, workflow) in workflows() {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let writes: Vec<_> = workflow.lines().filter(|line| line.trim_end().ends_with(": write")).collect();
        let expected: &[&str] = if name == "release.yml" { &["      contents: write"] } else { &[] };
        assert_eq!(writes, expected, "{name}");
        let top = workflow.split("\njobs:").next().expect("the head");
        assert!(top.contains("\npermissions:"), "{name}: without it the token may do what the repository allows");
        let count = |text: &str| workflow.matches(text).count();
        assert_eq!(count("uses: actions/checkout@"), count("persist-credentials: false"), "{name}");
        assert!(!workflow.contains("pull_request_target"), "{name}: strangers would run with our rights");
        assert!(!workflow.contains("secrets."), "{name}: no workflow needs a secret");
    }
}

/// The suite runs each test program that cargo builds. It names some, which run alone, first, or never again: a name that is
/// no target any more would silently lose its place.
#[test]
fn make_test_names_test_programs_that_exist() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("run cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().expect("targets"));
    let names: Vec<_> = targets.map(|target| target["name"].as_str().expect("a name")).collect();

    let places = read("tests/suite/src/place.rs");
    let policy = read("tests/suite/src/policy.rs");
    let places = places.lines().filter(|line| line.contains("=>"));
    let programs = policy.lines().filter(|line| line.starts_with("const PROGRAMS"));
    let named: Vec<_> = places.chain(programs).flat_map(|line| line.split('"').skip(1).step_by(2)).collect();
    assert!(named.len() > 8, "{named:?}");
    for name in named {
        assert!(names.contains(&name), "`{name}` is no target");
    }
}
