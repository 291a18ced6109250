//! What a person reads: a line for each program while it runs, and the verdict at the end.

use std::fmt::Write;
use std::path::Path;

use crate::events::Outcome;
use crate::results::{Attempt, Ran, full_name};
use crate::verdict::{Once, Verdict};

const SLOWEST: usize = 20;

/// Prints the result of a program that has just ended.
pub fn progress(ran: &Ran) {
    let [passed, failed, ignored] = counts(std::slice::from_ref(ran));
    let broken = ran.broken.as_ref().map_or("", |_| ", ENDED EARLY");
    println!("{}: {passed} passed, {failed} failed, {ignored} ignored in {:.0} s{broken}", ran.job.name, ran.seconds);
}

/// Prints the first line of a failure at once, because the end of the run may be far.
pub fn failure(program: &str, attempt: &Attempt) {
    if attempt.test.outcome == Outcome::Failed {
        let Attempt { test, load } = attempt;
        println!("failed: {program} {} ({:.1} s at load {load}): {}", test.name, test.seconds, reason(&test.output));
    }
}

/// What a panic said, in one line.
fn reason(output: &str) -> &str {
    let lines = output.lines().skip_while(|line| !line.contains("panicked at"));
    lines.skip(1).find(|line| !line.is_empty()).unwrap_or_default()
}

/// Prints the slowest tests, the failures with their output, the flaky tests, and the counts.
pub fn print(results: &[Ran], verdict: &Verdict) {
    println!("\nthe slowest tests:");
    for (seconds, name) in slowest(results).into_iter().take(SLOWEST) {
        println!("{seconds:>8.1} s  {name}");
    }
    for failure in &verdict.failed {
        for (number, once) in failure.attempts.iter().enumerate() {
            println!("\n--- {}, attempt {} ({}) ---\n{}", failure.test, number + 1, at(once), once.output.trim_end());
        }
    }
    for flaky in &verdict.flaky {
        println!("\n--- {} ({}), passed alone ---\n{}", flaky.test, at(&flaky.first), flaky.first.output.trim_end());
    }
    print!("\n{}", summary(verdict));
    let [passed, failed, ignored] = counts(results);
    // What passed alone has passed.
    let broken = results.iter().filter(|ran| ran.broken.is_some()).count();
    let passed = passed + verdict.flaky.len();
    let failed = failed - verdict.flaky.len() + broken;
    println!("{passed} passed, {failed} failed, {ignored} skipped");
}

/// The last lines: the tests that failed, those that are flaky, and why flaky ones make the run red.
fn summary(verdict: &Verdict) -> String {
    let mut text = String::new();
    let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string takes text");
    for failure in &verdict.failed {
        let attempts: Vec<String> = failure.attempts.iter().map(at).collect();
        line(format_args!("FAILED {} ({})", failure.test, attempts.join("; then ")));
    }
    for flaky in &verdict.flaky {
        let first = at(&flaky.first);
        let second = at(&flaky.second);
        line(format_args!("FLAKY {}: failed ({first}), passed alone ({second})", flaky.test));
    }
    if verdict.too_many_flaky() {
        line(format_args!("red: {} tests were flaky", verdict.flaky.len()));
    }
    for test in &verdict.repeated {
        line(format_args!("red: {test} was flaky in the run before as well"));
    }
    text
}

fn at(once: &Once) -> String {
    format!("{:.1} s at load {}", once.seconds, once.load)
}

/// The numbers of passed, failed and ignored tests.
fn counts(results: &[Ran]) -> [usize; 3] {
    let tests = || results.iter().flat_map(|ran| &ran.tests);
    [Outcome::Passed, Outcome::Failed, Outcome::Ignored]
        .map(|outcome| tests().filter(|attempt| attempt.test.outcome == outcome).count())
}

/// All tests with their times, the slowest first.
fn slowest(results: &[Ran]) -> Vec<(f64, String)> {
    let of = |ran: &Ran| -> Vec<_> {
        ran.tests.iter().map(|attempt| (attempt.test.seconds, full_name(&ran.job, &attempt.test.name))).collect()
    };
    let mut all: Vec<_> = results.iter().flat_map(of).collect();
    all.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    all
}

/// Writes the time of each test, one a line, the slowest first.
pub fn write_times(results: &[Ran], path: &Path) -> Result<(), String> {
    let mut text = String::from("seconds\ttest\n");
    for (seconds, name) in slowest(results) {
        writeln!(text, "{seconds:.3}\t{name}").expect("a string takes text");
    }
    std::fs::write(path, text).map_err(|error| format!("write {}: {error}", path.display()))
}
