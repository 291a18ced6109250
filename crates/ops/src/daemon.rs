//! The daemon that runs on this machine with a configuration: found in the table of processes, asked over its read-only HTTP
//! server, and asked for a reload by SIGHUP.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Error;
use delaybridge_core::clock::Instant;
use delaybridge_dial::{Address, Attempt};

/// The time limit of an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Longest answer that is read.
const MOST: u64 = 4 << 20;
/// Time between two looks at a reload that is under way.
const LOOK: Duration = Duration::from_millis(100);
/// The variable with the path of the configuration.
const VARIABLE: &[u8] = b"DELAYBRIDGE_CONFIG=";

/// The outcome of a reload.
#[derive(Debug, Clone, Serialize)]
pub struct Reloaded {
    /// The process.
    pub pid: u32,
    /// Whether it was carried out; none where the daemon has no HTTP server that says so.
    pub successful: Option<bool>,
    /// Why it was refused: as `/readyz` has it.
    pub problems: Vec<Value>,
    /// Seconds that it took.
    pub seconds: f64,
}

/// Sends SIGHUP to the daemon that runs with this file, and waits for what comes of it, where `listen` is its HTTP server.
///
/// # Errors
///
/// When there is no such daemon, or several, or no right to signal it; when it does not answer within `patience`.
pub async fn reload(
    config: &Path,
    pid: Option<u32>,
    listen: Option<SocketAddr>,
    patience: Duration,
) -> Result<Reloaded, Error> {
    let pid = match pid {
        Some(pid) => pid,
        None => find(config)?,
    };
    let found = match listen {
        Some(listen) => Some(ask(Some(pid), listen).await?),
        None => None,
    };
    let began = Instant::now();
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let raw = raw.ok_or_else(|| Error::invalid(format!("signal process {pid}: there is no such number")))?;
    kill_process(raw, Signal::HUP).map_err(|error| {
        Error::failed(format!("signal process {pid}: {error}; run this as the daemon's user, or as root"))
    })?;
    let done = |successful, problems| Reloaded { pid, successful, problems, seconds: began.elapsed().as_secs_f64() };
    let Some((listen, before)) = found else { return Ok(done(None, Vec::new())) };
    let count = |value: &Value| value["reloads"].as_u64().unwrap_or(0);
    // One that was under way may have read the file before it was changed.
    let enough = count(&before) + 1 + u64::from(before["reloading"].as_bool() == Some(true));
    loop {
        let now = configuration(listen).await?;
        if count(&now) >= enough {
            let last = &now["last_reload"];
            let problems = last["problems"].as_array().cloned().unwrap_or_default();
            return Ok(done(last["successful"].as_bool(), problems));
        }
        if began.elapsed() >= patience {
            let text = format!("reload: process {pid} is not done after {} s; its log says why", patience.as_secs());
            return Err(Error::failed(text));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns a hash of the settings that the daemon of this file runs with, or the one behind this HTTP server; none if
/// there is no daemon.
pub async fn running_hash(config: &Path, listen: SocketAddr) -> Option<String> {
    let (_, found) = ask(find(config).ok(), listen).await.ok()?;
    found["hash"].as_str().map(str::to_owned)
}

/// Finds the address at which the daemon answers, and its state of the configuration. The file may have another
/// `http.listen` than the one that runs: so the addresses of the process come first, as far as this user may see
/// them.
async fn ask(pid: Option<u32>, listen: SocketAddr) -> Result<(SocketAddr, Value), Error> {
    let mut places = pid.map(listening).unwrap_or_default();
    places.sort_by_key(|place| place.port() != listen.port());
    for place in places {
        if let Ok(found) = configuration(place).await {
            return Ok((place, found));
        }
    }
    Ok((listen, configuration(listen).await?))
}

/// Returns the addresses at which a process listens; none where this user may not see them.
fn listening(pid: u32) -> Vec<SocketAddr> {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let inode = |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
    let sockets = files.flatten().filter_map(|file| inode(std::fs::read_link(file.path()).ok()?)).collect();
    let table = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    ["tcp", "tcp6"].into_iter().flat_map(|name| listeners(&table(name), &sockets)).collect()
}

/// Returns the addresses of these sockets that listen, in a table of the kernel's.
fn listeners(table: &str, sockets: &HashSet<u64>) -> Vec<SocketAddr> {
    const LISTENS: &str = "0A";
    let line = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, local, _, LISTENS, .., inode] = fields.get(..10)? else { return None };
        if !sockets.contains(&inode.parse().ok()?) {
            return None;
        }
        let (address, port) = local.split_once(':')?;
        // Words of 32 bits, in the byte order of the machine.
        let word = |at: usize| u32::from_str_radix(address.get(8 * at..8 * at + 8)?, 16).ok().map(u32::to_ne_bytes);
        let ip: IpAddr = match address.len() {
            8 => IpAddr::from(word(0)?),
            _ => IpAddr::from(<[u8; 16]>::try_from([word(0)?, word(1)?, word(2)?, word(3)?].concat()).ok()?),
        };
        Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
    };
    table.lines().filter_map(line).collect()
}

/// Reads the state of the configuration from `/readyz`.
async fn configuration(listen: SocketAddr) -> Result<Value, Error> {
    let failed = |what: String| Error::failed(format!("ask the daemon at http://{listen}/readyz: {what}"));
    let answer = tokio::time::timeout(ANSWER, get(reachable(listen))).await;
    let answer = answer.map_err(|_| failed("no answer".to_owned()))?.map_err(|error| failed(error.to_string()))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let value: Value = serde_json::from_str(body).map_err(|_| failed("the answer is not its own".to_owned()))?;
    match value.get("configuration") {
        Some(configuration) => Ok(configuration.clone()),
        None => Err(failed("it is another version, without reload".to_owned())),
    }
}

/// Returns an address that is listened to everywhere is reached here.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    match listen {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ([127, 0, 0, 1], v4.port()).into(),
        // It answers on IPv4 too, which every machine has at this address.
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => ([127, 0, 0, 1], v6.port()).into(),
        address => address,
    }
}

