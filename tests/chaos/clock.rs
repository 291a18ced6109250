//! A Redis with a wall clock that can be moved while it runs, and the history of that clock.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use tempfile::TempDir;

use crate::offers::now_ms;
use harness::redis_server::ServerOptions;

/// The library that is preloaded into the server.
const SOURCE: &str = include_str!("skew.c");

/// The clock of a server.
pub struct Clock {
    dir: TempDir,
    /// The moves: since when, and by how much the clock is ahead, in ms of this machine.
    moved: Mutex<Vec<(i64, i64)>>,
}

impl Clock {
    /// Creates a clock that is right.
    pub fn new() -> Clock {
        let dir = TempDir::with_prefix("delaybridge-clock-").expect("make a directory for a clock");
        let clock = Clock { dir, moved: Mutex::default() };
        std::fs::write(clock.dir.path().join("skew.c"), SOURCE).expect("write what is loaded into the server");
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O1", "-o", "skew.so", "skew.c"]).current_dir(clock.dir.path());
        let built = command.status().unwrap_or_else(|e| panic!("run cc (is it installed? `make setup`): {e}"));
        assert!(built.success(), "cc: {built}");
        clock.write(0);
        clock
    }

    /// The options of a server with this clock.
    pub fn options(&self, options: ServerOptions) -> ServerOptions {
        let path = |name: &str| self.dir.path().join(name).display().to_string();
        options.env("LD_PRELOAD", &path("skew.so")).env("CHAOS_CLOCK", &path("offset"))
    }

    /// Sets by how many ms the clock is ahead, from now on; negative if it is behind.
    pub fn set(&self, ahead_ms: i64) {
        let mut moved = self.moved();
        let was = moved.last().map_or(0, |(_, ahead)| *ahead);
        let before = now_ms();
        self.write(ahead_ms * 1_000);
        // A time that the server may have read counts as shown.
        moved.push((if ahead_ms > was { before } else { now_ms() }, ahead_ms));
    }

    /// The moves so far.
    pub fn history(&self) -> Vec<(i64, i64)> {
        self.moved().clone()
    }

    fn write(&self, us: i64) {
        let file: PathBuf = self.dir.path().join("offset");
        // Written in place, because the server has this very file mapped.
        if file.exists() {
            let open = std::fs::OpenOptions::new().write(true).open(&file).expect("open the offset of a clock");
            std::os::unix::fs::FileExt::write_all_at(&open, &us.to_ne_bytes(), 0).expect("write the offset of a clock");
        } else {
            std::fs::write(&file, us.to_ne_bytes()).expect("write the offset of a clock");
        }
    }

    fn moved(&self) -> MutexGuard<'_, Vec<(i64, i64)>> {
        self.moved.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The latest time that a clock with these moves has shown until `until_ms`.
pub fn latest(moved: &[(i64, i64)], until_ms: i64) -> i64 {
    let mut most = match moved.first() {
        Some((first, _)) => until_ms.min(*first),
        None => until_ms,
    };
    for (place, (from, ahead)) in moved.iter().enumerate() {
        let end = moved.get(place + 1).map_or(until_ms, |(next, _)| until_ms.min(*next));
        if *from <= until_ms {
            most = most.max(end + ahead);
        }
    }
    most
}

#[test]
fn a_clock_that_was_ahead_has_shown_the_time_of_then() {
    let moved = [(1_000, 500), (2_000, -300), (3_000, 0)];
    for (until, shown) in [(900, 900), (1_000, 1_500), (1_700, 2_200), (2_100, 2_500), (2_900, 2_600), (3_500, 3_500)] {
        assert_eq!(latest(&moved, until), shown, "until {until}");
    }
    assert_eq!(latest(&[], 7), 7);
}
