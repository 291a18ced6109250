//! The code that processes every element, without input and output.

use std::hint::black_box;

use bytes::Bytes;
use delaybridge_core::message::MessageId;
use delaybridge_core::template::ElementInfo;
use delaybridge_ledger::claims::Element;
use delaybridge_model::{QueueSpec, Routed};
use delaybridge_sink::Outbound;
use delaybridge_source::redisson::layout::{Layout, pack};
use delaybridge_source::redisson::open_entry;

use crate::callgrind;
use crate::limits::{ELEMENT_BYTES, HOT_PATH, OUTBOUND_BYTES};

/// Number of elements in a counted run.
const ELEMENTS: usize = 500;
/// The variables that name the way of a counted run, and whether it sends elements.
const WAY: &str = "DELAYBRIDGE_GUARD_WAY";
const BUSY: &str = "DELAYBRIDGE_GUARD_BUSY";

/// A queue and its payload.
pub struct Way {
    spec: std::sync::Arc<QueueSpec>,
    payload: String,
}

impl Way {
    fn of(name: &str) -> Way {
        let (codec, to) = match name {
            // Nothing is decoded and nothing is copied.
            "raw" => ("raw", "topic: orders"),
            // A key from the payload, a header, an envelope.
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
        let loaded =
            delaybridge_config::load_str(&yaml, "guard.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
        let payload = format!("{{\"order\":{{\"id\":4711,\"note\":\"{:>180}\"}},\"tenant\":\"acme\"}}", "x");
        Way { spec: loaded.config.queues[0].clone(), payload }
    }

    /// An element as the claim script returns it.
    fn element(&self, n: usize) -> Element {
        let id = MessageId((n as u64).to_le_bytes());
        Element::bare(Bytes::from(pack(Layout::New, id, self.payload.as_bytes())), 1_700_000_000_000)
    }

    /// Processes the elements as the daemon does, except for reading the clock: valgrind has no vDSO page for it.
    fn relay(&self, elements: &[Element]) -> Vec<Routed> {
        let mut all = Vec::with_capacity(elements.len());
        for element in elements {
            let (id, payload) = open_entry(element);
            let payload = self.spec.decode(&payload.expect("an element")).expect("a payload");
            let due_ms = element.due_ms();
            let attempt = element.attempts() + 1;
            let id = id.into();
            let element = ElementInfo { id: &id, queue: &self.spec.id, due_ms, attempt, topic: None, carried: None };
            let routed = self.spec.to[0].fill(&element, &payload).expect("a destination");
            all.push(routed);
        }
        all
    }
}

#[test]
fn an_element_costs_no_more_instructions_and_allocations_than_its_limit() {
    let mut over = Vec::new();
    for limit in &HOT_PATH {
        // Subtract a run of the same process without elements.
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
fn the_values_of_an_element_take_no_more_bytes_than_their_limits() {
    let sizes = [("Element", size_of::<Element>(), ELEMENT_BYTES), ("Outbound", size_of::<Outbound>(), OUTBOUND_BYTES)];
    for (what, bytes, most) in sizes {
        println!("{what}: {bytes} bytes");
        assert!(bytes <= most, "{what} takes {bytes} bytes; the limit is {most}, see tests/guard/limits.rs");
    }
}

#[test]
#[ignore = "the test above runs it, under callgrind"]
fn runs_under_callgrind() {
    let way = Way::of(&std::env::var(WAY).expect("the way"));
    let elements: Vec<_> = (0..ELEMENTS).map(|n| way.element(n)).collect();
    if std::env::var(BUSY).as_deref() == Ok("1") {
        black_box(way.relay(&elements));
    } else {
        black_box(elements);
    }
}
