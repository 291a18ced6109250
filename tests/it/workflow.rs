//! The forge's workflow: valid for actionlint, with targets of the Makefile only.

use std::path::Path;
use std::process::Command;

const WORKFLOW: &str = ".github/workflows/test.yml";

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("read {file}: {e}"))
}

#[test]
fn actionlint_accepts_the_workflow() {
    let program = brokers::actionlint().unwrap_or_else(|e| panic!("{e}"));
    let output = Command::new(program)
        // Independent of the machine: shellcheck and pyflakes would be used if they are installed.
        .args(["-no-color", "-shellcheck=", "-pyflakes=", WORKFLOW])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("run actionlint");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A command that only the forge runs could not be tried by contributors.
#[test]
fn every_step_is_a_checkout_or_a_target_of_the_makefile() {
    let makefile = read("Makefile");
    let targets: Vec<&str> =
        makefile.lines().filter_map(|line| line.strip_prefix(".PHONY:")).flat_map(str::split_whitespace).collect();
    let workflow = read(WORKFLOW);
    let steps = |key: &'static str| {
        workflow.lines().filter_map(move |line| line.trim_start().trim_start_matches("- ").strip_prefix(key))
    };
    let mut commands = 0;
    for command in steps("run:") {
        let target = command.trim().strip_prefix("make ").unwrap_or_else(|| panic!("not a make target: {command}"));
        assert!(targets.contains(&target), "the Makefile has no target {target}: {targets:?}");
        commands += 1;
    }
    assert!(commands > 0, "{WORKFLOW} runs nothing");
    assert!(
        steps("uses:").all(|action| action.trim().starts_with("actions/checkout@")),
        "another action than checkout"
    );
}

/// `scripts/test.sh` names the integration tests, because some run beside the unit tests and some alone. One that it does not
/// name would never run.
#[test]
fn make_test_runs_every_test_target() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("run cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().expect("targets"));
    let of_tests = targets.filter(|target| target["kind"][0] == "test");
    let mut names: Vec<_> = of_tests.map(|target| target["name"].as_str().expect("a name").to_owned()).collect();
    let script = read("scripts/test.sh");
    let words: Vec<_> = script.split_whitespace().collect();
    let mut run: Vec<_> = words.windows(2).filter(|pair| pair[0] == "--test").map(|pair| pair[1].to_owned()).collect();
    names.sort();
    run.sort();
    assert_eq!(run, names);
}
