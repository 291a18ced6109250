//! A queue that keeps up beside one with a backlog: its elements do not wait for all that the other one could have in flight.

use parking_lot::Mutex;

use super::growth::second_queue;
use super::*;
use delaybridge_testing::memory::element;

/// The time that the sink takes for an element, one after the other.
const EACH: Duration = Duration::from_nanos(12_500);
/// The elements of the queue that keeps up: two each millisecond, from the first second on.
const CALM: u64 = 4_000;
const FLOOD: u64 = 100_000;

/// A sink with one line for all elements. Returns the lateness of those of the second queue in ms, as they come.
fn in_line(sink: &FakeSink, world: &World) -> Arc<Mutex<Vec<i64>>> {
    let late = Arc::new(Mutex::new(Vec::new()));
    let seen = late.clone();
    let server = world.server.clone();
    let mut free = Instant::now();
    sink.otherwise(move |message| {
        let now = Instant::now();
        free = free.max(now).after(EACH);
        let wait = free.since(now);
        if number(message) >= FLOOD {
            let at_ms = server.now_ms() + i64::try_from(wait.as_millis()).unwrap();
            seen.lock().push(at_ms - message.due_ms.expect("a due time"));
        }
        Step::ConfirmAfter(wait)
    });
    late
}

/// Delivers a backlog, with two elements of a second queue each millisecond if `beside`. Returns the time that the backlog took, the
/// most elements at the sink meanwhile, and how late the second queue was, in ms: of a hundred elements, one was later.
async fn drain(beside: bool) -> (Duration, usize, i64) {
    let mut world = World::new();
    world.in_flight = 20_000;
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let late = in_line(&sink, &world);
    let auto = || QueueSpec { max_in_flight: MaxInFlight::Auto, ..spec(&sinks) };
    let calm = world.server.store("q2", [0; 8]);
    for n in (0..CALM).filter(|_| beside) {
        calm.offer(element(id(FLOOD + n), b"payload"), Duration::from_millis(1_000 + n / 2));
    }
    let bridge = world.bridge_with(1, &sinks, auto());
    second_queue(&world, &bridge, auto());
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    sink.most_at_once();
    let began = Instant::now();
    bridge.offer(0..FLOOD);
    within(MINUTE, "the backlog to be delivered", || world.store.is_empty()).await;
    let took = began.elapsed();
    let most = sink.most_at_once();
    within(MINUTE, "both to be empty", || calm.is_empty()).await;
    let mut late = std::mem::take(&mut *late.lock());
    late.sort_unstable();
    (took, most, late.get(late.len() * 99 / 100).copied().unwrap_or(0))
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_keeps_up_is_not_late_beside_a_backlog_which_takes_hardly_longer() {
    let (alone, most, _) = drain(false).await;
    assert!(most > 5_000, "alone, all may be in flight: {most}");
    let (beside, _, late) = drain(true).await;
    assert!(late <= 20, "{late} ms late");
    assert!(beside < alone * 5 / 4, "{beside:?} beside the other queue, {alone:?} alone");
}
