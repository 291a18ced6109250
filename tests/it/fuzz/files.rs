//! The configuration: users' files, damaged.

use std::ffi::OsString;

use delaybridge_config::load_str;

use super::*;
use harness::Stopwatch;

/// Files with all keys of a configuration.
const FILES: [&str; 4] = [
    include_str!("../../../config.example.yaml"),
    "redis: { url: 'redis://u:p@[::1]:6379/3' }\nsinks: { a: { amqp: { urls: ['amqps://h/%2f'], exchange: '${payload.x:-e}' } }, n: { nats: { servers: ['[::1]:4222', h], subject: 'o.${payload.x:-e}' } }, b: { amqp1: { url: 'amqp://[::1]:5672', address: 'o.${payload.x:-e}' } } }\n\
     queues: { q: { source: { zset: { key: 'jobs:{a}', score: s } }, codec: json, to: [{ sink: a, routing_key: k }] } }\n",
    "redis: { url: '${URL}' }\nsinks: { h: { http: { url: 'https://h:1/p', timeout: 5s } }, s: { sqs: { queue_url: 'https://sqs.eu-west-1.amazonaws.com/1/q.fifo', group_id: '${id}' } }, t: { sns: { topic_arn: 'arn:aws:sns:eu-west-1:1:t' } }, m: { rocketmq: { name_servers: ['[::1]:9876', h], topic: 'o-${payload.x:-e}', tags: '${id}', slave_not_available: accept } } }\n\
     queues: { q: { source: { redisson: { name: n } }, codec: kryo5, max_in_flight_bytes: 4MiB, to: [{ sink: h, path: '/a/${id}' }] } }\n",
    "redis: { url: 'redis://h' }\nsinks: { k: { kafka: { brokers: ['h:1'], properties: { topic.acks: 0 } } } }\n\
     queues: { q: { source: { redisson: { name: n } }, lease: 90s, to: [{ sink: k, topic: t, key: '${payload}' }] } }\n",
];

fn env(name: &str) -> Option<OsString> {
    (name == "URL").then(|| "redis://127.0.0.1:6379".into())
}

/// A damaged file is either a configuration or a list of problems at the stated places.
#[test]
fn a_damaged_file_is_read_or_its_problems_are_named() {
    for file in FILES.iter().skip(1) {
        let loaded = load_str(file, "delaybridge.yaml", &env);
        let problems = loaded.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(loaded.is_ok() || problems.contains("topic.acks"), "a seed that is none: {problems}");
    }
    fuzz("files", |random| {
        let file = random.choice(FILES).unwrap();
        let bytes = damaged(random, file.as_bytes().to_vec());
        let Ok(text) = String::from_utf8(bytes) else { return };
        let watch = Stopwatch::start();
        if let Err(errors) = load_str(&text, "delaybridge.yaml", &env) {
            assert!(!errors.problems.is_empty(), "refused without a reason:\n{text}");
            let lines = text.lines().count() as u64 + 1;
            for problem in &errors.problems {
                assert!(!problem.message.is_empty());
                if let Some(at) = &problem.position {
                    assert!((1..=lines).contains(&at.line) && at.column > 0, "{problem} in {lines} lines:\n{text}");
                }
            }
            assert!(errors.problems.len() < 1_000 && errors.to_string().len() < 1 << 20, "too many words");
        }
        watch.assert_within(Duration::from_secs(10), &format!("this file:\n{text}\n"));
    });
}
