//! Looks at queues: whether a claim would take something. One script looks at many queues, so that thousands at rest cost a
//! server few calls, and the daemon little. In a cluster it looks at those of one slot.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;

use super::args::text;
use super::error::StoreError;
use super::score::Unit;
use delaybridge_link::{Conn, LargeArgs, LinkError, Redis, Score, Script, slot};

static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new("look", include_str!("scripts/look.lua")));

/// Returns the script of looks, to be loaded when a connection is made.
pub fn script() -> &'static Script {
    &LOOK
}

/// Maximum number of keys, and so of queues, in one call. Its script takes less than a millisecond, where the user may read all
/// keys; a user with rights for thousands of queues has each key compared with half of the patterns.
pub const LOOKED_AT_ONCE: usize = 400;

/// The keys of a queue that a look reads.
#[derive(Debug, Clone)]
pub struct Look {
    /// The sorted sets of what is scheduled.
    pub schedules: Vec<Bytes>,
    /// The unit of their scores.
    pub unit: Unit,
    /// The lists of what is ready.
    pub lists: Vec<Bytes>,
    /// The sorted set of retries.
    pub retry: Bytes,
    /// The leases.
    pub leases: Bytes,
}

/// The keys that one look reads of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookPart {
    /// All of them.
    All,
    /// The keys that users' programs write: schedules and lists.
    Users,
    /// The keys that only delaybridge writes: retries and leases.
    Own,
}

impl Look {
    fn keys(&self, part: LookPart) -> usize {
        match part {
            LookPart::All => self.schedules.len() + self.lists.len() + 2,
            LookPart::Users => self.schedules.len() + self.lists.len(),
            LookPart::Own => 2,
        }
    }
}

/// A look at a queue at a time.
#[derive(Debug, Clone, Copy)]
pub struct LookAt<'a> {
    /// The keys.
    pub look: &'a Look,
    /// The part of the keys that is read.
    pub part: LookPart,
    /// Redis time in ms: claims with leases that end until then are found.
    pub now_ms: i64,
    /// The time in ms until which an element has to be due.
    pub until_ms: i64,
}

/// The keys of one call that are compared with the same score.
struct Group<'a> {
    kind: Kind,
    /// The last score; none for lists.
    score: Option<Score>,
    /// Each key, and the place of its queue.
    keys: Vec<(&'a Bytes, usize)>,
}

/// The kind of keys. Those of a group are of one kind, because most keys of one kind exist, or most do not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Schedule,
    List,
    Retry,
    Leases,
}

/// Sorts the keys of looks into groups.
fn groups<'a>(looks: impl Iterator<Item = (usize, LookAt<'a>)>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut add = |kind, score: Option<Score>, key, place| match groups
        .iter_mut()
        .find(|group| group.kind == kind && group.score == score)
    {
        Some(group) => group.keys.push((key, place)),
        None => groups.push(Group { kind, score, keys: vec![(key, place)] }),
    };
    for (place, LookAt { look, part, now_ms, until_ms }) in looks {
        if part != LookPart::Own {
            let until = look.unit.until(until_ms);
            look.schedules.iter().for_each(|key| add(Kind::Schedule, Some(until), key, place));
            look.lists.iter().for_each(|key| add(Kind::List, None, key, place));
        }
        if part == LookPart::Users {
            continue;
        }
        add(Kind::Retry, Some(Score::of_ms(until_ms)), &look.retry, place);
        // A lease that is not over may be extended: it is nothing to wait for.
        add(Kind::Leases, Some(Score::of_ms(now_ms)), &look.leases, place);
    }
    groups
}

/// The call of the script for some queues.
struct LookCall<'a> {
    /// The looks, each with the place of its queue.
    looks: Vec<(usize, LookAt<'a>)>,
    keys: Vec<&'a Bytes>,
    args: Vec<Bytes>,
    /// The place of the queue of each key.
    of: Vec<usize>,
}

