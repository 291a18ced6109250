//! What the elements depend on while they wait: the memory and the disk of Redis. And whether our own port is free.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;

use super::finding::{Health, LiveFinding, finding};
use crate::descriptors::Descriptors;
use crate::error::explained;
use delaybridge_link::{Conn, Storage, storage};
use delaybridge_settings::Listen;

/// Looks at the server's memory and its disk.
pub(super) async fn look(conn: &Conn) -> Vec<LiveFinding> {
    match storage(conn).await {
        Ok(storage) => vec![memory(&storage), persistence(&storage)],
        Err(error) => vec![finding("redis memory", Health::Failed, explained(&error.into()))],
    }
}

fn memory(storage: &Storage) -> LiveFinding {
    let what = "redis memory";
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let Some(limit) = storage.memory.limit else {
        return finding(what, Health::Well, format!("{} MiB in use, no limit", mib(storage.memory.used)));
    };
    let used = format!("{} of {} MiB in use", mib(storage.memory.used), mib(limit));
    if storage.memory.left() == Some(0) {
        let text = format!("{used}: the limit is reached, and every offer is refused; raise maxmemory");
        return finding(what, Health::Failed, text);
    }
    if storage.memory.is_nearly_full() {
        finding(what, Health::Warning, format!("{used}: at the limit every offer is refused; raise maxmemory"))
    } else {
        finding(what, Health::Well, used)
    }
}

fn persistence(storage: &Storage) -> LiveFinding {
    let what = "redis persistence";
    let snapshots = storage.snapshots.as_deref();
    match (storage.append_only, snapshots) {
        (true, _) => finding(what, Health::Well, "append-only file"),
        (false, Some("")) => {
            finding(what, Health::Warning, "none: a restart of Redis loses every element; set appendonly yes")
        }
        (false, Some(save)) => finding(
            what,
            Health::Warning,
            format!(
                "snapshots only (save {save}): a crash of Redis loses what came since the last; set appendonly yes"
            ),
        ),
        (false, None) => finding(
            what,
            Health::Warning,
            "no append-only file; whether there are snapshots is unknown, that takes the right to CONFIG GET",
        ),
    }
}

/// Returns whether the limit of open files is enough for what the configuration may need.
pub(super) fn open_files(needed: &Descriptors, limit: Option<u64>) -> LiveFinding {
    let what = "open files";
    let sum = needed.sum();
    match limit {
        None => finding(what, Health::Well, format!("may need {sum}, no limit")),
        Some(limit) if limit >= sum => {
            finding(what, Health::Well, format!("may need {sum}; the hard limit of this process is {limit}"))
        }
        Some(limit) => {
            let text = format!(
                "may need {sum} ({needed}), and the hard limit of this process is {limit}: if the daemon has the same, raise it \
                 (LimitNOFILE= of systemd, ulimit -Hn), or lower `max_connections` and `max_concurrency`"
            );
            finding(what, Health::Warning, text)
        }
    }
}

/// Returns whether the daemon could listen there.
pub(super) fn listener(listen: &Listen) -> Option<LiveFinding> {
    match listen {
        Listen::Tcp(address) => port(*address, "http.admin.listen"),
        Listen::Unix(path) => Some(socket(path)),
    }
}

/// Returns whether a socket could be made at this path. A file that is there is looked at by the daemon, which knows
/// whether it is its own.
fn socket(path: &Path) -> LiveFinding {
    let what = format!("http unix:{}", path.display());
    let directory = path.parent().unwrap_or(Path::new("/"));
    match std::fs::metadata(directory) {
        Ok(found) if found.is_dir() => finding(what, Health::Well, "its directory is there"),
        Ok(_) => finding(what, Health::Failed, format!("{} is no directory", directory.display())),
        Err(error) => {
            let text = format!("{}: {error}; make the directory for the user of the daemon", directory.display());
            finding(what, Health::Failed, text)
        }
    }
}

