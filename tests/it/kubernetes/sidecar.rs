//! The example in operation: the producer's script and the sidecar's configuration, as rendered, with a real Redis.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use redis::AsyncCommands;
use rustix::process::Signal;

use super::rendered::{Overlay, containers, items};
use crate::delivery::PATIENCE;
use harness::ports::free_port;
use harness::process::{Process, command};
use harness::{Daemon, RedisServer, ServerOptions, eventually};

/// The password in the overlay's Secret.
const PASSWORD: &str = "example-password";

#[tokio::test]
async fn what_the_producer_offers_arrives_through_the_sidecar() {
    let overlay = Overlay::named("sidecar");
    let user = format!("user reminders on >{PASSWORD} ~* &* +@all");
    let server = RedisServer::start_with(ServerOptions::default().acl_user(&user)).await;

    let address = format!("redis://127.0.0.1:{}/0", server.port());
    let config = overlay.configuration();
    assert!(config.contains("redis://redis:6379/0") && config.contains("password_file: redis-password"));
    let mounted = tempfile::tempdir().expect("make a directory for what is mounted");
    let password = mounted.path().join("redis-password");
    harness::write_secret(&password, &format!("{PASSWORD}\n"));
    let config = config.replace("redis://redis:6379/0", &address);
    let mut daemon = Daemon::start(&config.replace("redis-password", password.to_str().unwrap())).await;

    for path in Overlay::all().iter().flat_map(paths).collect::<BTreeSet<_>>() {
        let answer = daemon.get(&path).await.expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }

    let mut producer = producer(overlay, mounted.path(), server.port());
    let mut redis = server.client().await;
    let (id, payload) = eventually("the first reminder", PATIENCE, async || {
        let entries: Vec<(String, Vec<(String, String)>)> =
            redis.xrange_all("reminders:due").await.map(stream_entries).map_err(|e| e.to_string())?;
        let (_, fields) = entries.into_iter().next().ok_or("nothing in the stream")?;
        let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        Ok((field("id").expect("an id"), field("payload").expect("a payload")))
    })
    .await;
    assert_eq!((id.len(), payload.as_str()), (16, "reminder 1"));

    producer.signal(Signal::TERM);
    let ended = producer.wait(PATIENCE).await.expect("the producer ends at SIGTERM");
    assert_eq!(ended.code(), Some(0));
    assert_eq!(daemon.stop().await, 0);
}

/// The kubelet kills a container whose start-up or liveness probe fails for too long.
#[tokio::test]
async fn an_outage_of_redis_at_the_start_kills_no_pod() {
    let yaml = format!(
        "redis: {{ url: \"redis://127.0.0.1:{}/0\" }}\nsinks: {{ due: {{ redis: {{ stream: due }} }} }}\n\
         queues: {{ reminders: {{ source: {{ redisson: {{ name: reminders }} }}, to: [{{ sink: due }}] }} }}\n",
        free_port()
    );
    let mut daemon = Daemon::spawn(&yaml);
    daemon.expect_log("cannot reach Redis").expect_log("sink down");
    for overlay in Overlay::all() {
        for probe in ["startupProbe", "livenessProbe"] {
            let path = overlay.daemon()[probe]["httpGet"]["path"].as_str().expect("a path");
            eventually(path, PATIENCE, async || match daemon.get(path).await? {
                answer if answer.status == 200 => Ok(()),
                answer => Err(format!("{} {}", answer.status, answer.body)),
            })
            .await;
        }
    }
    // A rollout waits all the same.
    let ready = daemon.get("/readyz").await.expect("an answer");
    assert_eq!(ready.status, 503, "{}", ready.body);
}

fn stream_entries(range: redis::streams::StreamRangeReply) -> Vec<(String, Vec<(String, String)>)> {
    let text = |value: redis::Value| redis::from_redis_value(value).expect("text");
    let entry = |entry: redis::streams::StreamId| {
        (entry.id, entry.map.into_iter().map(|(key, value)| (key, text(value))).collect())
    };
    range.ids.into_iter().map(entry).collect()
}

/// The paths that the kubelet and Prometheus request.
fn paths(overlay: &Overlay) -> Vec<String> {
    let probes = ["startupProbe", "livenessProbe", "readinessProbe"].map(|probe| &overlay.daemon()[probe]["httpGet"]);
    let scrapes = overlay.of_kind("PodMonitor").flat_map(|monitor| items(&monitor["spec"]["podMetricsEndpoints"]));
    let all = probes.into_iter().chain(scrapes);
    all.filter_map(|target| target["path"].as_str()).map(str::to_owned).collect()
}

/// The producer's command with its environment, and its script from the ConfigMap.
fn producer(overlay: &Overlay, mounted: &Path, port: u16) -> Process {
    let container = containers(&overlay.pod()["spec"]).find(|container| container["name"] == "producer").expect("it");
    assert_eq!(container["command"], serde_json::json!(["sh", "/opt/producer/offer.sh"]));
    let text = overlay.of_kind("ConfigMap").find_map(|map| map["data"]["offer.sh"].as_str()).expect("the script");
    let script = mounted.join("offer.sh");
    std::fs::write(&script, text).expect("write the script");
    let mut command = command("sh");
    command.arg(script).stdout(Stdio::null());
    for variable in items(&container["env"]) {
        command.env(variable["name"].as_str().expect("a name"), variable["value"].as_str().expect("a value"));
    }
    command.env("REDIS_HOST", "127.0.0.1").env("REDIS_PORT", port.to_string());
    Process::spawn("the producer", command).expect("start the producer")
}
