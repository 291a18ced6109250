//! The programs in `examples/delayed-messages`, as users run them.

use std::path::PathBuf;
use std::process::Command;

use brokers::KafkaOptions;

use crate::amqp::{shared, url};
use crate::kafka::{blocking, start as start_kafka};
use harness::{Daemon, RedisServer};

/// The variable with the folder of Kafka's Java libraries. The Python is that of the path.
const JARS: &str = "DELAYBRIDGE_KAFKA_JARS";
/// The delay that they ask for, in ms.
const DELAY: &str = "1500";

/// Runs a program of the folder; returns what it printed.
fn run(program: &str, arguments: &[&str]) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/delayed-messages");
    let mut command = match program.strip_suffix(".java") {
        Some(_) => {
            let jars = std::env::var(JARS).unwrap_or_else(|_| panic!("set {JARS}"));
            let mut command = Command::new("java");
            command.args(["-cp", &format!("{jars}/*")]);
            command
        }
        None => Command::new("python3"),
    };
    let output = command.current_dir(folder).arg(program).args(arguments).output().expect("run the program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks a line of a consumer: the id, the due time, when it was read, and the body with the time of publishing.
fn check(line: &str, id: &str) {
    let words: Vec<_> = line.split_whitespace().collect();
    let ms = |text: &str| text.parse::<i64>().unwrap_or_else(|_| panic!("{line}"));
    let published = line.rsplit_once(':').map(|(_, end)| ms(end.trim().trim_end_matches('}'))).expect("a body");
    let due = ms(words[1]);
    let read = ms(words[2]);
    println!("{id}: due {} ms after it was published, read {} ms after that", due - published, read - due);
    assert_eq!(words[0], id, "{line}");
    assert!(due >= published + 1_500 && read >= due, "{line}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs pika and confluent-kafka in Python, which `make setup` does not bring"]
async fn the_programs_of_the_page_publish_and_consume() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let kafka = start_kafka(KafkaOptions::default());
    let url = url(&rabbit);
    let bootstrap = kafka.bootstrap();
    for topic in ["delay-in", "events"] {
        blocking(|| kafka.create_topic(topic, 2, &[])).expect("create a topic");
    }
    blocking(|| run("rabbitmq.py", &[&url, "declare"]));
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{url}' }} }}, events: {{ kafka: {{ brokers: ['{bootstrap}'] }} }} }}\n\
         inputs:\n  late: {{ amqp: {{ url: '{url}', queue: delay-in }}, topic: late, to: {{ sink: shop }} }}\n  \
         logs: {{ kafka: {{ brokers: ['{bootstrap}'], topics: [delay-in], identity: header }}, topic: logs, \
         to: {{ sink: events, topic: events }} }}\n",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    blocking(|| run("kafka.py", &[&bootstrap, "publish", "order-1", DELAY]));
    check(&blocking(|| run("kafka.py", &[&bootstrap, "consume", "1"])), "order-1");
    blocking(|| run("rabbitmq.py", &[&url, "publish", "order-2", DELAY]));
    check(&blocking(|| run("rabbitmq.py", &[&url, "consume", "1"])), "order-2");
    blocking(|| run("Delayed.java", &[&bootstrap, "publish", "order-3", DELAY]));
    let lines = blocking(|| run("Delayed.java", &[&bootstrap, "consume", "2"]));
    check(lines.lines().find(|line| line.starts_with("order-3")).expect("its line"), "order-3");
    assert_eq!(daemon.stop().await, 0);
}