/// Returns whether the daemon could listen here; nothing to say where any port will do.
pub(super) fn port(listen: SocketAddr, key: &str) -> Option<LiveFinding> {
    if listen.port() == 0 {
        return None;
    }
    let what = format!("http {listen}");
    // `[::]` takes the port of IPv4 too, and needs no more than that where the kernel has no IPv6.
    let tried =
        if listen.ip() == Ipv6Addr::UNSPECIFIED { (Ipv4Addr::UNSPECIFIED, listen.port()).into() } else { listen };
    Some(match TcpListener::bind(tried) {
        Ok(_listener) => finding(what, Health::Well, "free"),
        // The daemon that this configuration is for may be running.
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let text = format!(
                "taken: by a daemon with this configuration that runs already, or by another program; a second one needs another `{key}`"
            );
            finding(what, Health::Warning, text)
        }
        Err(error) => finding(what, Health::Failed, format!("{error}; choose another `{key}`")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_link::Memory;

    fn storage(used: u64, limit: Option<u64>, append_only: bool, snapshots: Option<&str>) -> Storage {
        Storage { memory: Memory { used, limit }, append_only, snapshots: snapshots.map(str::to_owned) }
    }

    #[test]
    fn a_full_server_fails_and_one_without_a_disk_is_doubtful() {
        const MIB: u64 = 1 << 20;
        let memory = |used, limit| {
            let found = memory(&storage(used, limit, true, None));
            (found.state, found.detail)
        };
        assert_eq!(memory(3 * MIB, None), (Health::Well, "3 MiB in use, no limit".to_owned()));
        assert_eq!(memory(3 * MIB, Some(100 * MIB)).0, Health::Well);
        assert_eq!(memory(95 * MIB, Some(100 * MIB)).0, Health::Warning);
        let (state, detail) = memory(101 * MIB, Some(100 * MIB));
        assert!(state == Health::Failed && detail.contains("every offer is refused"), "{detail}");
        let persistence = |append_only, snapshots| persistence(&storage(0, None, append_only, snapshots));
        assert_eq!(persistence(true, Some("")).state, Health::Well);
        for (snapshots, words) in
            [(Some(""), "a restart of Redis loses every element"), (Some("60 1"), "(save 60 1)"), (None, "unknown")]
        {
            let found = persistence(false, snapshots);
            assert!(found.state == Health::Warning && found.detail.contains(words), "{}", found.detail);
        }
    }

    #[test]
    fn too_few_open_files_are_said_with_what_needs_them() {
        let needed = Descriptors { redis: 8, sinks: 64, inputs: 0, clients: 1024, own: 416 };
        for limit in [None, Some(1512)] {
            assert_eq!(open_files(&needed, limit).state, Health::Well, "{limit:?}");
        }
        let found = open_files(&needed, Some(1511));
        assert_eq!(found.state, Health::Warning);
        for part in ["may need 1512 (Redis 8, sinks 64,", "job queue 1024", "is 1511", "LimitNOFILE="] {
            assert!(found.detail.contains(part), "{part}: {}", found.detail);
        }
    }

    #[test]
    fn a_socket_needs_its_directory() {
        let of = |path: &str| listener(&Listen::Unix(path.into())).unwrap();
        assert_eq!(of("/tmp/delaybridge.sock").state, Health::Well);
        let found = of("/gone/delaybridge.sock");
        assert!(found.state == Health::Failed && found.detail.starts_with("/gone: "), "{}", found.detail);
    }

    #[test]
    fn a_port_that_is_taken_is_seen() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let found = port(taken.local_addr().unwrap(), "http.listen").unwrap();
        assert!(found.state == Health::Warning && found.detail.starts_with("taken"), "{}", found.detail);
        let free = taken.local_addr().unwrap();
        let everywhere = (Ipv6Addr::UNSPECIFIED, free.port()).into();
        assert_eq!(port(everywhere, "http.listen").unwrap().state, Health::Warning);
        drop(taken);
        assert_eq!(port(free, "http.listen").unwrap().state, Health::Well);
        assert_eq!(port(([127, 0, 0, 1], 0).into(), "http.listen"), None);
    }
}
