//! One offer, and several: names, elements, due times, the order of the list.

use std::collections::HashSet;

use redis::cmd;
use serde_json::json;

use crate::bench::{Bench, Check, Opening, Stop, now_ms};
use crate::child::Answer;
use crate::element::{self, Layout};
use crate::server::Monitor;
use crate::statements::{E1, E2, E4, E7, K1, K2, K5, O1, O2, O3, O4, O8, T3};

/// An hour, in ms.
pub const HOUR: i64 = 3_600_000;

pub const ONE: Check = Check { name: "one offer", about: &[E1, E2, O1, O3, K5], run: one };

fn one(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    bench.offer(json!({"value": "order 4711", "delay_ms": HOUR}))?;
    let seen = bench.look(&queue)?;
    let scheduled = seen.scheduled.len();
    let listed = seen.listed.len();
    bench.require(O1, scheduled == 1 && listed == 1, || {
        format!("after one offer Z has {scheduled} elements, L {listed}")
    });
    let Some(first) = seen.scheduled.first() else { return Ok(()) };
    bench.require(O1, seen.listed.first() == Some(&first.element), || {
        "the entry of L is not byte for byte the member of Z".to_owned()
    });
    let layout = bench.said().map_or(Layout::Current, |said| said.layout);
    let other = if layout == Layout::Current { Layout::Old } else { Layout::Current };
    let (read, foreign) = (element::read(layout, &first.element), element::read(other, &first.element));
    let neither = read.as_ref().err().cloned().unwrap_or_default();
    bench.require(E1, read.is_ok() || foreign.is_ok(), || neither);
    if read.is_ok() || foreign.is_ok() {
        bench.require(E2, read.is_ok(), || {
            format!("the producer says that it writes the layout {layout:?}, and the element has the other one")
        });
    }
    let whole = first.due_ms().filter(|due| (0..=1 << 53).contains(due));
    bench.require(O3, whole.is_some(), || format!("the score is {}", first.score));
    let keys = bench.server.keys_with(&bench.token.clone())?;
    let extra = keys.iter().find(|key| ![queue.timeout.as_bytes(), queue.list.as_bytes()].contains(&&key[..]));
    let extra = extra.map(|key| String::from_utf8_lossy(key).into_owned());
    bench.require(K5, extra.is_none(), || format!("an offer without an ID of the caller also made the key {extra:?}"));
    for key in [&queue.timeout, &queue.list] {
        let left: i64 = bench.server.query(cmd("PTTL").arg(key))?;
        bench.require(K5, left < 0, || format!("{key:?} expires in {left} ms"));
    }
    Ok(())
}

pub const KEYS: Check = Check { name: "all keys of the run", about: &[K5], run: keys };

fn keys(bench: &mut Bench) -> Result<(), Stop> {
    let strange = bench.strange_keys()?;
    bench.require(K5, strange.is_empty(), || format!("keys that no producer may write: {strange:?}"));
    Ok(())
}

pub const NAMES: Check = Check { name: "names", about: &[K1, K2], run: names };

/// With and without braces, with the characters that a shell, a pattern or a URL would change.
const SHAPES: [&str; 9] = [
    "%",
    "app:%:orders",
    "{%}:orders",
    "app:{%}:q",
    "%a}b{c}d",
    "%a{b",
    "%x}y",
    "%:заказы-订单-😀",
    "% \"quoted\" 'and' %s \\ *?[a]",
];

/// Shapes that Redis Cluster has no slot for: a producer may refuse them.
const ODD: [&str; 2] = ["%a{b", "%x}y"];

fn names(bench: &mut Bench) -> Result<(), Stop> {
    for shape in SHAPES {
        let queue = bench.queue(shape)?;
        let offered =
            bench.open(&queue, Opening::default()).and_then(|()| bench.offer(json!({"value": "x", "delay_ms": HOUR})));
        match offered {
            Err(Stop::Unexpected(_)) if ODD.contains(&shape) => continue,
            Err(stop) => return Err(stop),
            Ok(_) => {}
        }
        let seen = bench.look(&queue)?;
        let found = !seen.scheduled.is_empty() || !seen.listed.is_empty();
        let keys = bench.server.keys_with(&bench.token.clone())?;
        let prefixed =
            |expected: &String| keys.iter().any(|key| key.ends_with(expected.as_bytes()) && key != expected.as_bytes());
        let prefixed = prefixed(&queue.timeout) || prefixed(&queue.list);
        bench.require(K1, found || prefixed, || {
            format!("NAME is {:?}: nothing is under {:?} and {:?}", queue.name, queue.timeout, queue.list)
        });
        bench.require(K2, !prefixed, || {
            format!("NAME is {:?}: {:?} has something before it", queue.name, queue.timeout)
        });
    }
    Ok(())
}

