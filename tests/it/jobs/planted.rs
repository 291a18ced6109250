//! The random test detects bugs: each row is a plausible bug.

use std::panic::AssertUnwindSafe;

use delaybridge_jobs::{Patch, Scripts};
use delaybridge_link::Clock;
use futures_util::FutureExt;

use super::random::History;
use super::rig::Rig;

/// Number of seeds to try.
const SEEDS: u64 = 2_000;

const BUGS: &[(&str, &[Patch])] = &[
    ("a finished job stays reserved", &[("finish", "    call('ZREM', RESERVED, id)\n", "")]),
    ("anybody may finish", &[("finish", "text and string.sub(text, 30, 45) == ARGV[i + 1]", "text")]),
    ("a token is good after the job was given back", &[("finish", " and typed(RESERVED, 'ZSCORE', id) then", " then")]),
    ("a priority is ignored", &[("pop", "full = take_urgent(left)", "full = false")]),
    ("the lowest priority is the first", &[("add", "(9 - math.min(priority, 9)) * RANGE", "(priority - 1) * RANGE")]),
    ("the order of jobs that are not due is thrown away", &[("pop", "if score - range > now then", "if false then")]),
    (
        "a job with a priority is early",
        &[
            ("pop", "if score - range > now then", "if score - range > now + 500 then"),
            ("pop", "if due and tonumber(due) <= now then", "if due then"),
        ],
    ),
    ("only the highest priority counts", &[("pop", "from, skip = range + RANGE, 0", "do return false end")]),
    ("a job with a priority keeps its order", &[("pop", "call('ZREM', URGENT, unpack(ids))", "")]),
    ("a job with a priority is taken once more", &[("pop", "if taken[rows[i]] then", "if false then")]),
    ("more jobs with a priority are taken than asked for", &[("pop", "if #ids == most then return true end", "")]),
    ("the priority is not in the record", &[("add", "or tries, priority)", "or tries, 0)")]),
    (
        "a job that comes back has lost its priority",
        &[("tick", "priority = math.floor(tries / 16777216)", "priority = 0")],
    ),
    (
        "a job that comes back is behind the others",
        &[("tick", "wait_until(id, due, s.priority)", "wait_until(id, due, 0)")],
    ),
    (
        "a released job is behind the others",
        &[("release", "wait_until(id, due, s.priority)", "wait_until(id, due, 0)")],
    ),
    (
        "a recovered job is behind the others",
        &[("recover", "wait_until(id, due, s.priority)", "wait_until(id, due, 0)")],
    ),
    (
        "a redriven job is behind the others",
        &[("redrive", "wait_until(id, now, s.priority)", "wait_until(id, now, 0)")],
    ),
    (
        "a first reservation loses the priority",
        &[(
            "pop",
            "priority = math.floor(tries / 16777216), ttr = ttr, reserved = 0",
            "priority = 0, ttr = ttr, reserved = 0",
        )],
    ),
    (
        "another due time leaves the order",
        &[("change", "wait_until(id, due, priority or 0)", "wait_until(id, due, 0)")],
    ),
    (
        "a job without a priority any more keeps its order",
        &[("change", "if priority == 0 and topic[4] then", "if false then")],
    ),
    ("a change of a priority is not in the state", &[("change", "s.priority = priority", "")]),
    (
        "a change of a priority is not in the record",
        &[("change", "string.char(priority, #new_type)", "string.char(had, #new_type)")],
    ),
    ("what is deleted keeps its order", &[("delete", "if urgent then call('ZREM', URGENT, id) end", "")]),
    (
        "what a topic was emptied of keeps its order",
        &[("empty", "if call('HEXISTS', TOPIC, 'urgent') == 1 then call('ZREM', URGENT, unpack(ids)) end", "")],
    ),
    (
        "a firing forgets the priority",
        &[("recurring_fire", "local priority = tonumber(ARGV[10])", "local priority = 0")],
    ),
    (
        "the order of jobs outlives their topic",
        &[(
            "destroy",
            "call('UNLINK', unpack(KEYS))",
            "call('UNLINK', DUE, RESERVED, RECORDS, STATE, DEAD, EXPIRY, GONE, TOPIC, UNIQUE, HOLDERS, FIRINGS, RECURRING)",
        )],
    ),
    ("a topic forgets that it has priorities", &[("tick", "if call('ZCARD', URGENT) == 0 then", "if true then")]),
    ("a job is handed out twice", &[("pop", "call('ZREM', DUE, unpack(ids))", "")]),
    (
        "a job is handed out early",
        &[("pop", "if tonumber(next_due) > now or full", "if tonumber(next_due) > now + 500 or full")],
    ),
    ("attempts are not counted", &[("pop", "s.attempts + 1, now, token", "s.attempts, now, token")]),
    ("the token of the last consumer stays", &[("pop", "s.attempts + 1, now, token", "s.attempts + 1, now, s.token")]),
    ("a consumer's own time to run is ignored", &[("pop", "if ARGV[5] ~= '' then s.ttr = tonumber(ARGV[5]) end", "")]),
    ("a paused topic hands out", &[("pop", "if paused == 0 then", "if true then")]),
    (
        "what is past its time to live is handed out",
        &[("pop", "elseif s.expires > 0 and s.expires <= now then", "elseif false then")],
    ),
    ("tries never end", &[("pop", "if s.attempts >= s.tries then", "if false then")]),
    ("a job dies one try early", &[("pop", "if s.attempts >= s.tries then", "if s.attempts + 1 >= s.tries then")]),
    (
        "a job that comes back stays reserved too",
        &[("tick", "    call('ZREM', RESERVED, id)\n    local place", "    local place")],
    ),
    (
        "a job that comes back is due at once only by the clock",
        &[(
            "tick",
            "letter = give_back(id, s, now, tonumber(rows[i + 1]) + wait(s.attempts))",
            "letter = give_back(id, s, now, now)",
        )],
    ),
    ("what is gone leaves its state", &[("pop", "  call('HDEL', STATE, id)\n", "")]),
    ("what is gone is not forgotten by a pop", &[("pop", "for i = 1, #gone do forget(gone[i]) end", "")]),
    (
        "only the first job of a pop is reserved",
        &[("pop", "local ends, r, n = now + s.ttr, #reserved, #jobs", "local ends, r, n = now + s.ttr, 0, #jobs")],
    ),
    ("what is deleted leaves its time to live", &[("delete", "  call('ZREM', EXPIRY, id)\n", "")]),
    (
        "the dead keep their time to live",
        &[(
            "release",
            "    call('HSET', STATE, id, pack_state(s))\n    call('ZREM', EXPIRY, id)\n    return 'd'",
            "    call('HSET', STATE, id, pack_state(s))\n    return 'd'",
        )],
    ),
    ("a full topic takes more", &[("add", "- dead + new > most", "- dead > most")]),
    ("half of a batch is added", &[("add", "if letters[n] == 'y' then", "if letters[n] == 'y' and n == 1 then")]),
    (
        "an id that is there is added again",
        &[("add", "elseif typed(RECORDS, 'HEXISTS', id) == 1 then", "elseif false then")],
    ),
    ("a finished id is forgotten", &[("finish", "call('ZADD', GONE, ms(now + tonumber(ARGV[1])), id)", "")]),
    ("a finished id is added again", &[("add", "if is_remembered(id) then letter = 'g' end", "")]),
    ("a due time in the past is kept", &[("add", "elseif due < now then due = now end", "end")]),
    (
        "a job is released beyond its time to live",
        &[("release", "and s.expires > now and s.expires <= due", "and false")],
    ),
    (
        "a refused release ends the reservation",
        &[("release", "if letter ~= 's' then call('ZREM', RESERVED, id) end", "call('ZREM', RESERVED, id)")],
    ),
    ("a release ignores its delay", &[("release", "now + (tonumber(ARGV[i + 3]) or 0)", "now")]),
    ("a release does not count", &[("release", "if how == 'u' then\n", "if true then\n")]),
    ("a buried job stays reserved", &[("release", "if letter ~= 's' then call('ZREM', RESERVED, id) end", "")]),
    ("a touch does not last", &[("touch", "call('ZADD', RESERVED, ms(till), id)", "")]),
    ("only the first job of a call is touched", &[("touch", "for i = 1, #ARGV, 3 do", "for i = 1, 3, 3 do")]),
    (
        "a touch takes the token of another job",
        &[("touch", "== ARGV[i + 1] and unpack_state", "== ARGV[2] and unpack_state")],
    ),
    ("a job of a call is finished twice", &[("finish", "held[id], letter = nil, 'y'", "letter = 'y'")]),
    (
        "a deleted job keeps its place among the reserved",
        &[(
            "delete",
            "elseif call('ZREM', RESERVED, id) == 1 then letter = 'r'",
            "elseif call('ZSCORE', RESERVED, id) then letter = 'r'",
        )],
    ),
    (
        "the dead are never trimmed",
        &[("release", "local trimmed = died > 0 and trim_dead(ARGV[1]) or 0", "local trimmed = 0")],
    ),
    (
        "the latest dead are trimmed",
        &[("tick", "call('ZRANGE', DEAD, 0, over - 1)", "call('ZRANGE', DEAD, -over, -1)")],
    ),
    ("a change ignores what its client has seen", &[("change", "was ~= tonumber(ARGV[5])", "false")]),
    (
        "a change takes what a consumer has",
        &[(
            "change",
            "local text = call('ZSCORE', DUE, id)",
            "local text = call('ZSCORE', DUE, id) or call('ZSCORE', RESERVED, id)",
        )],
    ),
    ("a change moves a ready job behind the others", &[("change", "due = math.min(was, now)", "due = now")]),
    (
        "a changed job outlives its time to live",
        &[("change", "if ends and tonumber(ends) <= due then", "if false then")],
    ),
    ("a change of a body is only said", &[("change", "if record then call('HSET', RECORDS, id, record) end", "")]),
    ("a change of a body loses its head", &[("change", "string.sub(old, 1, 25) ..", "string.rep('\\1', 25) ..")]),
    ("a change of a due time is only said", &[("change", "call('ZADD', DUE, ms(due), id)", "")]),
    ("a topic is emptied of one job too many", &[("empty", "tonumber(ARGV[1]) - 1", "tonumber(ARGV[1])")]),
    ("what a topic was emptied of leaves its state", &[("empty", "call('HDEL', STATE, unpack(ids))", "")]),
    ("what a topic was emptied of leaves its time to live", &[("empty", "call('ZREM', EXPIRY, unpack(ids))", "")]),
    ("a topic is removed while a consumer has a job", &[("destroy", "reserved + forwarding > 0", "forwarding > 0")]),
    (
        "ids outlive their topic",
        &[(
            "destroy",
            "call('UNLINK', unpack(KEYS))",
            "call('UNLINK', DUE, RESERVED, RECORDS, STATE, DEAD, EXPIRY, TOPIC, URGENT)",
        )],
    ),
    ("a unique key holds nobody off", &[("add", "or holder_of(key)", "")]),
    ("a unique key holds nobody off within a call", &[("add", "holder_of_new[key] or ", "")]),
    ("a unique key is held for ever", &[("add", " or tonumber(ends) <= now then", " then")]),
    ("a unique key outlives its job", &[("add", "if string.byte(text) == 102 and", "if false and")]),
    ("a unique key ends with its job, whatever was asked for", &[("add", "string.byte(text) == 102 and ", "")]),
    (
        "a held unique key is told by another id",
        &[("add", "local id = string.sub(text, 2)", "local id = string.sub(text, 1)")],
    ),
    ("a unique key is only said", &[("add", "call('ZADD', UNIQUE, unpack(ends_of_keys))", "")]),
    ("a unique key is not free in time", &[("tick", "local ended = math.min(", "local ended = math.min(0, ")]),
    (
        "a unique key leaves its holder",
        &[("tick", "call('HDEL', HOLDERS, unpack(call('ZRANGE', UNIQUE, 0, ended - 1)))", "")],
    ),
    (
        "a unique key is free too early",
        &[("tick", "call('ZCOUNT', UNIQUE, '-inf', ms(now))", "call('ZCOUNT', UNIQUE, '-inf', ms(now + 5000))")],
    ),
    (
        "unique keys outlive their topic",
        &[(
            "destroy",
            "call('UNLINK', unpack(KEYS))",
            "call('UNLINK', DUE, RESERVED, RECORDS, STATE, DEAD, EXPIRY, GONE, TOPIC, URGENT)",
        )],
    ),
    (
        "a firing is fired twice",
        &[("recurring_fire", "math.max(math.ceil(tonumber(next_ms)), -2 ^ 63) ~= firing or ", "")],
    ),
    ("a firing comes again", &[("recurring_fire", "else call('ZADD', FIRINGS, after, name) end", "end")]),
    ("a firing is early", &[("recurring_fire", " or firing > now then", " then")]),
    (
        "a firing is due when it is late",
        &[("recurring_fire", "wait_until(ids[i], tonumber(dues[i]), priority)", "wait_until(ids[i], now, priority)")],
    ),
    (
        "a job past its time to live keeps its id",
        &[("add", "if is_over(id) then return {'over', now} end\n    letter = has_body", "letter = has_body")],
    ),
    (
        "a job past its time to live keeps its unique key",
        &[("add", "if is_over(holder) then return {'over', now} end", "")],
    ),
    (
        "a job past its time to live is changed",
        &[("change", "if ends and tonumber(ends) <= now then return {'n', now} end", "")],
    ),
    (
        "jobs past their time to live fill a topic",
        &[("add", "return {over[1] and 'over' or 'full', now, most}", "return {'full', now, most}")],
    ),
    ("a full topic takes a firing", &[("recurring_fire", "if room <= 0 then", "if room < 0 then")]),
    (
        "a topic takes more firings than it has room for",
        &[("recurring_fire", "count = math.min(count, room)", "count = count")],
    ),
    ("a firing without room is lost", &[("recurring_fire", "dues[count + 1] or ARGV[9]", "ARGV[9]")]),
    (
        "a change loses a firing that is due",
        &[(
            "recurring_set",
            "if head and paused == 0 and is_due(next_ms, now) and ARGV[8] ~= '1' then",
            "if false then",
        )],
    ),
    (
        "a pause loses a firing that is due",
        &[("recurring_switch", "if what ~= 'r' and head", "if what == 'd' and head")],
    ),
    (
        "a firing leaves its job without a time to live",
        &[("recurring_fire", "if expires > 0 then call('ZADD', EXPIRY", "if false then call('ZADD', EXPIRY")],
    ),
    ("a firing forgets its own tries", &[("recurring_fire", "if tries == 0 then", "if true then")]),
    ("a pause leaves the firing", &[("recurring_switch", "call('ZREM', FIRINGS, name)\nif paused", "if paused")]),
    (
        "a pause is not kept",
        &[(
            "recurring_switch",
            "struct.pack('<BI8B', 1, head.revision, paused)",
            "struct.pack('<BI8B', 1, head.revision, 0)",
        )],
    ),
    (
        "a resumed job never fires",
        &[("recurring_switch", "if paused == 0 then call('ZADD', FIRINGS, ARGV[5], name) end", "")],
    ),
    (
        "a removed job leaves its body",
        &[("recurring_switch", "call('HDEL', RECURRING, name, '=' .. name)", "call('HDEL', RECURRING, name)")],
    ),
    (
        "a removed job goes on firing",
        &[("recurring_switch", "  call('ZREM', FIRINGS, name)\n  call('HDEL'", "  call('HDEL'")],
    ),
    (
        "a change ends the pause of a recurring job",
        &[("recurring_set", "local paused = head and head.paused or 0", "local paused = 0")],
    ),
    (
        "another body is no change",
        &[(
            "recurring_set",
            "head.tail == ARGV[3] and call('HGET', RECURRING, '=' .. name) == ARGV[4]",
            "head.tail == ARGV[3]",
        )],
    ),
    (
        "a repeated call moves the next firing",
        &[("recurring_set", "and (next_ms or paused == 1) then", "and false then")],
    ),
    ("the next firing is not told", &[("tick", "call('ZRANGE', FIRINGS, 0, 0, 'WITHSCORES')[2]", "nil")]),
    (
        "recurring jobs outlive their topic",
        &[(
            "destroy",
            "call('UNLINK', unpack(KEYS))",
            "call('UNLINK', DUE, RESERVED, RECORDS, STATE, DEAD, EXPIRY, GONE, TOPIC, URGENT, UNIQUE, HOLDERS)",
        )],
    ),
    ("a wait does not grow", &[("tick", "first * 2 ^ math.min(math.max(attempts - 1, 0), 52)", "first")]),
    ("a wait grows for ever", &[("release", "return math.min(first * 2 ^", "return math.max(first * 2 ^")]),
    ("a job that ran out does not wait", &[("pop", " + wait(s.attempts))", ")")]),
    (
        "a job that is released without a delay does not wait",
        &[("release", "due = now + wait(s.attempts)", "due = now")],
    ),
    (
        "a job waits after an attempt that does not count",
        &[("release", "    elseif ARGV[i + 3] == '' then", "    end\n    if ARGV[i + 3] == '' then")],
    ),
    ("redrive leaves the job dead", &[("redrive", "    call('ZREM', DEAD, id)\n", "")]),
    (
        "redrive keeps the attempts",
        &[("redrive", "s.attempts, s.expires = 0, ", "s.attempts, s.expires = s.attempts, ")],
    ),
    ("a tick overlooks unique keys", &[("tick", "limit_reached or topic[2] or", "limit_reached or")]),
    ("a tick overlooks recurring jobs", &[("tick", "or topic[3] or topic[4] then", "or topic[4] then")]),
    ("redrive takes what is not dead", &[("redrive", "if call('ZSCORE', DEAD, id) then", "if true then")]),
    ("purge leaves the record", &[("purge", "    forget(ids[i])\n", "")]),
    ("a time to live ends a job that its consumer has", &[("tick", "  if ends then", "  if false then")]),
    ("what is recovered counts", &[("recover", "math.max(s.attempts - 1, 0)", "s.attempts")]),
    ("what others hold is recovered", &[("recover", "string.sub(states[i], 30, 45) == ARGV[1] and ", "")]),
];

/// Whether any seed detects it.
async fn noticed(rig: &mut Rig, scripts: &'static Scripts) -> bool {
    for seed in 0..SEEDS {
        if let Err(reason) = AssertUnwindSafe(History::run(rig, scripts, seed)).catch_unwind().await {
            let text = reason.downcast_ref::<String>().map_or("", String::as_str);
            assert!(!text.contains("compiling"), "the bug is no Lua: {text}");
            return true;
        }
    }
    false
}

#[tokio::test]
async fn every_planted_bug_is_noticed() {
    let mut rig = Rig::start().await;
    let mut missed = Vec::new();
    for (bug, patches) in BUGS {
        let scripts = Box::leak(Box::new(Scripts::patched(Clock::Test, patches)));
        if !noticed(&mut rig, scripts).await {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
