//! Runs of one test of this binary under callgrind.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The counts of callgrind for one run of the process, including its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub instructions: u64,
    /// Number of calls of `malloc` and similar functions.
    pub allocations: u64,
}

/// Runs an ignored test of this binary with this environment.
pub fn run(test: &str, environment: &[(&str, &str)]) -> Counted {
    read(&written(test, environment, &[]))
}

/// The same, with counts for every function and every line.
pub fn profile(test: &str, environment: &[(&str, &str)]) -> Profile {
    Profile::read(&written(test, environment, &["--compress-strings=no", "--compress-pos=no"]))
}

/// The output of callgrind for a run.
fn written(test: &str, environment: &[(&str, &str)], options: &[&str]) -> String {
    let folder = TempDir::with_prefix("delaybridge-callgrind-").expect("make a directory for callgrind");
    let out = folder.path().join("out");
    let own = std::env::current_exe().expect("the path of this binary");
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", &format!("--callgrind-out-file={}", out.display())])
        .args(options)
        .arg(own)
        .args(["--exact", test, "--ignored", "--test-threads=1"])
        .envs(environment.iter().copied())
        .output()
        .unwrap_or_else(|e| panic!("run valgrind (is it installed? `make setup`): {e}"));
    let said = || String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "valgrind {test}: {}: {}", done.status, said());
    std::fs::read_to_string(&out).unwrap_or_else(|e| panic!("read what callgrind wrote: {e}: {}", said()))
}

/// The costs of a run by place.
#[derive(Debug, Default)]
pub struct Profile {
    pub instructions: u64,
    /// Instructions of each function itself.
    functions: HashMap<String, u64>,
    /// Instructions of each line itself.
    lines: HashMap<(PathBuf, u32), u64>,
    /// Instructions of the functions that each line calls, by function.
    calls: HashMap<(PathBuf, u32), HashMap<String, u64>>,
}

impl Profile {
    /// Parses a profile with all names and positions in full.
    fn read(profile: &str) -> Profile {
        let mut found = Profile::default();
        let mut file = PathBuf::new();
        let mut function = "";
        let mut called = "";
        let mut is_call = false;
        for line in profile.lines() {
            let (key, value) = line.split_once('=').unwrap_or(("", line));
            match key {
                // `fi` and `fe`: code of another file that was inlined into the function.
                "fl" | "fi" | "fe" => file = Path::new(env!("CARGO_MANIFEST_DIR")).join(value),
                "fn" => function = value,
                "cfn" => called = value,
                "calls" => is_call = true,
                "" => {
                    let Some((at, cost)) = value.split_once(' ') else { continue };
                    let (Ok(at), Ok(cost)) = (at.parse::<u32>(), cost.trim().parse::<u64>()) else { continue };
                    let place = (file.clone(), at);
                    if std::mem::take(&mut is_call) {
                        *found.calls.entry(place).or_default().entry(called.to_owned()).or_default() += cost;
                    } else {
                        *found.lines.entry(place).or_default() += cost;
                        *found.functions.entry(function.to_owned()).or_default() += cost;
                        found.instructions += cost;
                    }
                }
                _ => {}
            }
        }
        assert!(found.instructions > 0, "callgrind wrote no lines");
        found
    }

    /// Instructions of the functions with this in their names, without their callees.
    pub fn in_functions(&self, name: &str) -> u64 {
        self.functions.iter().filter(|(function, _)| function.contains(name)).map(|(_, cost)| cost).sum()
    }

    /// Instructions of these lines, including those of the called functions that `meant` selects.
    pub fn at_lines(&self, lines: &HashSet<(PathBuf, u32)>, meant: impl Fn(&str) -> bool) -> u64 {
        let of_line = |place| {
            let calls = self.calls.get(place).into_iter().flatten();
            let called: u64 = calls.filter(|(name, _)| meant(name)).map(|(_, cost)| cost).sum();
            called + self.lines.get(place).copied().unwrap_or(0)
        };
        lines.iter().map(of_line).sum()
    }
}

/// Parses the format of <https://valgrind.org/docs/manual/cl-format.html>. A name is written once, and is a number
/// afterwards.
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
fn costs_are_read_by_functions_and_lines() {
    let profile = "events: Ir\nfl=src/a.rs\nfn=a::one\n7 10\n8 5\ncfi=src/b.rs\ncfn=b::two\ncalls=3 1\n8 90\nfi=src/c.rs\n\
                   1 4\nfe=src/a.rs\n7 1\n\nfl=src/b.rs\nfn=b::two\n1 90\ntotals: 200\n";
    let profile = Profile::read(profile);
    let line = |file: &str, line| HashSet::from([(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), line)]);
    assert_eq!((profile.instructions, profile.in_functions("a::"), profile.in_functions("two")), (110, 20, 90));
    assert_eq!(profile.at_lines(&line("src/a.rs", 7), |_| true), 11);
    assert_eq!([true, false].map(|all| profile.at_lines(&line("src/a.rs", 8), |_| all)), [95, 5]);
    assert_eq!(profile.at_lines(&line("src/c.rs", 1), |_| true), 4);
}

#[test]
fn a_profile_is_read() {
    let profile = "events: Ir\nfn=(1) main\n1 10\ncfn=(2) malloc\ncalls=3 0\n1 90\nfn=(3) other\ncfn=(2)\ncalls=4 0\n\
                   1 7\ncfn=(1)\ncalls=9 0\ntotals: 1234\n";
    assert_eq!(read(profile), Counted { instructions: 1234, allocations: 7 });
}
