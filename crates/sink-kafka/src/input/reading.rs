//! Whether the topics of an input can be read: they are there, have leaders, and the group may read them. The client tries for ever,
//! and says of most troubles only once that it has them.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::types::RDKafkaErrorCode as Code;

use super::check::may_consume;
use super::errors::{failure, of_code};
use delaybridge_core::message::{Class, Failure};

/// The time-out of a question. Nothing else is done meanwhile.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The part of the topics that is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    All,
    /// The others, for this reason.
    Part(String),
    Nothing(Failure),
}

/// Asks what can be read; `None` if nobody answers, which other questions tell. `in_doubt`: the rights are asked for as
/// well.
pub(super) fn look<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topics: &[&str],
    group: &str,
    in_doubt: bool,
) -> Option<Reading> {
    let own = consumer.assignment().ok()?;
    let mut problems = Vec::new();
    let mut without_leader = 0;
    let mut partitions = 0;
    for topic in topics {
        let what = format!("consume topic {topic} as group {group}");
        let found = consumer.fetch_metadata(Some(topic), TIMEOUT).ok()?;
        let found = found.topics().iter().find(|found| found.name() == *topic)?;
        if let Some(code) = found.error() {
            problems.push(of_code(&what, code.into()));
            continue;
        }
        let own = own.elements_for_topic(topic);
        let own = |partition: i32| own.iter().any(|of| of.partition() == partition);
        for partition in found.partitions().iter().filter(|partition| own(partition.id())) {
            partitions += 1;
            without_leader += usize::from(partition.leader() < 0);
        }
        if in_doubt && let Err(error) = may_consume(consumer, topic) {
            let code = error.rdkafka_error_code();
            // Anything else passes: the group may be on the way to other members.
            if matches!(code, Some(Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed)) {
                problems.push(failure(&what, &error));
            }
        }
    }
    Some(summed_up(problems, topics.len(), (without_leader, partitions)))
}

/// Returns the result for this many topics, with these problems of topics, and so many of the own partitions without a
/// leader. Pure.
fn summed_up(problems: Vec<Failure>, topics: usize, (without_leader, partitions): (usize, usize)) -> Reading {
    let leaders = (without_leader > 0).then(|| {
        let text =
            format!("consume: {without_leader} of {partitions} partitions have no leader: bring their brokers back");
        Failure::new(Class::Transient, "LEADER_NOT_AVAILABLE", text)
    });
    let is_nothing = problems.len() >= topics || (partitions > 0 && without_leader == partitions);
    match problems.into_iter().chain(leaders).next() {
        None => Reading::All,
        Some(first) if is_nothing => Reading::Nothing(first),
        Some(first) => Reading::Part(first.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_in_part_is_not_what_is_not_read() {
        let gone = || Failure::new(Class::TargetPermanent, "UNKNOWN_TOPIC_OR_PARTITION", "gone");
        let code = |reading: Reading| match reading {
            Reading::All => ("all", String::new()),
            Reading::Part(problem) => ("part", problem),
            Reading::Nothing(failure) => ("nothing", failure.to_string()),
        };
        let rows = [
            (vec![], 2, (0, 6), "all", ""),
            (vec![], 1, (0, 0), "all", ""),
            (vec![], 2, (1, 6), "part", "1 of 6 partitions have no leader"),
            (vec![], 2, (6, 6), "nothing", "6 of 6 partitions have no leader"),
            (vec![gone()], 2, (0, 3), "part", "gone"),
            (vec![gone()], 1, (0, 0), "nothing", "gone"),
            (vec![gone(), gone()], 2, (0, 0), "nothing", "gone"),
        ];
        for (problems, topics, leaders, part, words) in rows {
            let (found, text) = code(summed_up(problems, topics, leaders));
            assert!(found == part && text.contains(words), "{found} {text}, not {part} {words}");
        }
    }
}
