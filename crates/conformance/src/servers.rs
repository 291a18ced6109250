//! A master, a replica and a Sentinel of the kit's own, on free ports: for the failover alone. They end with this.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::{FromRedisValue, cmd};
use serde_json::{Value, json};

/// The name of the master, for the Sentinel.
const NAME: &str = "conformance";

/// Waits of a twentieth of a second each.
const WAITS: u32 = 600;

/// Three processes in a directory of their own.
#[derive(Debug)]
pub struct Servers {
    master: u16,
    replica: u16,
    sentinel: u16,
    dir: PathBuf,
    running: Vec<Child>,
}

impl Servers {
    /// Starts them, and waits until a failover is possible.
    pub fn start() -> Result<Servers, String> {
        let dir = std::env::temp_dir().join(format!("delaybridge-conformance-{:016x}", fastrand::u64(..)));
        fs::create_dir(&dir).map_err(|error| format!("create {}: {error}", dir.display()))?;
        let [master, replica, sentinel] = free_ports()?;
        let mut servers = Servers { master, replica, sentinel, dir, running: Vec::new() };
        let common = |port: u16| format!("bind 127.0.0.1\nport {port}\nsave \"\"\ndaemonize no\n");
        servers.launch("master", &common(master), &[])?;
        servers.launch("replica", &format!("{}replicaof 127.0.0.1 {master}\n", common(replica)), &[])?;
        servers.wait_for("the replica to be in step", || {
            let info: String = ask(replica, cmd("INFO").arg("replication"))?;
            Some(info.contains("master_link_status:up"))
        })?;
        let watch = format!(
            "bind 127.0.0.1\nport {sentinel}\nsentinel monitor {NAME} 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds {NAME} 2000\nsentinel failover-timeout {NAME} 5000\n"
        );
        servers.launch("sentinel", &watch, &["--sentinel"])?;
        servers.wait_for("the Sentinel to know the replica", || {
            let master: Vec<String> = ask(sentinel, cmd("SENTINEL").arg("MASTER").arg(NAME))?;
            let of = |field: &str| master.iter().skip_while(|word| *word != field).nth(1).cloned();
            let replicas: Vec<Vec<String>> = ask(sentinel, cmd("SENTINEL").arg("REPLICAS").arg(NAME))?;
            let words = replicas.first()?;
            let seen = words.iter().skip_while(|word| *word != "master-link-status").nth(1)?;
            Some(of("num-slaves").as_deref() == Some("1") && seen == "ok")
        })?;
        Ok(servers)
    }

    /// Returns the address of the first master.
    pub fn master_url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.master)
    }

    /// Returns the address of the last master.
    pub fn replica_url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.replica)
    }

    /// Returns the field of `open`.
    pub fn sentinel(&self) -> Value {
        json!({"master": NAME, "nodes": [format!("127.0.0.1:{}", self.sentinel)]})
    }

    /// Promotes the replica, and waits until it says that it is the master.
    pub fn fail_over(&self) -> Result<(), String> {
        // What was confirmed is not to be lost here: what a failover loses is no matter of a producer. (WAIT would not do: it
        // waits for the writes of its own connection.)
        self.wait_for("the replica to have everything", || {
            let [master, replica] = [self.master, self.replica].map(|port| {
                let info: String = ask(port, cmd("INFO").arg("replication"))?;
                let offset = |field: &str| info.lines().find_map(|line| line.strip_prefix(field)).map(str::to_owned);
                offset("slave_repl_offset:").or_else(|| offset("master_repl_offset:"))
            });
            Some(master.is_some() && master == replica)
        })?;
        self.wait_for("the Sentinel to agree to a failover", || {
            Some(ask::<String>(self.sentinel, cmd("SENTINEL").arg("FAILOVER").arg(NAME)).is_some())
        })?;
        // The old master too: until then it confirms offers that it will forget.
        self.wait_for("the replica and the master to change places", || {
            let [new, old] =
                [self.replica, self.master].map(|port| ask::<String>(port, cmd("INFO").arg("replication")));
            let now: Vec<String> = ask(self.sentinel, cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(NAME))?;
            let changed = new?.contains("role:master") && old?.contains("role:slave");
            Some(changed && now.get(1) == Some(&self.replica.to_string()))
        })
    }

    fn launch(&mut self, name: &str, config: &str, more: &[&str]) -> Result<(), String> {
        let file = self.dir.join(format!("{name}.conf"));
        fs::write(&file, config).map_err(|error| format!("write {}: {error}", file.display()))?;
        let child = Command::new("redis-server")
            .arg(&file)
            .args(more)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("start redis-server: {error}; is it installed?"))?;
        self.running.push(child);
        Ok(())
    }

    fn wait_for(&self, what: &str, mut condition: impl FnMut() -> Option<bool>) -> Result<(), String> {
        for _ in 0..WAITS {
            if condition() == Some(true) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("waited {} s in vain for {what}", WAITS / 20))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn ask<T: FromRedisValue>(port: u16, cmd: &redis::Cmd) -> Option<T> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).ok()?;
    let mut conn = client.get_connection_with_timeout(Duration::from_secs(2)).ok()?;
    conn.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    conn.set_write_timeout(Some(Duration::from_secs(2))).ok()?;
    cmd.query(&mut conn).ok()
}

fn free_ports() -> Result<[u16; 3], String> {
    let failed = |error: std::io::Error| format!("find a free port: {error}");
    // All three at once, so that they differ.
    let [a, b, c] = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port()).map_err(failed);
    let a = a.map_err(failed)?;
    let b = b.map_err(failed)?;
    let c = c.map_err(failed)?;
    Ok([port(&a)?, port(&b)?, port(&c)?])
}
