//! Inputs, each with the queue that delivers its jobs.

use std::sync::Arc;

use super::queue::QueueDraft;
use super::sink::SinkDraft;
use crate::input_kinds::KINDS;
use crate::tables::{InputKeys, QUEUE_OPTIONS, inputs, jobs, queue, source, top};
use delaybridge_input::{InputConnector, RedeliveryPlace};
use delaybridge_jobs::{JobSettings, MAX_DELAY, Topic, UnknownTopics};
use delaybridge_model::InputSpec;
use delaybridge_model::keys::input_rules;
use delaybridge_settings::Settings;
use delaybridge_settings::node::{Name, Node, Value};
use delaybridge_settings::reader::Section;

/// Reads all inputs, in the order of the file.
pub(super) fn inputs(top: &Section<'_>) -> Vec<InputSpec> {
    let sections = top.named(&top::INPUTS).into_iter();
    sections.filter_map(|(name, section)| one(&name, &section)).collect()
}

fn one(name: &str, section: &Section<'_>) -> Option<InputSpec> {
    let report = &section.cx.report;
    let kinds: Vec<_> = KINDS.iter().filter(|kind| section.has(&kind.key)).collect();
    if kinds.len() != 1 {
        let names: Vec<_> = KINDS.iter().map(|kind| format!("`{}:`", kind.key.name)).collect();
        let message = if kinds.is_empty() { "the input has no kind" } else { "an input has one kind" };
        report.problem(&section.spot, message, format!("write one of: {}", names.join(", ")));
    }
    let mut read: Vec<Arc<dyn InputConnector>> = Vec::new();
    for kind in kinds {
        match (kind.read, section.opt_section(&kind.key)) {
            (Some(of), Some(section)) => read.push(of(&section)),
            (Some(_), None) => {}
            (None, _) => {
                let message = format!("this binary was built without {}", kind.key.name);
                let help =
                    format!("use one that was built with the feature `{}`, which is on by default", kind.key.name);
                report.problem(&section.spot(&kind.key), message, help);
            }
        }
    }
    let InputKeys { topic, rules, .. } = InputKeys::of(section);
    if rules.max_delay > MAX_DELAY {
        let help = "write a shorter time";
        report.problem(&section.spot(&input_rules::MAX_DELAY), "the job queue keeps jobs for ten years at most", help);
    }
    // Those are read with the queue.
    let _written = [inputs::TO].iter().chain(QUEUE_OPTIONS).filter(|key| section.has(key)).count();
    if section.has(&queue::DURABILITY) && !section.has(&inputs::TO) {
        let message = "`durability` of an input takes `to`: it is also that of the queue that delivers its jobs";
        report.problem(&section.spot(&queue::DURABILITY), message, "write `to: { sink: NAME }`, or remove it");
    }
    let topic = topic?;
    let topic = match topic.value.parse::<Topic>() {
        Ok(topic) => topic,
        Err(error) => {
            report.problem(&topic.spot, format!("`{}` is no name of a topic", topic.written), error.rule);
            return None;
        }
    };
    Some(InputSpec { name: name.into(), connector: read.into_iter().next()?, topic, rules })
}

/// Returns the settings of the job queue of a file that has inputs and says nothing else about jobs.
pub(super) fn job_settings(inputs: &[InputSpec]) -> Option<JobSettings> {
    (!inputs.is_empty()).then(JobSettings::default)
}

/// Refuses inputs whose jobs the job queue would refuse.
pub(super) fn check_topics(top: &Section<'_>, inputs: &[InputSpec], jobs: Option<&JobSettings>) {
    let refuses = |jobs: &&JobSettings| jobs.unknown_topics == UnknownTopics::Refuse;
    let Some(jobs) = jobs.filter(refuses) else { return };
    for input in inputs.iter().filter(|input| !jobs.topics.contains_key(&input.topic)) {
        let name = &input.name;
        let topic = &input.topic;
        let message = format!("`jobs.unknown_topics` refuses the topic `{topic}` of input `{name}`");
        top.cx.report.problem(
            &top.spot(&top::INPUTS),
            message,
            format!("list it: `jobs: {{ topics: {{ {topic}: {{}} }} }}`"),
        );
    }
}

/// Refuses destinations from which every message without an address of its own comes back to the input that it came from.
pub(super) fn check_circles(inputs: &[InputSpec], queues: &[QueueDraft<'_>], sinks: &[SinkDraft<'_>]) {
    for input in inputs {
        let Some(queue) = queues.iter().find(|queue| queue.spec.id == input.name) else { continue };
        for (route, target) in queue.spec.to.iter().zip(&queue.targets) {
            let sink = sinks.iter().find(|sink| *sink.name == *route.sink).and_then(SinkDraft::spec);
            let (Some(sink), Some(fixed)) = (sink, route.target.fixed()) else { continue };
            let kind = sink.kind();
            let address = sink.connector.address();
            let fields = fixed.destination.fields();
            if input.connector.takes_from(&RedeliveryPlace { kind, address: &address, fields: &fields }) {
                let message = format!("input `{}` consumes {}: messages would come back", input.name, fixed.name);
                queue.report.problem(target, message, "name another place, or leave it to the header `x-delay-to`");
            }
        }
    }
}

/// Returns the queues of inputs that say where their messages go, as if they were written under `queues:`, with their
/// names.
pub(super) fn queues(tree: &Node) -> Vec<(Name, Node)> {
    let redis = child(tree, top::JOBS.name).and_then(|jobs| child(jobs, jobs::REDIS.name));
    let Some(Value::Map(inputs)) = child(tree, top::INPUTS.name).map(|node| &node.value) else { return Vec::new() };
    let of_input = |(name, input): &(Name, Node)| {
        let to = child(input, inputs::TO.name)?;
        let topic = child(input, inputs::TOPIC.name)?;
        let jobs = map(topic, vec![("topic", topic.clone())]);
        let mut from = vec![("jobs", jobs)];
        from.extend(redis.map(|redis| (source::REDIS.name, redis.clone())));
        let list = match &to.value {
            Value::List(_) => to.clone(),
            _ => Node { at: to.at, value: Value::List(vec![to.clone()]) },
        };
        let mut keys = vec![(queue::SOURCE.name, map(topic, from)), (queue::TO.name, list)];
        keys.extend(QUEUE_OPTIONS.iter().filter_map(|key| Some((key.name, child(input, key.name)?.clone()))));
        Some((name.clone(), map(input, keys)))
    };
    inputs.iter().filter_map(of_input).collect()
}

/// Refuses an input with the name of a queue that is not its own.
pub(super) fn check_names(queues: &[QueueDraft<'_>], of_inputs: &[QueueDraft<'_>]) {
    for input in of_inputs {
        if queues.iter().any(|queue| queue.spec.id == input.spec.id) {
            let message =
                format!("there is a queue `{}` already, and the queue of an input has its name", input.spec.id);
            input.report.problem(&input.name_spot, message, "choose another name for one of them");
        }
    }
}

fn map(at: &Node, keys: Vec<(&str, Node)>) -> Node {
    let keys = keys.into_iter().map(|(name, node)| (Name { at: node.at, text: name.to_owned() }, node));
    Node { at: at.at, value: Value::Map(keys.collect()) }
}

fn child<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    match &node.value {
        Value::Map(entries) => entries.iter().find(|(known, _)| known.text == name).map(|(_, node)| node),
        _ => None,
    }
}
