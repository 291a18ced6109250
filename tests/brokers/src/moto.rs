//! moto: a server that behaves as SNS, STS and IAM, also as SQS. It checks signatures and rights, if it is told to.
//!
//! It is kinder than AWS in this: it takes empty bodies, control characters and any number of attributes, throttles nobody, and drops no
//! repeats in a FIFO topic. What it knows is gone with its process.

use crate::boots::Boot;
use crate::error::Result;
use crate::log::Log;
use crate::ports::free_port;
use crate::scratch::Scratch;
use crate::server::{Ready, Server};
use crate::{cache, http, process};

/// A running server.
#[derive(Debug)]
pub struct Moto {
    // Dropped in this order: the server before its folder.
    _server: Server,
    port: u16,
    scratch: Scratch,
}

impl Moto {
    /// Starts a server that takes every request.
    pub fn start() -> Result<Self> {
        Moto::start_with(None)
    }

    /// Starts a server that takes so many requests, and then only those that are signed by who has the right.
    pub fn start_strict(after: u32) -> Result<Self> {
        Moto::start_with(Some(after))
    }

    fn start_with(strict_after: Option<u32>) -> Result<Self> {
        let scratch = Scratch::new("moto")?;
        let log = Log::new(scratch.path().join("log"));
        let port = free_port();
        let _boot = Boot::wait();
        let folder = scratch.path().to_owned();
        let server = Server::new("moto", log, Ready::Listens(port), move || {
            let mut command = process::command(cache::moto()?);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).current_dir(&folder);
            if let Some(after) = strict_after {
                command.env("INITIAL_NO_AUTH_ACTION_COUNT", after.to_string());
            }
            Ok(command)
        });
        server.start()?;
        Ok(Moto { _server: server, port, scratch })
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Asks a service for an action, with these parameters as a form (`&Name=orders`); returns the XML of the answer. Nobody has signed it.
    pub fn ask(&self, service: &str, action: &str, parameters: &str) -> Result<String> {
        // The service is read from what would be the signature.
        let scope = format!("Credential=test/20260101/eu-west-1/{service}/aws4_request");
        let headers = [
            "content-type: application/x-www-form-urlencoded".to_owned(),
            format!("authorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none"),
        ];
        http::post(&format!("ask moto for {action}"), self.port, &headers, &format!("Action={action}{parameters}"))
    }

    /// A folder of this server. It is removed with it.
    pub fn folder(&self) -> &std::path::Path {
        self.scratch.path()
    }
}
