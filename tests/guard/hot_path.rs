//! The code that every element runs through, without input and output.

use std::hint::black_box;

use bytes::Bytes;
use delaybridge::config::{self, QueueSpec};
use delaybridge::message::{MessageId, Origin};
use delaybridge::route::ElementInfo;
use delaybridge::source::ledger::{Entry, Header, Move, batch_end, confirmation};
use delaybridge::source::redisson::layout::{Layout, pack};
use delaybridge::source::redisson::open_entry;

use crate::callgrind;
use crate::limits::HOT_PATH;

/// Elements of a run that is counted.
const ELEMENTS: usize = 500;
/// How the run that is counted gets its way, and whether it sends elements along it.
const WAY: &str = "DELAYBRIDGE_GUARD_WAY";
const BUSY: &str = "DELAYBRIDGE_GUARD_BUSY";

/// A queue, and what it is given.
pub struct Way {
    spec: std::sync::Arc<QueueSpec>,
    payload: String,
}

impl Way {
    fn of(name: &str) -> Way {
        let (codec, to) = match name {
            // Nothing is looked into and nothing is copied.
            "raw" => ("raw", "topic: orders"),
            // A key out of the payload, a header, an envelope around it.
            "json" => (
                "json",
                "topic: orders, key: '${payload.order.id}', headers: { tenant: '${payload.tenant}' }, envelope: json",
            ),
            other => panic!("no way {other}"),
        };
        let yaml = format!(
            "redis: {{ url: 'redis://h' }}\nsinks: {{ out: {{ kafka: {{ brokers: [h] }} }} }}\nqueues: {{ q: {{ source: \
             {{ redisson: {{ name: n }} }}, codec: {codec}, to: [{{ sink: out, {to} }}] }} }}\n"
        );
        let loaded = config::load_str(&yaml, "guard.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
        let payload = format!("{{\"order\":{{\"id\":4711,\"note\":\"{:>180}\"}},\"tenant\":\"acme\"}}", "x");
        Way { spec: loaded.config.queues[0].clone(), payload }
    }

    /// An entry as the claim script returns it.
    fn entry(&self, n: usize) -> Bytes {
        let id = MessageId((n as u64).to_le_bytes());
        let mut member = Header::redriven(Origin::Delayed, id, 1_700_000_000_000, [7; 8], Vec::new()).encode();
        member.extend_from_slice(&pack(Layout::New, id, self.payload.as_bytes()));
        member.into()
    }

    /// All that the daemon does to the elements itself, but for what asks a clock: the daemon's reads it where valgrind
    /// has no page for it.
    fn relay(&self, members: Vec<Bytes>) -> redis::Cmd {
        let mut moves = Vec::with_capacity(members.len());
        for member in members {
            let entry = Entry::decode(member).expect("an entry");
            let (id, payload) = open_entry(&entry);
            let payload = redisson_codecs::decode(self.spec.codec, &payload.expect("an element")).expect("a payload");
            let (due_ms, attempt) = (entry.header.due_ms(), entry.header.attempts + 1);
            let element = ElementInfo { id, queue: &self.spec.id, due_ms, attempt };
            let routed = self.spec.to[0].fill(&element, &payload).expect("a destination");
            black_box(routed);
            moves.push((entry.member, Move::Confirm));
        }
        assert_eq!(batch_end(moves.iter().map(|(member, step)| (member, step))), moves.len());
        confirmation(b"delaybridge:inflight:{n}", &moves)
    }
}

#[test]
fn an_element_costs_no_more_instructions_and_allocations_than_its_limit() {
    let mut over = Vec::new();
    for limit in &HOT_PATH {
        // The same process with everything but the elements: what is left is theirs.
        let [idle, busy] =
            ["0", "1"].map(|busy| callgrind::run("hot_path::runs_under_callgrind", &[(WAY, limit.way), (BUSY, busy)]));
        let instructions = (busy.instructions - idle.instructions) / ELEMENTS as u64;
        let allocations = (busy.allocations - idle.allocations) as f64 / ELEMENTS as f64;
        let found = format!("{}: {instructions} instructions, {allocations:.2} allocations", limit.way);
        println!("{found}");
        if instructions > limit.instructions || allocations > limit.allocations {
            over.push(format!("{found}; the limits are {} and {}", limit.instructions, limit.allocations));
        }
    }
    assert!(over.is_empty(), "an element costs more than its limit, see tests/guard/limits.rs:\n{}", over.join("\n"));
}

#[test]
#[ignore = "the test above runs it, under callgrind"]
fn runs_under_callgrind() {
    let way = Way::of(&std::env::var(WAY).expect("the way"));
    let members = (0..ELEMENTS).map(|n| way.entry(n)).collect();
    if std::env::var(BUSY).as_deref() == Ok("1") {
        black_box(way.relay(members));
    } else {
        black_box(members);
    }
}
