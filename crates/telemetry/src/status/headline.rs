//! The board in one line, for `systemctl status`: the current problems, the worst first.

use std::time::Duration;

use super::{Redis, SinkState, Status};
use delaybridge_core::clock::Instant;

/// Maximum number of tasks, queues or sinks that are named; the rest is counted.
const NAMED: usize = 3;
/// Maximum length of the line, in bytes. A reason may quote a broker at length; systemd accepts 4 KiB at once.
const LONGEST: usize = 1000;

impl Status {
    /// Returns the current problems, or a statement that there are none.
    pub fn headline(&self) -> String {
        let stuck = self.0.beats.stuck(Instant::now());
        let stuck = stuck.iter().map(|(beat, silent)| format!("{} silent for {}", beat.task, seconds(*silent)));
        let board = self.board();
        let stalled = board.stalled.values().flat_map(|(stalled, _)| stalled);
        let stalled = stalled.map(|stalled| format!("{} waits for {}", stalled.queue, stalled.waits_for.as_str()));
        let stalled_queues: usize = board.stalled.values().map(|(_, total)| total).sum();
        let held =
            board.held.iter().map(|(queue, (reason, since))| format!("{queue} for {}, {}", age(*since), reason.text));
        let of_state = |state: fn(&SinkState) -> Option<&str>| {
            let sinks = board.sinks.iter().filter_map(move |(sink, (now, since))| Some((sink, state(now)?, since)));
            sinks.map(|(sink, reason, since)| format!("{sink} for {}, {reason}", age(*since)))
        };
        let down = of_state(|state| match state {
            SinkState::Down(reason) => Some(&reason.text),
            SinkState::Unknown | SinkState::Up | SinkState::Blocked(_) => None,
        });
        let full = of_state(|state| match state {
            SinkState::Blocked(reason) => Some(&reason.text),
            SinkState::Unknown | SinkState::Up | SinkState::Down(_) => None,
        });
        let unknown = board.sinks.iter().filter(|(_, (state, _))| *state == SinkState::Unknown);
        let unknown = unknown.map(|(sink, _)| sink.to_string());
        let several = board.redis.len() > 1;
        let away = board.redis.iter().filter_map(|(name, redis)| {
            let name = if several { format!(" {name}") } else { String::new() };
            match redis {
                Redis::Up => None,
                Redis::NotYet => Some(format!("not connected to Redis{name} yet")),
                Redis::Lost(reason, since) => Some(format!("Redis{name} unreachable for {}: {reason}", age(*since))),
            }
        });
        let away: Vec<_> = away.collect();
        let redis = if board.redis.is_empty() {
            Some("not connected to Redis yet".to_owned())
        } else {
            (!away.is_empty()).then(|| away.join("; "))
        };
        let of_others = board
            .unknown(Instant::now())
            .map(|(queue, (claims, since))| format!("{queue}: {claims} for {}", age(*since)));
        let paused = board.paused.iter().map(|(queue, pause)| format!("{queue} by {}, {}", pause.by, pause.why));
        let queues = board.queues;
        let sinks = board.sinks.len();
        let problems = [
            board.stopping.then(|| "stopping".to_owned()),
            list(stuck, |count| format!("tasks stuck: {count}")),
            list(stalled, |_| format!("queues stalled: {stalled_queues}")),
            redis,
            list(held, |count| format!("queues on hold: {count} of {queues}")),
            board.reload.refused().map(|(first, count)| {
                let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
                format!("last reload refused: {}: {}{more}", first.path, first.message)
            }),
            list(paused, |count| format!("queues paused: {count} of {queues}")),
            list(down, |count| format!("sinks down: {count} of {sinks}")),
            list(unknown, |count| format!("sinks without an answer yet: {count} of {sinks}")),
            list(full, |count| format!("sinks full: {count} of {sinks}")),
            list(of_others, |count| format!("queues with claims of another version: {count} of {queues}")),
        ];
        let problems: Vec<_> = problems.into_iter().flatten().collect();
        if problems.is_empty() {
            format!("no problems; queues: {queues}, sinks: {sinks}")
        } else {
            one_line(&problems.join("; "))
        }
    }
}

/// Formats `queues on hold: 2 of 12 (orders for 4m, ...; payments for 3s, ...)`; `None` without entries.
fn list(entries: impl Iterator<Item = String>, title: impl FnOnce(usize) -> String) -> Option<String> {
    let mut named = Vec::new();
    let mut count = 0;
    for entry in entries {
        count += 1;
        if count <= NAMED {
            named.push(entry);
        }
    }
    if count > NAMED {
        named.push(format!("{} more", count - NAMED));
    }
    (count > 0).then(|| format!("{} ({})", title(count), named.join("; ")))
}

/// Shortens the text and removes control characters: a line break in a broker's message would start another message to
/// systemd.
fn one_line(text: &str) -> String {
    let end = (0..=LONGEST.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text[..end].chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn age(since: Instant) -> String {
    seconds(since.elapsed())
}

fn seconds(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::SinkNews;
    use crate::status::tests::{reason, running};

    #[test]
    fn it_names_every_problem() {
        let check = |change: &dyn Fn(&Status), expected: &str| {
            let status = running();
            change(&status);
            assert_eq!(status.headline(), expected);
        };
        check(&|_| (), "no problems; queues: 1, sinks: 1");
        check(
            &|status| assert!(status.redis_lost(&"default".into(), "refused".into())),
            "Redis unreachable for 0s: refused",
        );
        check(
            &|status| {
                status.stopping();
                status.held(&"orders".into(), Some(reason("sink events: no topic")));
                status.sink(&"events".into(), SinkState::Down(reason("no broker")));
            },
            "stopping; queues on hold: 1 of 1 (orders for 0s, sink events: no topic); \
             sinks down: 1 of 1 (events for 0s, no broker)",
        );
        check(
            &|status| assert_eq!(status.sink(&"events".into(), SinkState::Blocked(reason("OOM"))), SinkNews::State),
            "sinks full: 1 of 1 (events for 0s, OOM)",
        );
        assert_eq!(Status::new().headline(), "not connected to Redis yet");
    }

    #[test]
    fn a_stuck_task_comes_first() {
        let status = running();
        let _silent = status.heartbeat("sweeper", Duration::ZERO);
        while status.live().ok {
            std::thread::yield_now();
        }
        assert_eq!(status.headline(), "tasks stuck: 1 (sweeper silent for 0s)");
    }

    #[test]
    fn whatever_a_broker_says_it_stays_one_short_line() {
        let status = running();
        status.add_queues(11);
        for n in 0..10 {
            status.held(&format!("q{n}").into(), Some(reason("no\nWATCHDOG=trigger\r\0")));
        }
        let line = status.headline();
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(line.starts_with("queues on hold: 10 of 12 (q0 for 0s, no WATCHDOG=trigger"), "{line}");
        assert!(line.ends_with("; 7 more)"), "{line}");
        status.held(&"long".into(), Some(reason(&"ä".repeat(5000))));
        assert!(status.headline().len() <= LONGEST);
    }
}