pub const DUE_TIMES: Check = Check { name: "due times", about: &[O3, O4, T3], run: due_times };

fn due_times(bench: &mut Bench) -> Result<(), Stop> {
    let now = now_ms();
    // In the past, now, and later than what 32 bits or a float of 32 bits hold.
    let times = [now - HOUR, now, now + HOUR, now + 1, 4_102_444_800_123, 253_402_300_799_999];
    for redis_clock in [false, true] {
        let queue = bench.queue("%")?;
        bench.open(&queue, Opening { redis_clock, ..Opening::default() })?;
        if redis_clock && bench.needs("clock_redis").is_err() {
            return Ok(());
        }
        for due in times {
            bench.offer(json!({"value": "x", "due_ms": due}))?;
        }
        let seen = bench.look(&queue)?;
        for (at, due) in times.into_iter().enumerate() {
            let score = seen.score_of_entry(at).or_else(|| seen.scheduled.get(at).map(|one| &*one.score));
            let whole = score.is_none_or(|score| score.parse::<i64>().is_ok());
            bench.require(O3, whole, || format!("offered with due time {due}, the score is {score:?}"));
            if let Some(score) = seen.score_of_entry(at) {
                bench.require(T3, score == due.to_string(), || {
                    format!("offered with due time {due}, the score is {score:?}")
                });
            }
        }
        let before = bench.look(&queue)?;
        bench.require(O4, before.listed.len() >= times.len() || before.scheduled.len() >= times.len(), || {
            "an offer with a due time in the past is not there".to_owned()
        });
        let answer = bench.try_ask(json!({"op": "offer", "value": "x", "delay_ms": -1_000}))?;
        let after = bench.look(&queue)?;
        let refused = matches!(answer, Answer::Refused(_));
        bench.require(O4, refused && before == after, || {
            let what = if before == after { "nothing was written" } else { "it was written" };
            format!("an offer with a delay of -1000 ms: {}, {what}", if refused { "refused" } else { "not refused" })
        });
    }
    Ok(())
}

pub const ORDER: Check = Check { name: "order", about: &[O2], run: order };

fn order(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    let times: Vec<i64> = (1..=5).map(|number| now_ms() + HOUR - number * 10_000).collect();
    for due in &times {
        bench.offer(json!({"value": "x", "due_ms": due}))?;
    }
    let seen = bench.look(&queue)?;
    let listed: Vec<_> = (0..seen.listed.len()).filter_map(|at| seen.score_of_entry(at)).collect();
    let due: Vec<f64> = listed.iter().filter_map(|score| score.parse().ok()).collect();
    if due.len() != times.len() {
        // Other statements are about what is missing.
        return Ok(());
    }
    bench.require(O2, due.is_sorted_by(|one, next| one > next), || {
        format!("offered with the due times {times:?}, one after the other; L has them as {listed:?}")
    });
    Ok(())
}

pub const EQUAL: Check = Check { name: "equal payloads", about: &[E4, O8, O1], run: equal };

