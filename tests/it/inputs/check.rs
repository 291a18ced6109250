//! What `check --live` says about inputs, against real brokers: what is there, what is missing, and what to do.

#[cfg(feature = "kafka")]
use brokers::kafka::{KafkaOptions, Operation, Resource};
use lapin::BasicProperties;
use lapin::types::AMQPValue;

use crate::amqp::{Broker, blocking, start, url};
use harness::RedisServer;
use harness::amqp::Rabbits;
use harness::daemon::{ConfigFile, cli};
use harness::publisher::{Publisher, table, text};

/// The exit code of `check --live`, and the findings about inputs and sinks.
fn check(yaml: &str) -> (Option<i32>, String) {
    let output = blocking(|| cli(&ConfigFile::new(yaml), &["check", "--live"]));
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!text.contains("secret-1"), "{text}");
    (output.status.code(), text)
}

#[track_caller]
fn assert_says((code, text): (Option<i32>, String), expected: i32, words: &[&str]) {
    assert_eq!(code, Some(expected), "{text}");
    for words in words {
        assert!(text.contains(words), "`{words}` in\n{text}");
    }
}

/// An input from this queue, as this user.
fn yaml(server: &RedisServer, rabbit: &Broker, (user, queue): (&str, &str), to: &str) -> String {
    format!(
        "redis: {{ url: '{}' }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{}' }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: 'amqp://{user}@127.0.0.1:{}', queue: {queue} }}, topic: late, \
         to: {{ sink: shop{to} }} }} }}\n",
        server.url(),
        url(rabbit),
        rabbit.port()
    )
}

