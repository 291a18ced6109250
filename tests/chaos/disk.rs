//! A file system of its own for a server, which can be full.
//!
//! It is in memory, and visible only to the server and a process that holds it. Filling it changes its size, so free
//! space takes no memory.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use harness::process::{Process, command};
use harness::redis_server::{RedisServer, ServerOptions, program};

/// The size with enough space: the append-only file is rewritten when it has doubled.
const ROOM: &str = "2g";
/// Time-out for the server to notice that there is space again.
const PATIENCE: Duration = Duration::from_secs(30);
/// The poll interval.
const LOOK: Duration = Duration::from_millis(20);

/// The file system, until it is dropped.
pub struct Disk {
    dir: TempDir,
    /// The process that keeps the mount alive; it ends on drop.
    _holder: Process,
    /// The command prefix that enters the mount namespace.
    enter: Vec<String>,
}

impl Disk {
    /// Mounts a file system with enough space.
    pub fn start() -> Disk {
        let dir = TempDir::with_prefix("delaybridge-disk-").expect("make a directory for a file system");
        let path = dir.path().display().to_string();
        // Root may mount. Others may mount as root of a user namespace, where that is allowed.
        let (holder, user) = hold(&path, &["--mount"]).map(|holder| (holder, false)).unwrap_or_else(|first| {
            let second = hold(&path, &["--user", "--map-root-user", "--mount"]);
            let holder = second.unwrap_or_else(|second| {
                panic!(
                    "mount a file system for the faults redis-disk and broker-disk: {first}; {second}. It takes root, or name \
                     spaces for other users (sysctl kernel.unprivileged_userns_clone=1 and \
                     kernel.apparmor_restrict_unprivileged_userns=0); FAULTS= names the faults of a run without these"
                )
            });
            (holder, true)
        });
        let mut enter = ["nsenter", "--mount", "--target"].map(str::to_owned).to_vec();
        enter.push(holder.pid().to_string());
        if user {
            enter.extend(["--user", "--preserve-credentials"].map(str::to_owned));
        }
        let disk = Disk { dir, _holder: holder, enter };
        let script = disk.script();
        // The users stay in the directory of the server, which is never full. When this process ends, the server ends.
        let text = format!(
            "#!/bin/sh\nexec {} -- setpriv --pdeathsig KILL -- '{}' \"$@\" --dir '{path}' --aclfile \"$PWD/users.acl\"\n",
            disk.enter.join(" "),
            program()
        );
        std::fs::write(&script, text).expect("write how the server is started");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("make it a program");
        disk
    }

    /// The path of the server's start script, in the directory below the mount point, which is empty for other
    /// processes.
    fn script(&self) -> PathBuf {
        self.dir.path().join("redis-server")
    }

    /// The volume for a node of Kafka.
    pub fn volume(&self, node: usize) -> brokers::kafka::Volume {
        brokers::kafka::Volume { node, path: self.dir.path().to_owned(), enter: self.enter.clone() }
    }

    /// The options of a server with its data on this file system.
    pub fn options(&self, options: ServerOptions) -> ServerOptions {
        options.program(&self.script().display().to_string())
    }

    /// Shrinks the file system to the size of its content.
    pub fn fill(&self) {
        let path = self.dir.path().display();
        // Fails if something was written between the look and the change; hence the loop.
        self.run(&format!(
            "for i in 1 2 3 4 5 6 7 8 9; do \
               mount -o remount,size=$(($(stat -f -c '(%b-%f)*%S' '{path}'))) chaos '{path}' && exit 0; \
             done; exit 1"
        ));
    }

    /// Restores the free space.
    pub fn clear(&self) {
        self.run(&format!("mount -o remount,size={ROOM} chaos '{}'", self.dir.path().display()));
    }

