//! A tokens file that hangs, grows or is wrong, as on a network mount whose server is away.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redis::AsyncCommands;

use harness::daemon::{ConfigFile, Daemon};
use harness::http::{Answer, send};
use harness::ports::free_port;
use harness::{RedisServer, eventually};

const PATIENCE: Duration = Duration::from_secs(30);
const TOKEN: &str = "0123456789abcdef";

struct World {
    redis: RedisServer,
    daemon: Daemon,
    port: u16,
    tokens: PathBuf,
    /// Keeps the folder of the file.
    _folder: ConfigFile,
}

/// A daemon with a queue `set`, and the token of `ann`.
async fn world(keys: &str) -> World {
    let redis = RedisServer::start().await;
    let folder = ConfigFile::new("");
    let port = free_port();
    let tokens = folder.write("tokens", &format!("ann {TOKEN} reader\n"));
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\n\
         queues: {{ set: {{ source: {{ zset: {{ key: set, score: ms }} }}, codec: raw, to: [{{ sink: out }}] }} }}\n",
        redis.url()
    );
    let keys = format!("listen: '127.0.0.1:{port}', tokens_file: '{}'{keys}", tokens.display());
    let daemon = Daemon::start_for_operators_with(&keys, &yaml).await;
    World { redis, daemon, port, tokens, _folder: folder }
}

impl World {
    async fn ask(&self, token: Option<&str>) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
        let answer = send(self.port, "GET", "/v1/queues/set/elements", &headers, b"", Duration::from_secs(10)).await;
        answer.expect("an answer at once")
    }

    /// Puts something else in the place of the file, at once.
    fn replace(&self, make: impl FnOnce(&Path)) {
        let other = self.tokens.with_extension("new");
        make(&other);
        std::fs::rename(&other, &self.tokens).expect("replace the file");
    }

    async fn delivers(&self, name: &str) {
        let mut client = self.redis.client().await;
        let before: u64 = client.llen("done").await.expect("a list");
        let _: () = client.zadd("set", name, 1).await.expect("an element");
        eventually("the element to be delivered", PATIENCE, async || {
            let now: u64 = client.llen("done").await.map_err(|error| error.to_string())?;
            if now > before { Ok(()) } else { Err(format!("{now} delivered")) }
        })
        .await;
    }

    async fn age(&self) -> f64 {
        self.daemon.metric("delaybridge_file_age_seconds{file=\"http.admin.tokens_file\"}").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tokens_file_that_becomes_a_pipe_stops_nothing_and_its_tokens_end() {
    let mut world = world(", tokens_max_age: 10s").await;
    assert_eq!(world.ask(Some(TOKEN)).await.status, 200);
    assert_eq!(world.ask(Some("fedcba9876543210")).await.status, 401);
    world.daemon.expect_log("the tokens file cannot be used").expect_log("refused a request to the admin API");
    world.replace(|path| {
        assert!(Command::new("mkfifo").arg(path).status().expect("run mkfifo").success());
    });
    // Whoever has no token, or a wrong one, is answered as before; nothing waits for the file.
    for _ in 0..8 {
        assert_eq!(world.ask(None).await.status, 401);
    }
    world.delivers("beside the pipe").await;
    eventually("one line about the file", PATIENCE, async || {
        let lines: Vec<_> = world.daemon.log().all();
        let lines: Vec<_> = lines.iter().filter(|line| line.contains("the tokens file cannot be used")).collect();
        match lines.as_slice() {
            [line] if line.contains("not a regular file") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // A token that was revoked meanwhile must end: nobody knows which one was.
    eventually("tokens to be refused after their age", PATIENCE, async || match world.ask(Some(TOKEN)).await {
        Answer { status: 503, body, .. } if body.contains("http.admin.tokens_file") => Ok(()),
        Answer { status, body, .. } => Err(format!("{status} {body}")),
    })
    .await;
    // It is noted at each look.
    assert!(world.age().await > 8.0);
    world.delivers("after the age").await;
    for probe in ["/livez", "/readyz"] {
        assert_eq!(world.daemon.get(probe).await.expect("an answer").status, 200, "{probe}");
    }
    // The file is there again, with another token.
    world.replace(|path| std::fs::write(path, "bob fedcba9876543210 reader\n").expect("write the file"));
    eventually("the new token to be valid", PATIENCE, async || {
        match world.ask(Some("fedcba9876543210")).await.status {
            200 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
    assert_eq!(world.ask(Some(TOKEN)).await.status, 401);
    assert!(world.age().await < 5.0);
    assert_eq!(world.daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tokens_file_without_an_end_is_refused_and_the_tokens_of_before_stay() {
    let mut world = world("").await;
    world.daemon.expect_log("the tokens file cannot be used");
    let before = world.daemon.usage().peak;
    world.replace(|path| std::os::unix::fs::symlink("/dev/zero", path).expect("a link"));
    eventually("a line about the file", PATIENCE, async || {
        if world.daemon.log().contain("not a regular file") { Ok(()) } else { Err("no line".to_owned()) }
    })
    .await;
    // A regular file grows as well.
    world.replace(|path| std::fs::write(path, vec![b'#'; 8 << 20]).expect("write the file"));
    eventually("a line about its size", PATIENCE, async || {
        if world.daemon.log().contain("larger than 1 MiB") { Ok(()) } else { Err("no line".to_owned()) }
    })
    .await;
    assert_eq!(world.ask(Some(TOKEN)).await.status, 200);
    let grown = world.daemon.usage().peak - before;
    assert!(grown < 64 << 20, "{grown} bytes");
    world.delivers("beside it").await;
    assert_eq!(world.daemon.stop().await, 0);
}