const GUEST: &str = "guest:guest";

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_the_rights_and_the_way_of_refused_messages_are_checked_and_no_message_is_touched() {
    let server = RedisServer::start().await;
    let rabbit = start();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &[]).await;
    for body in ["first", "second"] {
        publisher.publish(("", "delay-in"), BasicProperties::default(), &[], body).await.expect("publish");
    }
    let of = |queue: &str| yaml(&server, &rabbit, (GUEST, queue), "");
    let found = "found queue delay-in with 2 messages, the right to consume it, queue refused for rejected messages";
    assert_says(check(&of("delay-in")), 0, &["input late", found]);
    assert_eq!(publisher.take_all("delay-in").await, (2, 0), "a message was handed out");

    // What is missing, and what to do.
    let rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    rabbits.declare_queue("dropping", Default::default()).await;
    rabbits.declare_queue("lost", table(&[("x-dead-letter-exchange", text("nowhere"))])).await;
    rabbits.declare_queue("short", table(&[("x-message-ttl", AMQPValue::LongInt(60_000))])).await;
    let missing = ["consume queue missing", "404 NOT_FOUND", "declare the queue, with its dead-letter exchange"];
    assert_says(check(&of("missing")), 1, &missing);
    let dropping = ["the right to consume it", "rejected messages of queue dropping", "declare the queue with `x-dead"];
    assert_says(check(&of("dropping")), 0, &dropping);
    assert_says(check(&of("short")), 0, &["rejected messages of queue short", "it has no such argument"]);
    assert_says(check(&of("lost")), 0, &["no exchange 'nowhere' in vhost"]);
    let nowhere = yaml(&server, &rabbit, (GUEST, "delay-in"), ", exchange: orders.due");
    // What a broker does with messages that come back.
    let number = AMQPValue::LongInt;
    let refused = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("refused"))];
    let quorum = ("x-queue-type", text("quorum"));
    let further = [quorum.clone(), ("x-delivery-limit", number(3)), ("x-message-ttl", number(60_000))];
    rabbits.declare_queue("limited", table(&[&refused[..], &further].concat())).await;
    let words = ["queue refused for rejected messages", "a delivery limit of 3: the broker dead-letters a message"];
    assert_says(check(&of("limited")), 0, &words);
    rabbits.declare_queue("unset", table(&[quorum])).await;
    let words = ["it has no such argument", "20 from RabbitMQ 4.0 on, or by a policy): the broker drops a message"];
    assert_says(check(&of("unset")), 0, &words);
    rabbits.declare_queue("round", table(&[("x-dead-letter-exchange", text(""))])).await;
    let words = ["rejected messages that were published with its name as the routing key come back to queue round"];
    assert_says(check(&of("round")), 0, &words);
    rabbits.declare_queue("stream", table(&[("x-queue-type", text("stream"))])).await;
    let words = ["consume queue stream: it is a stream", "Bind a classic or quorum queue"];
    assert_says(check(&of("stream")), 1, &words);
    assert_says(check(&nowhere), 1, &["sink shop", "orders.due", "found queue delay-in with 0 messages"]);

    // A user without one of the rights.
    blocking(|| {
        rabbit.add_user("poor", "secret-1")?;
        rabbit.set_permissions("/", "poor", [".*", ".*", "^other$"])
    })
    .expect("a user");
    let poor = yaml(&server, &rabbit, ("poor:secret-1", "delay-in"), "");
    let words =
        ["access to queue 'delay-in' in vhost '/' refused", "user 'poor'", "give the user the right to read it"];
    assert_says(check(&poor), 1, &words);
    blocking(|| rabbit.set_permissions("/", "poor", ["^$", "^$", ".*"])).expect("other rights");
    let words = ["the right to consume it", "access to queue 'delay-in'", "the right to configure it, or"];
    assert_says(check(&poor), 0, &words);
    let stream = yaml(&server, &rabbit, ("poor:secret-1", "stream"), "");
    assert_says(check(&stream), 1, &["it is a stream"]);
    let wrong = yaml(&server, &rabbit, ("poor:wrong", "delay-in"), "");
    assert_says(check(&wrong), 1, &["input late", "ACCESS_REFUSED"]);
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn topics_the_rights_of_the_group_and_the_topic_for_refused_records_are_checked() {
    let server = RedisServer::start().await;
    let kafka = crate::kafka::start(KafkaOptions { sasl: true, acl: true, ..KafkaOptions::default() });
    for (topic, partitions) in [("delay-in", 4), ("events", 1), ("refused", 1)] {
        blocking(|| kafka.create_topic(topic, partitions, &[])).expect("create a topic");
    }
    let yaml = |brokers: &str, login: &str, keys: &str| {
        format!(
            "redis: {{ url: '{}' }}\n\
             sinks: {{ events: {{ kafka: {{ brokers: ['{}'] }} }} }}\n\
             inputs: {{ logs: {{ kafka: {{ brokers: ['{brokers}'], {login} {keys} }}, topic: logs, \
             to: {{ sink: events, topic: events }} }} }}\n",
            server.url(),
            kafka.bootstrap()
        )
    };
    let plain = kafka.bootstrap();
    let sasl = kafka.bootstrap_sasl();
    // The address of messages without one is looked for too.
    let missing = yaml(&plain, "", "topics: [delay-in]").replace("topic: events", "topic: absent");
    assert_says(check(&missing), 1, &["sink events", "look up topic absent", "create the topic"]);
    let found = "found topic delay-in with 4 partitions, the rights to consume as group delaybridge, topic refused for refused records, and the right to write to it";
    assert_says(check(&yaml(&plain, "", "topics: [delay-in], dead_letter_topic: refused")), 0, &["input logs", found]);
    let keys = "topics: [delay-in]";
    assert_says(check(&yaml(&plain, "", keys)), 0, &["hold their partition: write `dead_letter_topic: NAME`"]);
    // Everything that is missing is said at once.
    let both = check(&yaml(&plain, "", "topics: [delay-in, nothing], dead_letter_topic: nowhere"));
    assert_says(both, 1, &["consume topic nothing as group", "look up topic nowhere", "create the topic"]);
    assert_says(
        check(&yaml("127.0.0.1:1", "", keys)),
        1,
        &["input logs", "consume topics delay-in as group", "Connection refused"],
    );

    let login =
        format!("sasl: {{ mechanism: PLAIN, username: alice, password: {} }},", brokers::Kafka::password("alice"));
    let alice = |group: &str| yaml(&sasl, &login, &format!("topics: [delay-in], group: {group}"));
    blocking(|| kafka.add_acl("alice", Resource::Topic("delay-in"), &[Operation::Read])).expect("a right");
    assert_says(check(&alice("strangers")), 1, &["as group strangers", "allow the user to READ the group"]);
    // To ask for a group is not to be in it.
    blocking(|| kafka.add_acl("alice", Resource::Group("half"), &[Operation::Describe])).expect("a right");
    assert_says(check(&alice("half")), 1, &["as group half", "allow the user to READ the group"]);
    blocking(|| kafka.add_acl("alice", Resource::Group("ours"), &[Operation::Read])).expect("a right");
    assert_says(check(&alice("ours")), 0, &["the rights to consume as group ours"]);
    blocking(|| {
        kafka.remove_acl("alice", Resource::Topic("delay-in"), &[Operation::Read])?;
        kafka.add_acl("alice", Resource::Topic("delay-in"), &[Operation::Describe])
    })
    .expect("other rights");
    assert_says(check(&alice("ours")), 1, &["consume topic delay-in", "allow the user to READ the topic"]);
    // The right to look at the topic for refused records is not the one to write to it, and to ask for that writes nothing.
    blocking(|| {
        kafka.add_acl("alice", Resource::Topic("delay-in"), &[Operation::Read])?;
        kafka.add_acl("alice", Resource::Topic("refused"), &[Operation::Describe])
    })
    .expect("other rights");
    let letters = yaml(&sasl, &login, "topics: [delay-in], group: ours, dead_letter_topic: refused");
    let words = ["ask for the right to write to topic refused", "allow the user to WRITE and DESCRIBE the topic"];
    assert_says(check(&letters), 1, &words);
    blocking(|| kafka.add_acl("alice", Resource::Topic("refused"), &[Operation::Write])).expect("a right");
    assert_says(check(&letters), 0, &["topic refused for refused records, and the right to write to it"]);
    assert_eq!(blocking(|| kafka.end_offsets("refused")).expect("offsets"), [0], "a question was written");
    let wrong = login.replace(brokers::Kafka::password("alice"), "wrong");
    assert_says(check(&yaml(&sasl, &wrong, keys)), 1, &["input logs", "correct `username`, `password`"]);
}
