//! Erlang's name service, through which `rabbitmqctl` finds the node. Each node has its own: that of the machine may be
//! absent, and one that a node starts would outlive it.

use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{During, Error, Result};
use crate::log::Log;
use crate::process::{LOOK, Process, command};

const PATIENCE: Duration = Duration::from_secs(60);

/// The running service, which ends on drop.
#[derive(Debug)]
pub(super) struct Epmd {
    _process: Process,
}

impl Epmd {
    pub(super) fn start(port: u16, folder: &Path) -> Result<Self> {
        let log = Log::new(folder.join("epmd.log"));
        let mut command = command("epmd");
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]).current_dir(folder);
        log.takes_output_of(&mut command)?;
        let mut process = Process::spawn("epmd", command).during("start epmd (scripts/setup.sh rabbitmq)")?;
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = process.exit_status() {
                return Err(Error::new(format!("start epmd: it ended with {status}: {}", log.tail(10))));
            }
            if Instant::now() >= until {
                return Err(Error::new(format!("start epmd: it does not listen after {PATIENCE:?}")));
            }
            thread::sleep(LOOK);
        }
        Ok(Epmd { _process: process })
    }
}
