//! The servers of the job queues over a network, each started for one measurement.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use brokers::process::{Process, Usage, command};
use rustix::process::Signal;
use tempfile::TempDir;

use super::Kept;
use super::client::{Client, TTR_SECONDS};
use crate::daemon::Daemon;
use harness::ports::free_port;
use harness::redis_server::RedisServer;

/// Time-out of a start, which loads the log.
const START: Duration = Duration::from_secs(30);
/// The interval of looks at a start or an end.
const LOOK: Duration = Duration::from_millis(10);
/// The file that faktory leaves on every machine.
const FAKTORYS_FILE: &str = "/tmp/redis.conf";

/// A job queue that is asked over a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Ours,
    Faktory,
    Lmstfy,
    Beanstalkd,
}

impl Peer {
    /// All of them, in the order of the tables.
    pub(super) const ALL: [Peer; 4] = [Peer::Ours, Peer::Faktory, Peer::Lmstfy, Peer::Beanstalkd];

    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Ours => "delaybridge over HTTP",
            Peer::Faktory => "faktory 1.9.4",
            Peer::Lmstfy => "lmstfy 1.0.15",
            Peer::Beanstalkd => "beanstalkd",
        }
    }

    /// The server that stores the jobs.
    pub(super) fn stored_by(self) -> &'static str {
        if self == Peer::Beanstalkd { "beanstalkd" } else { "Redis" }
    }
}

/// A process that answers clients.
enum Program {
    Daemon(Daemon),
    Other(Process),
}

pub(super) struct Server {
    pub(super) peer: Peer,
    pub(super) port: u16,
    kept: Kept,
    program: Program,
    /// The Redis beside it, if it does not start its own.
    redis: Option<RedisServer>,
    /// faktory: its own Redis.
    own_redis: Option<u32>,
    folder: TempDir,
    /// The second port: probes, tokens, or the page.
    other_port: u16,
    leaves_a_file: bool,
}

impl Server {
    /// Starts it with an empty store; returns when it answers.
    pub(super) async fn start(peer: Peer, kept: Kept) -> Result<Server> {
        let folder = TempDir::with_prefix("delaybridge-jobs-").context("make a directory")?;
        let redis = match peer {
            Peer::Ours => Some(kept.redis().await),
            // It refuses to start with a Redis that has no log.
            Peer::Lmstfy => Some(Kept::Log.redis().await),
            Peer::Faktory | Peer::Beanstalkd => None,
        };
        let leaves_a_file = peer == Peer::Faktory && !Path::new(FAKTORYS_FILE).exists();
        let (port, other_port) = (free_port(), free_port());
        let program = launch(peer, kept, (port, other_port), redis.as_ref(), folder.path())?;
        let mut server =
            Server { peer, port, kept, program, redis, own_redis: None, folder, other_port, leaves_a_file };
        server.ready().await?;
        if let (Peer::Lmstfy, Kept::Memory, Some(redis)) = (peer, kept, &server.redis) {
            let mut redis = redis.client().await;
            let () = redis::cmd("CONFIG").arg("SET").arg("appendonly").arg("no").query_async(&mut redis).await?;
        }
        Ok(server)
    }

    /// Waits for the first answer.
    async fn ready(&mut self) -> Result<()> {
        if let Program::Daemon(daemon) = &mut self.program {
            daemon.ready().await?;
        }
        let until = Instant::now() + START;
        while Client::connect(self.peer, self.port).await.is_err() {
            ensure!(
                Instant::now() < until,
                "{} does not answer: `scripts/setup.sh bench` installs it",
                self.peer.name()
            );
            tokio::time::sleep(LOOK).await;
        }
        if self.peer == Peer::Faktory {
            self.own_redis = Some(child_of(self.pid()).context("find faktory's Redis")?);
        }
        Ok(())
    }

    fn pid(&self) -> u32 {
        match &self.program {
            Program::Daemon(daemon) => daemon.process.pid(),
            Program::Other(process) => process.pid(),
        }
    }

    /// The usage of the program that answers clients, and of its Redis.
    pub(super) fn usage(&mut self) -> (Usage, Option<Usage>) {
        let redis = self.redis.as_mut().map(|redis| redis.running().usage());
        (Usage::of(self.pid()), redis.or_else(|| self.own_redis.map(Usage::of)))
    }

