//! The job queue and the commands on a cluster: each topic is on one master.

use std::process::Output;

use super::World;
use harness::RedissonQueue;
use harness::daemon::{ConfigFile, cli};

fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn commands_find_every_queue_and_topic_on_its_master() {
    let mut world = World::start(4).await;
    for queue in 0..4 {
        world.offer(queue, 3 + queue as i64, 3_600_000, 1).await;
    }
    let queue = |queue: &RedissonQueue| {
        let name = &queue.name;
        format!("  {name}: {{ source: {{ redisson: {{ name: {name} }} }}, to: [{{ sink: out }}] }}\n")
    };
    let queues: String = world.queues.iter().map(queue).collect();
    let config = ConfigFile::new(&format!(
        "http: none\nredis: {}\nsinks: {{ out: {{ stdout: {{}} }} }}\njobs: {{}}\nqueues:\n{queues}",
        world.cluster.yaml()
    ));
    text(&cli(&config, &["check", "--live"]));
    let shown = text(&cli(&config, &["queues", "--output", "json"]));
    for (number, queue) in world.queues.iter().enumerate() {
        assert!(shown.contains(&queue.name), "{shown}");
        let peeked = text(&cli(&config, &["peek", &queue.name, "--output", "json"]));
        let payload = format!("{} {}", queue.name, 2 + number);
        assert!(peeked.contains(&payload), "{payload} is not in {peeked}");
    }
    let discovered = text(&cli(&config, &["discover"]));
    for queue in &world.queues {
        assert!(discovered.contains(&queue.name), "{discovered}");
    }
    let rights = text(&cli(&config, &["acl"]));
    assert!(rights.contains("cluster|slots"), "{rights}");
    for topic in ["one", "two", "three", "four"] {
        text(&cli(&config, &["jobs", "add", topic, "--body", topic]));
        let taken = text(&cli(&config, &["jobs", "pop", topic]));
        assert!(taken.contains(topic), "{taken}");
    }
}
