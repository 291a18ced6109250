//! Real test programs, compiled by the toolchain at hand: the format of their events is no promise of Rust.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::build::Program;
use crate::place::Place;
use crate::record::Record;
use crate::verdict::Verdict;

/// A folder of the build for a program of this name.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/suite").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles tests into a program that runs in a folder of its own.
fn program(name: &str, source: &str) -> Job {
    let folder = folder(name);
    std::fs::write(folder.join("tests.rs"), source).unwrap();
    let mut compiler = Command::new("rustc");
    compiler.args(["--test", "--edition", "2024", "tests.rs", "-o", "tests"]).current_dir(&folder);
    assert!(compiler.status().unwrap().success());
    let program = Program { target: name.to_owned(), executable: folder.join("tests"), folder };
    Job::test(&program, Place { threads: 2, weight: 2, alone: false, rank: 0 })
}

/// Passes when it runs a second time.
const FLAKY: &str = "#[test] fn NAME() { let was = std::fs::exists(\"was\").unwrap(); std::fs::write(\"was\", \"\").unwrap(); assert!(was, \"too slow\"); }";

fn verdict(job: &Job, before: &Record) -> Verdict {
    let results = vec![run(job)];
    let again = once_more(&results);
    Verdict::of(&results, again, |test| before.names(test))
}

#[test]
fn a_test_that_passes_alone_is_flaky_and_in_two_runs_in_a_row_it_is_red() {
    let job = program("flaky", &FLAKY.replace("NAME", "answers_in_time"));
    let first = verdict(&job, &Record::default());
    assert!(first.is_green() && first.failed.is_empty(), "{first:?}");
    assert_eq!(first.flaky.iter().map(|flaky| flaky.test.as_str()).collect::<Vec<_>>(), ["flaky answers_in_time"]);
    assert!(first.flaky[0].first.output.contains("too slow"), "{first:?}");

    std::fs::remove_file(folder_of(&job).join("was")).unwrap();
    let second = verdict(&job, &Record::of(&first));
    assert!(!second.is_green() && second.repeated == ["flaky answers_in_time"], "{second:?}");
}

#[test]
fn a_failure_that_stays_and_one_about_a_loss_are_red() {
    let both = format!("{}\n#[test] fn is_wrong() {{ panic!(\"always\") }}", FLAKY.replace("NAME", "loses_none"));
    let seen = verdict(&program("wrong", &both), &Record::default());
    assert!(!seen.is_green() && seen.flaky.is_empty(), "{seen:?}");
    let mut failed: Vec<_> = seen.failed.iter().map(|failure| failure.test.as_str()).collect();
    failed.sort_unstable();
    assert_eq!(failed, ["wrong is_wrong", "wrong loses_none"]);
}

#[test]
fn a_program_that_ends_early_is_red_and_names_the_test() {
    let job = program("early", "#[test] fn ends_all() { std::process::exit(0) }");
    let seen = verdict(&job, &Record::default());
    assert!(!seen.is_green(), "{seen:?}");
    assert!(seen.failed[0].attempts[0].output.contains("ends_all"), "{seen:?}");
}

#[test]
fn programs_wait_for_room_and_all_of_them_run() {
    let job = program("many", "#[test] fn passes() {} #[test] #[ignore] fn waits() {}");
    let large = Job { place: Place { weight: 1_000, ..job.place }, ..job.clone() };
    let results = side_by_side(vec![job.clone(), large, job]);
    assert_eq!(results.len(), 3);
    for ran in &results {
        assert_eq!(ran.broken, None);
        let count = |outcome| ran.tests.iter().filter(|attempt| attempt.test.outcome == outcome).count();
        assert_eq!((count(Outcome::Passed), count(Outcome::Ignored)), (1, 1), "{ran:?}");
    }
}

fn folder_of(job: &Job) -> &Path {
    match &job.kind {
        Kind::Tests(program) => &program.folder,
        Kind::Command(_) => unreachable!("a program"),
    }
}
