//! Runs jobs side by side within the capacity of the machine, and failed tests once more.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::events::{self, Event, Outcome, Test};
use crate::job::{Job, Kind};
use crate::place;
use crate::policy;
use crate::report;
use crate::results::{Attempt, Ran, full_name, load_now};

/// The time without any event after which a program is ended: the longest test takes a third of it.
const SILENCE: Duration = Duration::from_secs(600);

/// Runs all jobs, those of a higher rank first, so that their weights together stay within the capacity.
pub fn side_by_side(mut jobs: Vec<Job>) -> Vec<Ran> {
    jobs.sort_by_key(|job| std::cmp::Reverse(job.place.rank));
    let room = Room { free: Mutex::new(place::capacity()), freed: Condvar::new() };
    thread::scope(|scope| {
        let mut running = Vec::new();
        for job in jobs {
            let taken = room.take(job.place.weight);
            let room = &room;
            running.push(scope.spawn(move || {
                let ran = run(&job);
                room.give(taken);
                ran
            }));
        }
        running.into_iter().map(|thread| thread.join().expect("a job does not panic")).collect()
    })
}

/// The capacity that is left.
struct Room {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Room {
    /// Waits for room. A job that is larger than the machine takes all of it.
    fn take(&self, weight: usize) -> usize {
        let weight = weight.min(place::capacity());
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free < weight).unwrap_or_else(PoisonError::into_inner);
        *free -= weight;
        weight
    }

    fn give(&self, weight: usize) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += weight;
        self.freed.notify_all();
    }
}

pub fn run(job: &Job) -> Ran {
    let ran = attempt(job, None);
    report::progress(&ran);
    ran
}

/// Runs each failed test once more, one after the other, unless its first failure counts.
pub fn once_more(results: &[Ran]) -> Vec<(String, Attempt)> {
    let mut again = Vec::new();
    for ran in results {
        for failed in ran.tests.iter().filter(|attempt| attempt.test.outcome == Outcome::Failed) {
            let test = &failed.test;
            if policy::first_failure_counts(&ran.job.name, &test.name, &test.output) {
                continue;
            }
            let second = attempt(&ran.job, Some(&test.name));
            again.extend(second.tests.into_iter().map(|attempt| (full_name(&ran.job, &test.name), attempt)));
        }
    }
    again
}

fn attempt(job: &Job, only: Option<&str>) -> Ran {
    let began = Instant::now();
    let mut command = job.command(only);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let broken = |why: String| Ran { job: job.clone(), tests: Vec::new(), broken: Some(why), seconds: 0.0 };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return broken(format!("start {command:?}: {error}")),
    };
    let said = collect(child.stderr.take());
    let (tests, broken) = match &job.kind {
        Kind::Tests(_) => follow(&mut child, &job.name),
        Kind::Command(words) => (vec![whole(&mut child, words, began)], None),
    };
    let _ = child.wait(); // It has ended: its output is closed.
    let said = said.join().unwrap_or_default();
    let broken = broken.map(|why| format!("{why}\n{said}"));
    let mut ran = Ran { job: job.clone(), tests, broken, seconds: began.elapsed().as_secs_f64() };
    if let (Kind::Command(_), Some(attempt)) = (&job.kind, ran.tests.first_mut()) {
        attempt.test.output.push_str(&said);
    }
    ran
}

/// Reads the events of a program until it ends; with the reason if that was too early.
fn follow(child: &mut Child, program: &str) -> (Vec<Attempt>, Option<String>) {
    let lines = lines(child);
    let mut tests = Vec::new();
    let mut running = Vec::new();
    let mut complete = false;
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => match events::read(&line) {
                Some(Event::Started(name)) => running.push(name),
                Some(Event::Ended(test)) => {
                    running.retain(|name| *name != test.name);
                    let attempt = Attempt { test, load: load_now() };
                    report::failure(program, &attempt);
                    tests.push(attempt);
                }
                Some(Event::Complete) => complete = true,
                None => {}
            },
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill(); // Fails only if it has just ended.
                return (tests, Some(format!("no test began or ended within {SILENCE:?}; running: {running:?}")));
            }
        }
    }
    let broken = (!complete).then(|| {
        let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        format!("it ended early ({status}); running: {running:?}")
    });
    (tests, broken)
}

fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = sync_channel(64);
    let output = child.stdout.take().expect("the output is a pipe");
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Runs a command that is one test.
fn whole(child: &mut Child, words: &[String], began: Instant) -> Attempt {
    let output: Vec<String> = lines(child).into_iter().collect();
    let passed = child.wait().is_ok_and(|status| status.success());
    let outcome = if passed { Outcome::Passed } else { Outcome::Failed };
    let name = words.join(" ");
    let test = Test { name, outcome, seconds: began.elapsed().as_secs_f64(), output: output.join("\n") + "\n" };
    Attempt { test, load: load_now() }
}

/// Collects the output of a pipe, so that the child never waits for its reader.
fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes); // What was read until an error is reported.
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests;
