//! `make test`: all tests of the workspace, side by side within a bound, and a verdict that can be believed.
//!
//! A test that failed is run once more, alone. If it passes then, it is *flaky*: the run stays green, and its last lines
//! name the test with both results and the load of the machine. A failure about loss, duplicates, order, chaos or a
//! guard is never run again ([`policy`]). Too many flaky tests, or the same one in two runs in a row, are red
//! ([`verdict`]).
//!
//! cargo-nextest was considered: it runs each test in a process of its own, and here hundreds of tests share a broker
//! that takes seconds to boot. From source it also takes longer to build than it would save.

mod build;
mod events;
mod job;
mod place;
mod policy;
mod record;
mod report;
mod results;
mod schedule;
mod verdict;

use std::path::Path;
use std::process::ExitCode;

use job::Job;
use record::Record;
use verdict::Verdict;

/// The record of the flaky tests of the last run.
const RECORD: &str = "target/flaky.json";
/// The table of the time of each test.
const TIMES: &str = "target/test-times.tsv";

#[expect(clippy::print_stderr, reason = "a tool that talks to a person")]
fn main() -> ExitCode {
    let strict = std::env::args().skip(1).any(|argument| argument == "--strict");
    match run(strict) {
        Ok(verdict) if verdict.is_green() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("suite: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(strict: bool) -> Result<Verdict, String> {
    let programs = build::programs()?;
    let jobs: Vec<Job> = programs.iter().map(|program| Job::test(program, place::of(&program.target))).collect();
    let (alone, beside): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.place.alone);
    let beside = beside.into_iter().chain(Job::others()).collect();

    let mut results = schedule::side_by_side(beside);
    results.extend(alone.into_iter().map(|job| schedule::run(&job)));
    let again = if strict { Vec::new() } else { schedule::once_more(&results) };

    let before = Record::read(Path::new(RECORD));
    let verdict = Verdict::of(&results, again, |test| before.names(test));
    Record::of(&verdict).write(Path::new(RECORD))?;
    report::write_times(&results, Path::new(TIMES))?;
    report::print(&results, &verdict);
    Ok(verdict)
}
