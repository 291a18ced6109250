//! What a daemon of an earlier version has left in Redis, read by this one.

use std::time::Duration;

use super::{recordings, scenario};
use crate::faults::rig::pass;
use harness::daemon::cli;
use harness::ports::free_port;
use harness::{Daemon, RedisServer};

/// Elements in flight, returned ones, pauses, an order and jobs, with the bytes of that version.
#[tokio::test(flavor = "multi_thread")]
async fn what_every_earlier_version_has_left_is_delivered() {
    for (file, dump) in recordings() {
        let name = file.display();
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        dump.write(&mut redis).await;
        let port = free_port();
        let mut daemon = Daemon::start(&scenario::configuration(&server, &server.url(), port)).await;
        daemon.expect_log("lease");

        // Three in flight and two in order, whose leases have ended long ago.
        scenario::entries(&mut redis, "stuck", 5).await;
        // Two queues are paused.
        let page = daemon.get("/readyz").await.expect("an answer").body;
        assert!(page.contains("a reason") && page.contains("nothing moves"), "{name}: {page}");
        pass(Duration::from_millis(300)).await;
        scenario::entries(&mut redis, "stuck", 5).await;
        let resumed = daemon.beside(&["resume", "returned"]);
        assert!(resumed.status.success(), "{name}: {}", String::from_utf8_lossy(&resumed.stderr));
        // To the one sink that has not confirmed them.
        scenario::entries(&mut redis, "stuck", 8).await;
        scenario::entries(&mut redis, "good", 0).await;
        for queue in ["held", "returned", "ordered"] {
            scenario::in_flight(&redis, queue, 0).await;
        }
        let letters = cli(daemon.config(), &["dead", "ls", "bad"]);
        let letters = String::from_utf8_lossy(&[letters.stdout, letters.stderr].concat()).into_owned();
        assert_eq!(letters.matches("undecodable").count(), 2, "{name}: {letters}");

        // Its time to run is over.
        let taken = scenario::ask(port, "POST /v1/topics/mails/pop?count=10&wait=20s", "").await;
        let jobs = taken["jobs"].as_array().expect("jobs");
        assert_eq!((jobs.len(), &jobs[0]["id"]), (1, &"mails~reserved".into()), "{name}: {taken}");
        assert_eq!(jobs[0]["body"], "a body", "{name}");
        let dead = scenario::ask(port, "GET /v1/topics/mails/dead", "").await;
        assert!(dead.to_string().contains("mails~dead"), "{name}: {dead}");
        assert_eq!(daemon.stop().await, 0, "{name}");
    }
}
