//! Bugs planted in the scripts: the random histories detect each of them.
//!
//! Each bug is tried on the seed that detected it before, and on others if the histories have changed since. Bugs that
//! need one particular history are in `directed_list`.

use std::sync::Mutex;

use delaybridge_ledger::claims::Patch;
use delaybridge_link::Clock;
use delaybridge_source::redisson::Scripts;

use super::rig::Rig;
use super::runner::{self, Trace};
use super::schedule;

/// Number of seeds that are tried beside the one in the table.
const SEEDS: u64 = 250;

/// A bug, the seed that detects it, and the replaced texts.
type Bug = (&'static str, u64, &'static [Patch<'static>]);

const BUGS: &[Bug] = &[
    (
        "claim does not notice that it ran",
        16,
        &[(
            "claim",
            "if call('ZADD', LEASES, 'NX', deadline, ARGV[1]) == 0 then return {'twice', now} end\n  elseif",
            "call('ZADD', LEASES, deadline, ARGV[1])\n  elseif",
        )],
    ),
    (
        "claim of a few does not notice that it ran",
        54,
        &[(
            "claim",
            "if call('ZADD', LEASES, 'NX', deadline, ARGV[1]) == 0 then return {'twice', now} end\n    call(",
            "call('ZADD', LEASES, deadline, ARGV[1])\n    call(",
        )],
    ),
    (
        "claim replaces its keys when the lease was deleted",
        23,
        &[("claim", "if call('EXISTS', D, H) > 0 then return {'twice', now} end", "")],
    ),
    ("claim runs after not_after", 0, &[("claim", "if now > tonumber(ARGV[4]) then return {'late', now} end", "")]),
    (
        "claim takes what is not due",
        0,
        &[("claim", "look(Z, now + tonumber(ARGV[14])", "look(Z, now + 1000 + tonumber(ARGV[14])")],
    ),
    (
        "claim writes no lease",
        0,
        &[(
            "claim",
            "if call('ZADD', LEASES, 'NX', deadline, ARGV[1]) == 0 then return {'twice', now} end\n  elseif",
            "\n  elseif",
        )],
    ),
    (
        "claim removes by score what it took by rank",
        0,
        &[(
            "claim",
            "call('ZREMRANGEBYRANK', Z, 0, got_z - 1)\nend",
            "call('ZREMRANGEBYSCORE', Z, '-inf', ms(now))\nend",
        )],
    ),
    (
        "claim does not remove from retry what it took",
        0,
        &[("claim", "call('ZREMRANGEBYRANK', RETRY, 0, got_retry - 1)", "")],
    ),
    (
        "claim takes entries of a newer version",
        5,
        &[("claim", "for i = 1, #aside do call('ZADD', RETRY, ms(now + 60000), aside[i]) end", "")],
    ),
    (
        "claim trims one payload too many from the ready list",
        1,
        &[("claim", "call('LTRIM', READY, #payloads, -1)", "call('LTRIM', READY, #payloads + 1, -1)")],
    ),
    (
        "equal payloads get equal headers",
        0,
        &[("claim", "begin .. struct.pack('<I4', i) .. id", "begin .. struct.pack('<I4', 1) .. 'same  id'")],
    ),
    ("ids are those of the claim before", 7, &[("claim", "':' .. i .. ':' .. ARGV[3]", "':' .. i")]),
    ("claim of a full Redis has no opening write", 0, &[("claim", "if got_z > 0 then open(Z) end", "")]),
    (
        "claim of a few in a full Redis has no opening write",
        14,
        &[("claim", "    open(Z)\n    if call(", "    if call(")],
    ),
    (
        "claim of a few trims by count",
        1,
        &[("claim", "while at_head[run] do run = run + 1 end", "for place in pairs(at_head) do run = run + 1 end")],
    ),
    (
        "claim of a few trims up to the last",
        1,
        &[(
            "claim",
            "while at_head[run] do run = run + 1 end",
            "for place in pairs(at_head) do run = math.max(run, place + 1) end",
        )],
    ),
    (
        "claim of a few leaves in L what is behind the run",
        1,
        &[("claim", "if places[i] < 0 or places[i] > run then", "if places[i] < 0 then")],
    ),
    (
        "claim of a few leaves in L what is at the tail",
        7,
        &[("claim", "if places[i] < 0 or places[i] > run then", "if places[i] > run then")],
    ),
    (
        "claim of a few answers the head behind them as taken",
        1,
        &[("claim", "for i = #rows, 2 * n_z + 1, -1 do rows[i] = nil end", "")],
    ),
    (
        "claim of a few takes more bytes than there is room for",
        1,
        &[("claim", "if not rows[1] or bytes > tonumber(ARGV[7]) then rows = {} end", "")],
    ),
    (
        "claim of a few takes more than are wanted",
        1,
        &[("claim", "if n_z > 0 and n_z <= 8 and n_z <= most and", "if n_z > 0 and n_z <= 8 and")],
    ),
    (
        "the beginning of L is cut by count",
        3,
        &[(
            "claim",
            "        if sought[entry] then\n          sought[entry]",
            "        if missing > 0 then\n          sought[entry]",
        )],
    ),
    (
        "an end of L is cut by count",
        0,
        &[("claim", "while at[run] do\n        at[run] = nil", "while next(at) do\n        at[next(at)] = nil")],
    ),
    ("what is found at the beginning of L stays there", 3, &[("claim", "    trim(run, true)\n", "")]),
    ("a ghost that is live again is cut", 73, &[("claim", "not call('ZSCORE', Z, entry) and forget", "forget")]),
    (
        "an entry that is not recorded is cut",
        30,
        &[("claim", "and forget(entry) then", "and (forget(entry) or true) then")],
    ),
    (
        "ghosts at the ends are forgotten and stay in L",
        89,
        &[("claim", "      run = run + 1\n    end\n    trim(run, head)", "      run = run + 1\n    end")],
    ),
    (
        "a ghost's twin is not searched for",
        165,
        &[("claim", "if recorded[i] == 1 or seen[id] then", "if recorded[i] == 1 then\n      elseif seen[id] then")],
    ),
    (
        "twins in one claim are not searched for",
        155,
        &[("claim", "if recorded[i] == 1 or seen[id] then", "if recorded[i] == 1 then")],
    ),
    (
        "places at the tail are counted from a wrong length",
        35,
        &[("claim", "if p then p = entries_in_list - 1 - p end", "if p then p = entries_in_list - p end")],
    ),
    ("the length of L is not kept", 3, &[("claim", "entries_in_list = entries_in_list - n", "local _ = n")]),
    ("takeover does not ask whether the lease is over", 91, &[("take_over", " or tonumber(ends[1]) > now", "")]),
    (
        "takeover runs after not_after",
        0,
        &[("take_over", "if now > tonumber(ARGV[3]) then return {'late', now} end", "")],
    ),
    (
        "takeover does not notice that it ran",
        8,
        &[("take_over", "if ends[2] or call('EXISTS', D, H) > 0 then return {'twice', now} end", "")],
    ),
    ("takeover copies", 0, &[("take_over", "call('RENAME', OLD_D, D)", "call('ZUNIONSTORE', D, 1, OLD_D)")]),
    ("takeover forgets the entries", 0, &[("take_over", "if n_h > 0 then call('RENAME', OLD_H, H) end", "")]),
    (
        "takeover of a part removes the old lease",
        0,
        &[("take_over", "else\n  if got_d > 0 then", "else\n  call('ZREM', LEASES, ARGV[1])\n  if got_d > 0 then")],
    ),
    ("takeover of a part copies", 1, &[("take_over", "call('ZREMRANGEBYRANK', OLD_D, 0, got_d - 1)", "")]),
    (
        "bury looks at no keys",
        2,
        &[("bury", "if call('EXISTS', KEYS[2 * i - 2], KEYS[2 * i - 1]) > 0 then", "if false then")],
    ),
    ("bury does not wait", 3, &[("bury", "if now <= tonumber(ARGV[1]) then return {'wait', now} end", "")]),
    (
        "extension runs after not_after",
        0,
        &[("extend", "if now > tonumber(ARGV[1]) then return {'late', now} end", "")],
    ),
    (
        "extend brings leases back",
        0,
        &[
            ("extend", "if held then adds", "if true then adds"),
            ("extend", "'ZADD', LEASES, 'XX', unpack", "'ZADD', LEASES, unpack"),
        ],
    ),
    (
        "a retry is added whether the element is there or not",
        0,
        &[(
            "settle",
            "if score then\n      call('ZADD', to, score, new)",
            "if true then\n      call('ZADD', to, score or ms(now), new)",
        )],
    ),
    ("a retry is due at once", 0, &[("settle", "if verdict == 't' then at = now + at end", "")]),
    ("progress is written beside the entries", 0, &[("settle", "to = KEYS[k % 2 == 0 and k + 1 or k]", "to = from")]),
    (
        "a push is repeated",
        0,
        &[("settle", "elseif call('ZSCORE', from, member) then\n      call(ARGV", "elseif true then\n      call(ARGV")],
    ),
    (
        "a dead letter is repeated",
        9,
        &[("settle", "if call('ZSCORE', from, member) then\n      call('XADD'", "if true then\n      call('XADD'")],
    ),
    ("settle of a full Redis has no opening write", 0, &[("settle", "call('ZREM', KEYS[5], '')", "")]),
];

/// The seed that detects this bug, if any.
async fn noticed(rig: &mut Rig, scripts: &'static Scripts, first: u64) -> Option<(u64, String)> {
    for seed in std::iter::once(first).chain((0..SEEDS).filter(|seed| *seed != first)) {
        let history = schedule::run(rig, Some(scripts), seed, Trace::default(), false);
        if let Some(reason) = runner::panic_of(history).await {
            return Some((seed, reason));
        }
    }
    None
}

#[test]
fn every_planted_bug_is_noticed() {
    let next = Mutex::new(BUGS.iter());
    let missed = Mutex::new(Vec::new());
    let take = || next.lock().expect("no one panics with it").next();
    runner::on_threads(3, async || {
        let mut rig = Rig::with_all_rights().await;
        while let Some((bug, seed, patches)) = take() {
            let scripts = Box::leak(Box::new(Scripts::patched(Clock::Test, patches)));
            match noticed(&mut rig, scripts, *seed).await {
                Some((noticed, _)) if noticed == *seed => {}
                Some((noticed, reason)) => {
                    let reason: String = reason.chars().take(200).collect();
                    println!("{bug}: seed {noticed}, no longer {seed}: {reason}");
                }
                None => missed.lock().expect("no one panics with it").push(bug),
            }
        }
    });
    let missed = missed.into_inner().expect("no one panicked with it");
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
