//! A killed owner leaves nothing of a server behind: no process, no port, no file.

use std::env;
use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use brokers::{Kafka, Rabbit};

/// The variable that marks the process to be killed.
const OWNER: &str = "BROKERS_TEST_OWNER";

#[test]
fn servers_end_and_their_files_go_when_their_owner_is_killed() {
    if env::var_os(OWNER).is_some() {
        own_until_killed();
    }
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--exact", "servers_end_and_their_files_go_when_their_owner_is_killed", "--nocapture"])
        .env(OWNER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let servers: Vec<String> =
        lines.filter_map(|line| Some(line.split_once("server ")?.1.to_owned())).take(2).collect();
    let servers: Vec<(&str, &Path)> = servers
        .iter()
        .map(|server| server.split_once(' ').map(|(address, folder)| (address, Path::new(folder))).unwrap())
        .collect();
    assert_eq!(servers.len(), 2, "the owner has started its servers");
    for (address, folder) in &servers {
        assert!(TcpStream::connect(address).is_ok() && folder.exists());
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    for (address, folder) in servers {
        while TcpStream::connect(address).is_ok() || folder.exists() {
            assert!(Instant::now() < until, "{address} still answers or {} is still there", folder.display());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn own_until_killed() -> ! {
    let kafka = Kafka::start().unwrap();
    let rabbit = Rabbit::start().unwrap();
    println!("server {} {}", kafka.bootstrap(), kafka.folder().display());
    println!("server 127.0.0.1:{} {}", rabbit.port(), rabbit.folder().display());
    // The process also ends if the test that should kill it fails.
    let _ = io::stdin().read(&mut [0]);
    process::exit(1)
}
