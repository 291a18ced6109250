//! Runs one test of this binary under callgrind and reads what it counted.

use std::collections::HashMap;
use std::process::Command;

use tempfile::TempDir;

/// What callgrind counted in one run of the process, its start included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Instructions.
    pub instructions: u64,
    /// Calls of `malloc` and its like, however they came about.
    pub allocations: u64,
}

/// Runs an ignored test of this binary with this environment.
pub fn run(test: &str, environment: &[(&str, &str)]) -> Counted {
    let folder = TempDir::with_prefix("delaybridge-callgrind-").expect("make a directory for callgrind");
    let out = folder.path().join("out");
    let own = std::env::current_exe().expect("the path of this binary");
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", &format!("--callgrind-out-file={}", out.display())])
        .arg(own)
        .args(["--exact", test, "--ignored", "--test-threads=1"])
        .envs(environment.iter().copied())
        .output()
        .unwrap_or_else(|e| panic!("run valgrind (is it installed? `make setup`): {e}"));
    let said = || String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "valgrind {test}: {}: {}", done.status, said());
    let profile =
        std::fs::read_to_string(&out).unwrap_or_else(|e| panic!("read what callgrind wrote: {e}: {}", said()));
    read(&profile)
}

/// The format: <https://valgrind.org/docs/manual/cl-format.html>. A name is written out once and is a number from then on.
fn read(profile: &str) -> Counted {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut counted = Counted { instructions: 0, allocations: 0 };
    let mut called = "";
    for line in profile.lines() {
        let name = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn="));
        if let Some((number, name)) = name.and_then(|name| name.split_once(')')) {
            if !name.is_empty() {
                names.insert(number, name.trim_start());
            }
            if line.starts_with("cfn=") {
                called = names.get(number).copied().unwrap_or("");
            }
        } else if let Some(calls) = line.strip_prefix("calls=") {
            if matches!(called, "malloc" | "calloc" | "realloc" | "posix_memalign" | "aligned_alloc") {
                counted.allocations += calls.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0u64);
            }
        } else if let Some(totals) = line.strip_prefix("totals: ") {
            counted.instructions = totals.trim().parse().expect("one number of instructions");
        }
    }
    assert!(counted.instructions > 0 && counted.allocations > 0, "callgrind wrote no totals: {counted:?}");
    counted
}

#[test]
fn a_profile_is_read() {
    let profile = "events: Ir\nfn=(1) main\n1 10\ncfn=(2) malloc\ncalls=3 0\n1 90\nfn=(3) other\ncfn=(2)\ncalls=4 0\n\
                   1 7\ncfn=(1)\ncalls=9 0\ntotals: 1234\n";
    assert_eq!(read(profile), Counted { instructions: 1234, allocations: 7 });
}