fn equal(bench: &mut Bench) -> Result<(), Stop> {
    const MANY: usize = 100;
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    let due = now_ms() + HOUR;
    for _ in 0..MANY {
        bench.offer(json!({"value": "the same", "due_ms": due}))?;
    }
    let seen = bench.look(&queue)?;
    let elements = seen.scheduled.iter().map(|one| &one.element).chain(&seen.listed);
    let ids: HashSet<_> = elements.filter_map(|element| bench.read(element).ok()).map(|element| element.id).collect();
    let scheduled = seen.scheduled.len();
    let listed = seen.listed.len();
    if !ids.is_empty() {
        bench.require(E4, ids.len() == MANY, || format!("{MANY} offers of one value have {} different IDs", ids.len()));
        // A counter, or a clock, would show as bytes that never change. The double of the old layout has one that hardly does.
        let fixed = (0..8).filter(|&at| ids.iter().map(|id| id[at]).collect::<HashSet<_>>().len() == 1).count();
        bench.require(E4, fixed == 0, || format!("{fixed} of the 8 bytes of ID are the same in {MANY} offers"));
    }
    bench.require(O1, scheduled == listed, || format!("after {MANY} offers Z has {scheduled} elements and L {listed}"));
    bench.require(O8, scheduled.max(listed) == MANY, || {
        format!("{MANY} offers of one value: {scheduled} elements in Z, {listed} in L")
    });
    Ok(())
}

pub const EMPTY: Check = Check { name: "an empty payload", about: &[E7], run: empty };

fn empty(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    bench.needs("ids")?;
    if bench.said().is_some_and(|said| said.layout == Layout::Old) {
        return Err(Stop::NotChecked("it is about the current layout".to_owned()));
    }
    for id in ["0102030405064301", "010203040506c301"] {
        let answer = bench.try_ask(json!({"op": "offer", "value": "", "delay_ms": HOUR, "id": id}))?;
        let seen = bench.look(&queue)?;
        let refused = matches!(answer, Answer::Refused(_));
        bench.require(E7, refused && seen.scheduled.is_empty() && seen.listed.is_empty(), || {
            let what = if refused { "refused, and written" } else { "not refused" };
            format!("an empty payload with the ID {id} was {what}; a reader takes it for the old layout")
        });
    }
    Ok(())
}

pub const ONE_CALL: Check = Check { name: "one call", about: &[O1], run: one_call };

fn one_call(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    bench.offer(json!({"value": "loads the script", "delay_ms": HOUR}))?;
    let lines = watch(bench, |bench| bench.offer(json!({"value": "x", "delay_ms": HOUR})).map(drop))?;
    bench.require(O1, lines.in_one(&["ZADD", "RPUSH", "LPUSH"]), || {
        format!("the writes of one offer are not in one script or MULTI: {}", lines.shown())
    });
    Ok(())
}

/// Records the commands of a queue while something runs, in the words of `MONITOR`.
pub fn watch(bench: &mut Bench, run: impl FnOnce(&mut Bench) -> Result<(), Stop>) -> Result<Watched, Stop> {
    let Ok(mut monitor) = Monitor::on(&bench.server) else {
        return Err(Stop::NotChecked("the server does not let the kit MONITOR".to_owned()));
    };
    run(bench)?;
    Ok(Watched(monitor.lines(&mut bench.server, &bench.token.clone())?))
}

/// Commands that were run: the name, and who sent it, `lua` for a script.
pub struct Watched(Vec<(String, String)>);

impl Watched {
    /// Returns whether all commands of these names were in one script, or in one `MULTI`, and there was at least one.
    pub fn in_one(&self, names: &[&str]) -> bool {
        let writes = self.0.iter().filter(|(name, _)| names.contains(&&**name));
        let (inside, outside): (Vec<_>, Vec<_>) = writes.partition(|(_, sender)| sender == "lua");
        if let [(_, sender), ..] = &outside[..] {
            // The server runs what is between MULTI and EXEC without a command of others. Others may use them too.
            let of_sender: Vec<&str> = self.0.iter().filter(|(_, by)| by == sender).map(|(name, _)| &**name).collect();
            let count = |name: &str| of_sender.iter().filter(|one| **one == name).count();
            return inside.is_empty() && count("MULTI") == 1 && count("EXEC") == 1;
        }
        let calls = self.0.iter().filter(|(name, _)| ["EVAL", "EVALSHA", "FCALL"].contains(&&**name));
        !inside.is_empty() && calls.count() == 1
    }

    /// Returns the names of the commands, those inside of scripts in parentheses.
    pub fn shown(&self) -> String {
        let shown = self.0.iter().map(|(name, by)| if by == "lua" { format!("({name})") } else { name.clone() });
        shown.take(20).collect::<Vec<_>>().join(" ")
    }
}