    fn run(&self, script: &str) {
        let mut enter = Command::new(&self.enter[0]);
        let output = enter.args(&self.enter[1..]).args(["--", "sh", "-c", script]).output();
        let output = output.unwrap_or_else(|e| panic!("run nsenter: {e}"));
        assert!(output.status.success(), "change a file system: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Fills the file system for `lasts`; returns the number of times that the server noticed. A server that must write
    /// before each answer (`ends`) exits, and is started again. Another refuses all writes until it has written its
    /// previous answers.
    pub async fn full(&self, server: &mut RedisServer, ends: bool, lasts: Duration) -> u64 {
        if ends { self.ends(server, lasts).await } else { self.refuses(server, lasts).await }
    }

    async fn ends(&self, server: &mut RedisServer, lasts: Duration) -> u64 {
        let until = Instant::now() + lasts;
        self.fill();
        let mut ended = false;
        while Instant::now() < until {
            ended = ended || server.running().exit_status().is_some();
            sleep(LOOK).await;
        }
        self.clear();
        // It may have met the error and not have exited yet: an answer to a write shows that it goes on.
        ended = ended || !takes_a_write(server).await;
        if ended {
            server.kill();
            server.boot().await.unwrap_or_else(|log| panic!("start a Redis again that ended on a full disk: {log}"));
        }
        u64::from(ended)
    }

    async fn refuses(&self, server: &mut RedisServer, lasts: Duration) -> u64 {
        let mut redis = server.client().await;
        sync(&mut redis, "everysec").await;
        let until = Instant::now() + lasts;
        self.fill();
        let mut refused = false;
        while Instant::now() < until {
            refused = refused || !is_written(&mut redis).await;
            sleep(LOOK).await;
        }
        self.clear();
        let until = Instant::now() + PATIENCE;
        while !is_written(&mut redis).await {
            assert!(
                Instant::now() < until,
                "Redis does not write its append-only file {PATIENCE:?} after there is room"
            );
            sleep(LOOK).await;
        }
        rewrite(&mut redis).await;
        sync(&mut redis, "always").await;
        u64::from(refused)
    }
}

/// Whether a write on a new connection is answered.
async fn takes_a_write(server: &RedisServer) -> bool {
    let client = redis::Client::open(server.url()).expect("the address of a test server");
    let Ok(mut redis) = client.get_multiplexed_async_connection().await else { return false };
    redis::cmd("SET").arg("chaos:disk").arg(1).arg("PX").arg(1).exec_async(&mut redis).await.is_ok()
}

/// Starts a process that sees a new file system at this path; the error is the reason.
fn hold(path: &str, view: &[&str]) -> Result<Process, String> {
    let script = format!(
        "mount -t tmpfs -o size={ROOM} chaos '{path}' && echo mounted && exec setpriv --pdeathsig KILL -- sleep infinity"
    );
    let mut unshare = command("unshare");
    unshare.args(view).args(["sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut holder = Process::spawn("the holder of a file system", unshare).map_err(|e| e.to_string())?;
    let child = holder.child_mut();
    let stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(|e| e.to_string())?;
    if line.trim() == "mounted" {
        return Ok(holder);
    }
    let mut why = String::new();
    let _ = stderr.read_to_string(&mut why);
    Err(why.trim().to_owned())
}

/// Sets `appendfsync`.
async fn sync(redis: &mut MultiplexedConnection, when: &str) {
    let set = redis::cmd("CONFIG").arg("SET").arg("appendfsync").arg(when).exec_async(redis).await;
    set.unwrap_or_else(|e| panic!("set appendfsync: {e}"));
}

/// Rewrites the append-only file. Redis 7.0 truncates incomplete writes, but a file with one still failed to load: "Bad
/// file format".
async fn rewrite(redis: &mut MultiplexedConnection) {
    let until = Instant::now() + PATIENCE;
    // A running rewrite may have begun without space.
    loop {
        let begun: redis::RedisResult<String> = redis::cmd("BGREWRITEAOF").query_async(redis).await;
        if begun.is_ok_and(|answer| answer.contains("started")) {
            break;
        }
        assert!(Instant::now() < until, "Redis does not begin to write its append-only file once more");
        sleep(LOOK).await;
    }
    loop {
        let info: String =
            redis::cmd("INFO").arg("persistence").query_async(redis).await.expect("ask Redis what it wrote");
        if info.contains("aof_rewrite_in_progress:0") && info.contains("aof_last_bgrewrite_status:ok") {
            return;
        }
        assert!(Instant::now() < until, "Redis does not write its append-only file once more: {info}");
        sleep(LOOK).await;
    }
}

/// Whether the last write to the append-only file succeeded.
async fn is_written(redis: &mut MultiplexedConnection) -> bool {
    let info: String = redis::cmd("INFO").arg("persistence").query_async(redis).await.expect("ask Redis what it wrote");
    info.contains("aof_last_write_status:ok")
}
