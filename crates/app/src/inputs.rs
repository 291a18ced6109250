//! The inputs: a task for each, which ends with the daemon's tasks.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::group::options;
use super::tasks::named;
use delaybridge_core::message::{Identity, MessageId};
use delaybridge_core::template::ElementInfo;
use delaybridge_input::{Arrival, InputRefusal, IntakeRules, JobIntake, RedeliveryPlace};
use delaybridge_jobs::JobQueue;
use delaybridge_link::{Durability, DurableRedis, Redis};
use delaybridge_model::{Config, InputSpec, Payload, QueueSpec};
use delaybridge_pipeline::process::Process;

/// Starts all inputs, which add jobs to this queue.
pub(super) fn start(
    config: &Arc<Config>,
    (redis, jobs): (&Redis, &JobQueue),
    process: &Arc<Process>,
    tasks: &mut JoinSet<&'static str>,
) {
    for spec in &config.inputs {
        let jobs = match durability(config, spec) {
            // Connections of its own: no other call waits behind its `WAIT`.
            Some(need) => jobs.clone().durable(DurableRedis::beside(redis, options(config, redis.name()), need)),
            None => jobs.clone(),
        };
        let rules = IntakeRules {
            topic: spec.topic.clone(),
            max_delay: spec.rules.max_delay,
            on_bad_delay: spec.rules.on_bad_delay,
            queue: spec.name.clone(),
            address: {
                let config = config.clone();
                let spec = spec.clone();
                Box::new(move |arrival| address(&config, &spec, arrival))
            },
        };
        let intake = JobIntake::new(rules, jobs, process.events.input(&spec.name));
        #[cfg(debug_assertions)]
        let intake = intake.hasty(delaybridge_pipeline::fault_injection::acknowledges_before_redis());
        let input = spec.connector.input();
        let stop = process.stopping.clone();
        tasks.spawn(named("input", async move { input.run(&intake, stop).await }));
    }
}

/// Returns the durability of the jobs of an input, which is that of its queue.
fn durability(config: &Config, input: &InputSpec) -> Option<Durability> {
    config.queues.iter().find(|queue| queue.id == input.name)?.durability.as_deref().copied()
}

/// Checks that the queue of an input has a destination for a message, and one from which it does not come back.
/// Jobs of an input without a queue are for consumers.
fn address(config: &Config, input: &InputSpec, arrival: &Arrival) -> Result<(), InputRefusal> {
    let Some(queue) = config.queues.iter().find(|queue| queue.id == input.name) else { return Ok(()) };
    goes_on(config, input, queue, arrival)
}

fn goes_on(config: &Config, input: &InputSpec, queue: &QueueSpec, arrival: &Arrival) -> Result<(), InputRefusal> {
    let id = Identity::from(MessageId([0; 8]));
    let due_ms = Some(0);
    let topic = Some(input.topic.as_str());
    let carried = Some(&arrival.carried);
    let element = ElementInfo { id: &id, queue: &queue.id, due_ms, attempt: 1, topic, carried };
    // A payload that its codec refuses is handled by the rules of the queue.
    let payload = queue.decode(&arrival.body).unwrap_or_else(|_| Payload::opaque(arrival.body.clone()));
    for route in &queue.to {
        let destination = route.destination(&element, &payload).map_err(|_| InputRefusal::NoAddress)?;
        let Some(sink) = config.sinks.iter().find(|sink| sink.name == route.sink) else { continue };
        let kind = sink.kind();
        let address = sink.connector.address();
        let fields = destination.fields();
        if input.connector.takes_from(&RedeliveryPlace { kind, address: &address, fields: &fields }) {
            return Err(InputRefusal::Loop);
        }
    }
    Ok(())
}
