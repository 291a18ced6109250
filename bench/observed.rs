//! Redis's own statistics: commands, scripts, memory, replication.

use std::collections::BTreeMap;

use anyhow::Result;
use delaybridge_source::redisson::SCRIPTS;
use redis::aio::MultiplexedConnection;

/// The name of scripts that are not the daemon's.
pub const REDISSON: &str = "Redisson's";

/// The counters of a server since its start.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Microseconds of each command. Those of a script include its commands.
    us: BTreeMap<String, u64>,
    /// Bytes written for replicas; counted only after [`RedisServer::keep_backlog`](harness::RedisServer::keep_backlog).
    pub replicated: u64,
    /// Used memory, in bytes.
    pub memory: u64,
    /// Microseconds of CPU of the main thread, including input and output.
    cpu_us: f64,
}

impl Counters {
    /// Reads the current counters.
    pub async fn read(redis: &mut MultiplexedConnection) -> Result<Self> {
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .arg("replication")
            .arg("memory")
            .arg("cpu")
            .query_async(redis)
            .await?;
        let seconds = |name: &str| -> f64 {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
        };
        let cpu_us = (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread")) * 1e6;
        let number = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        let commands = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        let us = commands.filter_map(|(name, fields)| {
            let us = fields.split(',').find_map(|field| field.strip_prefix("usec="))?;
            Some((name.to_owned(), us.parse().ok()?))
        });
        let us = us.collect();
        Ok(Counters { us, replicated: number("master_repl_offset"), memory: number("used_memory"), cpu_us })
    }

    /// Microseconds of these commands since `before`.
    pub fn us_since(&self, before: &Counters, commands: &[&str]) -> f64 {
        let us = |counters: &Counters| commands.iter().filter_map(|name| counters.us.get(*name)).sum::<u64>();
        us(self).saturating_sub(us(before)) as f64
    }

    /// Microseconds of CPU since `before`; on a busy machine less than the duration of the commands.
    pub fn cpu_us_since(&self, before: &Counters) -> f64 {
        self.cpu_us - before.cpu_us
    }

    /// Microseconds of the daemon's claims and settlings since `before`: its scripts, and the removal of whole claims.
    /// Its looks are plain reads, which are only in the CPU time. The bench's own tools send EVAL.
    pub fn daemon_us_since(&self, before: &Counters) -> f64 {
        self.us_since(before, &["evalsha", "unlink"])
    }

    /// Microseconds of the scripts of all clients since `before`.
    pub fn scripts_us_since(&self, before: &Counters) -> f64 {
        self.us_since(before, &["evalsha", "eval"])
    }
}

/// Makes Redis log each script that takes longer than 0.3 ms. With a lower limit, commands within scripts would be
/// logged too.
pub async fn log_scripts(redis: &mut MultiplexedConnection) -> Result<()> {
    for (name, value) in [("slowlog-log-slower-than", 300), ("slowlog-max-len", 100_000)] {
        let () = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query_async(redis).await?;
    }
    let () = redis::cmd("SLOWLOG").arg("RESET").query_async(redis).await?;
    Ok(())
}

/// The microseconds of every logged script, by its name.
pub async fn noted_scripts(redis: &mut MultiplexedConnection) -> Result<BTreeMap<&'static str, Vec<u64>>> {
    let log: Vec<Vec<redis::Value>> = redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(redis).await?;
    let mut noted: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for entry in &log {
        let [_, _, took, redis::Value::Array(words), ..] = &entry[..] else { continue };
        let word = |n: usize| words.get(n).and_then(|word| redis::from_redis_value::<String>(word.clone()).ok());
        if !word(0).is_some_and(|command| command.to_ascii_lowercase().starts_with("eval")) {
            continue;
        }
        let ours = SCRIPTS.all().into_iter().find(|script| Some(script.sha1()) == word(1).as_deref());
        let took = redis::from_redis_value(took.clone())?;
        noted.entry(ours.map_or(REDISSON, |script| script.name())).or_default().push(took);
    }
    Ok(noted)
}

/// The longest run of each script, the longest first.
pub async fn longest_scripts(redis: &mut MultiplexedConnection) -> Result<Vec<(&'static str, f64)>> {
    let noted = noted_scripts(redis).await?;
    let longest = noted.into_iter().map(|(name, us)| (name, us.into_iter().max().unwrap_or(0) as f64 / 1e3));
    let mut longest: Vec<_> = longest.collect();
    longest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    Ok(longest)
}

/// The two longest scripts of the daemon, and the longest of Redisson's, if any.
pub fn show_longest(longest: &[(&str, f64)]) -> String {
    let show = |(name, ms): &(&str, f64)| format!("{name} {ms:.1} ms");
    let ours = longest.iter().filter(|(name, _)| *name != REDISSON).take(2);
    let theirs = longest.iter().filter(|(name, _)| *name == REDISSON);
    let shown: Vec<String> = ours.chain(theirs).map(show).collect();
    if shown.is_empty() { "< 0.3 ms".to_owned() } else { shown.join(", ") }
}