impl<'a> LookCall<'a> {
    fn of(looks: Vec<(usize, LookAt<'a>)>) -> LookCall<'a> {
        let groups = groups(looks.iter().copied());
        let args = groups.iter().flat_map(|group| [text(group.keys.len()), group.score.map(text).unwrap_or_default()]);
        let args = args.collect();
        let (keys, of) = groups.into_iter().flat_map(|group| group.keys).unzip();
        LookCall { looks, keys, args, of }
    }

    /// Makes as many calls as it takes, because the keys in each are bounded.
    fn all(looks: impl Iterator<Item = (usize, LookAt<'a>)>) -> Vec<LookCall<'a>> {
        let mut calls: Vec<Vec<(usize, LookAt<'a>)>> = Vec::new();
        let mut keys = 0;
        for look in looks {
            let more = look.1.look.keys(look.1.part);
            keys += more;
            match calls.last_mut() {
                Some(call) if keys <= LOOKED_AT_ONCE => call.push(look),
                _ => {
                    keys = more;
                    calls.push(vec![look]);
                }
            }
        }
        calls.into_iter().map(LookCall::of).collect()
    }

    /// Takes the reply of the script over into the answers for the queues. Returns whether the call was refused for the sake of
    /// one of its queues.
    fn answered(&self, reply: Result<redis::Value, LinkError>, answers: &mut Answers) -> bool {
        let reply = reply.map_err(StoreError::from).and_then(|reply| {
            redis::from_redis_value::<Vec<usize>>(reply).map_err(|error| StoreError::Malformed(error.to_string()))
        });
        match reply {
            Ok(found) => {
                self.of.iter().for_each(|place| answers[*place] = Some(false));
                // Numbers begin with 1.
                let places = found.into_iter().filter_map(|number| self.of.get(number.wrapping_sub(1)));
                places.for_each(|place| answers[*place] = Some(true));
            }
            // A claim would report it: also a slot that moves, in which no script reads what is not there.
            Err(error) if !error.passes() || matches!(error, StoreError::Moving { .. }) => {
                self.of.iter().for_each(|place| answers[*place] = Some(true));
                return !error.passes() && self.looks.len() > 1;
            }
            // The next look finds it.
            Err(_) => {}
        }
        false
    }
}

/// For each queue whether a claim would take something; `None` where there was no answer.
pub type Answers = Vec<Option<bool>>;

/// Looks at queues of one server.
pub(super) async fn look_at(conn: &Conn, looks: &[LookAt<'_>]) -> Answers {
    let mut answers = vec![None; looks.len()];
    for call in LookCall::all(looks.iter().copied().enumerate()) {
        if call.answered(conn.script(&LOOK, &call.keys, &call.args).await, &mut answers) {
            look_one_by_one(conn, call, &mut answers).await;
        }
    }
    answers
}

/// Looks at the queues of a call each by itself: one of them may not be read, and must not hide the others.
async fn look_one_by_one(conn: &Conn, call: LookCall<'_>, answers: &mut Answers) {
    let calls: Vec<_> = call.looks.into_iter().map(|look| LookCall::of(vec![look])).collect();
    for (call, reply) in calls.iter().zip(ask(conn, &calls).await) {
        call.answered(reply, answers);
    }
}

/// Looks at queues of a cluster: in one round trip to each node, with a call for each slot.
pub(super) async fn look_in_cluster(redis: &Redis, looks: &[LookAt<'_>], patience: Duration) -> Answers {
    let mut answers = vec![None; looks.len()];
    let asked = by_node(redis, looks).into_iter().map(async |(conn, calls)| {
        // What has no answer here is looked at again by the next round.
        let replies = tokio::time::timeout(patience, ask(&conn, &calls)).await.unwrap_or_default();
        (conn, calls, replies)
    });
    for (conn, calls, replies) in join_all(asked).await {
        for (call, reply) in calls.into_iter().zip(replies) {
            if call.answered(reply, &mut answers) {
                // Without an answer, all of them remain what a claim would report.
                let _ = tokio::time::timeout(patience, look_one_by_one(&conn, call, &mut answers)).await;
            }
        }
    }
    answers
}

/// Sends calls in one round trip; no replies where there was no answer.
async fn ask(conn: &Conn, calls: &[LookCall<'_>]) -> Vec<Result<redis::Value, LinkError>> {
    let mut pipe = redis::Pipeline::with_capacity(calls.len());
    let mut large = LargeArgs::default();
    for call in calls {
        pipe.add_command(LOOK.command(&call.keys, &call.args, &mut large));
    }
    let mut replies = conn.pipeline(&pipe).await.unwrap_or_default();
    if replies.iter().any(|reply| matches!(reply, Err(LinkError::Server { code: "NOSCRIPT", .. }))) {
        replies.clear();
        if conn.load(&LOOK).await.is_ok() {
            replies = conn.pipeline(&pipe).await.unwrap_or_default();
        }
    }
    replies
}

/// Makes the calls for each node that has a connection.
fn by_node<'a>(redis: &Redis, looks: &[LookAt<'a>]) -> Vec<(Conn, Vec<LookCall<'a>>)> {
    let slots = looks.iter().enumerate().map(|(place, at)| (slot(&at.look.leases), place));
    let mut slots: Vec<_> = slots.collect();
    slots.sort_unstable();
    let mut nodes: Vec<(Conn, Vec<LookCall<'a>>)> = Vec::new();
    for slot in slots.chunk_by(|(one, _), (other, _)| one == other) {
        let Some((_, first)) = slot.first() else { continue };
        let Some(conn) = redis.at(&looks[*first].look.leases).current() else { continue };
        let calls = LookCall::all(slot.iter().map(|(_, place)| (*place, looks[*place])));
        match nodes.iter_mut().find(|(of, _)| of.address() == conn.address()) {
            Some((_, all)) => all.extend(calls),
            None => nodes.push((conn, calls)),
        }
    }
    nodes
}
