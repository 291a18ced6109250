//! Free ports of 127.0.0.1 for servers of tests, which no other test gets: not one of this process, and not one of
//! another.
//!
//! A server binds its port a moment after it was chosen, and one that is restarted must find it free. So a port is
//! reserved before it is handed out, and as long as this process lives. Processes share the ports by blocks: a block
//! belongs to the process that has locked its file, and the kernel unlocks it when that process ends.
//!
//! The ports are below the range of source ports for outgoing connections: in a run with hundreds of connections, one of
//! that range would be taken between the check and the server's bind.
//!
//! `tests/brokers` has this file as a module as well, because it must not depend on the program, and this crate, which is
//! published, not on it.

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The first port of the first block.
const FIRST: u16 = 4_096;
/// The number of ports of a block: each block of a process costs it one open file.
const BLOCK: u16 = 128;
/// One port of so many is handed out: RocketMQ also binds the one after its port, and the second one before it.
const APART: u16 = 4;
/// The number of blocks: up to port 32,000.
const BLOCKS: u16 = (32_000 - FIRST) / BLOCK;

/// The ports that this process has reserved.
static RESERVED: Mutex<Reserved> = Mutex::new(Reserved { blocks: Vec::new(), left: Vec::new() });

struct Reserved {
    /// The locked files of the blocks.
    blocks: Vec<File>,
    /// The ports of these blocks that were not handed out.
    left: Vec<u16>,
}

/// Returns a port of 127.0.0.1 on which nothing listens, and which no test gets again before this process ends.
///
/// A program that is no test may still take it; then the server does not start.
pub fn free_port() -> u16 {
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        while let Some(port) = reserved.left.pop() {
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
        let (file, first) = lock_a_block();
        reserved.blocks.push(file);
        reserved.left.extend((first..first + BLOCK).step_by(APART.into()));
    }
}

/// Locks a block that no process has, and returns its first port.
fn lock_a_block() -> (File, u16) {
    let folder = lock_folder("ports");
    // Processes begin at different blocks, so that they do not try the same ones.
    let start = u16::try_from(std::process::id() % u32::from(BLOCKS)).expect("less than a u16");
    for number in (start..BLOCKS).chain(0..start) {
        let file = lock_file(&folder.join(number.to_string()));
        if file.try_lock().is_ok() {
            return (file, FIRST + number * BLOCK);
        }
    }
    panic!("reserve ports: other processes have locked all {BLOCKS} files in {}", folder.display());
}

/// Returns a folder for files that are locked, one for all checkouts of this user on the machine.
pub(crate) fn lock_folder(name: &str) -> PathBuf {
    let user = std::env::var("USER").unwrap_or_default();
    let folder = std::env::temp_dir().join(format!("delaybridge-{name}-{user}"));
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("make {}: {error}", folder.display()));
    folder
}

/// Returns the file for a lock, opened and not yet locked. The kernel ends the lock with the process that has it.
pub(crate) fn lock_file(path: &Path) -> File {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    file.unwrap_or_else(|error| panic!("open {} to lock it: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_port_is_handed_out_once_and_its_block_belongs_to_this_process() {
        let ports: HashSet<u16> = (0..200).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 200);
        for port in ports {
            assert_eq!((port - FIRST) % APART, 0, "the neighbours of a port are free");
            let block = (port - FIRST) / BLOCK;
            // Another opening of the file, as another process has it.
            let file = lock_file(&lock_folder("ports").join(block.to_string()));
            assert!(file.try_lock().is_err(), "the block of port {port} is free for others");
        }
    }
}