    /// Kills the program that answers clients, not its Redis, and starts it again.
    pub(super) async fn kill_and_restart(&mut self) -> Result<()> {
        let process = match &mut self.program {
            Program::Daemon(daemon) => &mut daemon.process,
            Program::Other(process) => process,
        };
        process.signal(Signal::KILL);
        process.wait(START).await.context("wait for the end of a killed process")?;
        // faktory's Redis stops when faktory has died, and a new faktory does not start beside it.
        let until = Instant::now() + START;
        while self.own_redis.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            ensure!(Instant::now() < until, "faktory's Redis does not end");
            tokio::time::sleep(LOOK).await;
        }
        let ports = (self.port, self.other_port);
        self.program = launch(self.peer, self.kept, ports, self.redis.as_ref(), self.folder.path())?;
        self.ready().await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.leaves_a_file {
            // Another run may have removed it.
            let _ = std::fs::remove_file(FAKTORYS_FILE);
        }
    }
}

/// Starts the program that answers clients, on its port and on a second one.
fn launch(
    peer: Peer,
    kept: Kept,
    (port, other_port): (u16, u16),
    redis: Option<&RedisServer>,
    folder: &Path,
) -> Result<Program> {
    let other = |mut command: Command| -> Result<Program> {
        command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Program::Other(Process::spawn(peer.name(), command)?))
    };
    match peer {
        Peer::Ours => {
            let url = redis.context("find the Redis")?.url();
            let jobs = format!("jobs: {{ listen: \"127.0.0.1:{port}\", defaults: {{ ttr: {TTR_SECONDS}s }} }}\n");
            Ok(Program::Daemon(Daemon::spawn(&url, &jobs)?))
        }
        Peer::Lmstfy => {
            let address = format!("Addr = \"127.0.0.1:{}\"\n", redis.context("find the Redis")?.port());
            let toml = format!(
                "Host = \"127.0.0.1\"\nPort = {port}\nAdminHost = \"127.0.0.1\"\nAdminPort = {other_port}\n\
                 LogLevel = \"error\"\n[AdminRedis]\n{address}[Pool.default]\n{address}"
            );
            std::fs::write(folder.join("lmstfy.toml"), toml)?;
            let mut command = command(brokers::lmstfy()?);
            // `-sv`: without tokens, as the others.
            command.args(["-c", "lmstfy.toml", "-sv"]);
            other(command)
        }
        Peer::Faktory => {
            let mut command = command(brokers::faktory()?);
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", redis_of_faktory(kept, folder)?)).env("HOME", folder);
            command.args(["-b", &format!("127.0.0.1:{port}"), "-w", &format!("127.0.0.1:{other_port}"), "-l", "error"]);
            command.arg("-d").arg(folder.join("db")).arg("-c").arg(folder);
            other(command)
        }
        Peer::Beanstalkd => {
            let mut command = command("beanstalkd");
            command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
            if kept == Kept::Log {
                command.arg("-b").arg(folder).args(["-f", "1000"]);
            }
            other(command)
        }
    }
}

/// Makes a folder with the `redis-server` that faktory is to find: the same program with the durability of this measurement, where
/// faktory's own is a snapshot after 30 s. Returns the folder.
fn redis_of_faktory(kept: Kept, folder: &Path) -> Result<String> {
    let log = if kept == Kept::Log { "yes" } else { "no" };
    let script = format!(
        "#!/bin/sh\nshift\nexec {} --port 0 --maxmemory-policy noeviction --save '' \
         --appendonly {log} --appendfsync everysec \"$@\"\n",
        which(&harness::redis_server::program())?
    );
    let programs = folder.join("programs");
    std::fs::create_dir_all(&programs)?;
    let program = programs.join("redis-server");
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755))?;
    Ok(programs.display().to_string())
}

/// The path of a program.
fn which(program: &str) -> Result<String> {
    if program.contains('/') {
        return Ok(program.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists());
    Ok(found.with_context(|| format!("find {program}"))?.display().to_string())
}

/// The child of a process.
fn child_of(parent: u32) -> Option<u32> {
    let is_child = |pid: u32| {
        // The name is in parentheses and may contain anything; the state and the parent follow it.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        (rest.split(' ').nth(1)?.parse() == Ok(parent)).then_some(pid)
    };
    let entries = std::fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    entries.filter_map(is_child).next()
}