async fn get(address: SocketAddr) -> std::io::Result<String> {
    let opened = Attempt::new(false, "").open(&Address::tcp(address.ip().to_string(), address.port()), None).await;
    let mut stream = opened.map_err(std::io::Error::other)?;
    stream
        .write_all(format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.take(MOST).read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Returns the one daemon that runs with this file.
fn find(config: &Path) -> Result<u32, Error> {
    let meant = std::fs::canonicalize(config).unwrap_or_else(|_| config.to_owned());
    let entries = std::fs::read_dir("/proc")
        .map_err(|error| Error::failed(format!("look for the daemon in /proc: {error}; name it with --pid")))?;
    let own = std::process::id();
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found: Vec<u32> = numbers.filter(|pid| *pid != own && runs_with(*pid, &meant)).collect();
    match found.as_slice() {
        [pid] => Ok(*pid),
        [] => Err(Error::not_found(format!(
            "reload: no delaybridge runs with {} on this machine, as far as this user can see; run this where it runs and as its \
             user, or name the process with --pid",
            config.display()
        ))),
        several => {
            let list: Vec<_> = several.iter().map(u32::to_string).collect();
            Err(Error::invalid(format!(
                "reload: several processes run with this file: name one with --pid: {}",
                list.join(", ")
            )))
        }
    }
}

/// Returns whether the process is a daemon with this configuration.
fn runs_with(pid: u32, meant: &Path) -> bool {
    let Ok(words) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let words: Vec<&[u8]> = words.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
    let Some((program, words)) = words.split_first() else { return false };
    let name = Path::new(std::ffi::OsStr::from_bytes(program)).file_name();
    if name.is_none_or(|name| name != "delaybridge") || !words.contains(&&b"run"[..]) {
        return false;
    }
    let written = config_of(words).or_else(|| of_environment(pid));
    let file = written.unwrap_or_else(|| "/etc/delaybridge/delaybridge.yaml".into());
    let file = match std::fs::read_link(format!("/proc/{pid}/cwd")) {
        Ok(folder) => folder.join(file),
        Err(_) => file,
    };
    std::fs::canonicalize(&file).unwrap_or(file) == *meant
}

/// Returns the file after `--config`.
fn config_of(words: &[&[u8]]) -> Option<PathBuf> {
    let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    let after = words.iter().position(|word| *word == b"--config").and_then(|at| words.get(at + 1).copied());
    let joined = words.iter().find_map(|word| word.strip_prefix(b"--config="));
    after.or(joined).map(path)
}

fn of_environment(pid: u32) -> Option<PathBuf> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let found = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(VARIABLE))?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_found_in_the_arguments() {
        let words = |line: &'static str| line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
        assert_eq!(config_of(&words("run --config a.yaml")), Some("a.yaml".into()));
        assert_eq!(config_of(&words("--config=/b.yaml run")), Some("/b.yaml".into()));
        assert_eq!(config_of(&words("run --log info")), None);
        assert_eq!(config_of(&words("run --config")), None);
    }

    #[test]
    fn a_process_is_found_where_it_listens() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
               0: 0100007F:24F8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0\n\
               1: 0100007F:24F9 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 78 1 0 100 0 0 10 0\n\
               2: 0100007F:24FA 0100007F:18EB 01 00000000:00000000 00:00000000 00000000     0        0 77 1 0 20 4 30 10 -1\n";
        if cfg!(target_endian = "little") {
            assert_eq!(listeners(table, &[77].into()), ["127.0.0.1:9464".parse().unwrap()]);
            let table = "0: 00000000000000000000000001000000:24F8 0:0 0A 0:0 0:0 0 0 0 77 1";
            assert_eq!(listeners(table, &[77].into()), ["[::1]:9464".parse().unwrap()]);
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listening(std::process::id()).contains(&listener.local_addr().unwrap()));
    }

    #[test]
    fn an_address_for_all_is_reached_here() {
        for (listen, reached) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:2", "127.0.0.1:2"), ("10.0.0.1:3", "10.0.0.1:3")]
        {
            assert_eq!(reachable(listen.parse().unwrap()), reached.parse().unwrap());
        }
    }
}
