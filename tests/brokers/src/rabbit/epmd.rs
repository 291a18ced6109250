//! Erlang's name service, through which nodes find each other. Each node has its own: that of the machine may be absent,
//! and one that a node starts would outlive it.

use std::path::Path;

use crate::error::Result;
use crate::log::Log;
use crate::process::command;
use crate::server::{Ready, Server};

/// Starts the service on a port of 127.0.0.1.
pub(super) fn start(port: u16, folder: &Path) -> Result<Server> {
    let own = folder.to_owned();
    let server = Server::new("epmd", Log::new(folder.join("epmd.log")), Ready::Listens(port), move || {
        let mut command = command("epmd");
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]).current_dir(&own);
        Ok(command)
    });
    server.start()?;
    Ok(server)
}
