//! ActiveMQ Artemis with AMQP 1.0: one broker, and a look into its queues.

mod queue;

use std::ops::Deref;
use std::path::Path;

pub use queue::ArtemisMessage;
pub(crate) use queue::decoded;

use crate::cache;
use crate::error::{During, Result};
use crate::java::{Archive, Java};
use crate::log::Log;
use crate::ports::free_port;
use crate::scratch::Scratch;
use crate::server::{Ready, Server, on_free_ports};

const CONFIG: &str = include_str!("../../artemis/broker.xml");
const SOURCE: &str = include_str!("../../artemis/Broker.java");
/// The text that a broker prints when it is ready.
const READY: &str = "READY";
/// The name of its archive of classes.
const ROLE: &str = "broker";

/// The properties of a broker; [`Default`] has the queue `orders`.
#[derive(Debug, Clone)]
pub struct ArtemisOptions {
    /// Queues that are made, each with an address of its name. `denied.NAME` takes nothing from `guest`; `full.block` and
    /// `full.fail` are full with 20,000 bytes, and then give no credit, or refuse.
    pub queues: Vec<String>,
    /// Further parameters of the acceptor, as `amqpCredits=10;amqpLowCredits=5`.
    pub acceptor: String,
    /// Whether messages get the time of their arrival. Then a full address stays full when its messages are gone.
    pub times: bool,
}

impl Default for ArtemisOptions {
    fn default() -> Self {
        ArtemisOptions { queues: vec!["orders".to_owned()], acceptor: String::new(), times: false }
    }
}

/// A running broker. `guest` with `guest`, or no login, may send anywhere but to `denied.NAME`; `nobody` with `nobody`
/// only there.
#[derive(Debug)]
pub struct Artemis {
    // Dropped in this order: the broker before its folder.
    broker: Server,
    port: u16,
    http: u16,
    scratch: Scratch,
}

impl Artemis {
    /// Starts a broker with [`ArtemisOptions::default`].
    pub fn start() -> Result<Self> {
        Self::start_with(&ArtemisOptions::default())
    }

    /// Starts a broker; returns when it is ready.
    pub fn start_with(options: &ArtemisOptions) -> Result<Self> {
        let java = Java::with_jars_of(cache::artemis()?)?.and_program("Broker", SOURCE)?;
        let start = |archive: Archive| {
            on_free_ports(|| Self::prepare(&java, &archive, options), |artemis: &Artemis| artemis.broker.start())
        };
        java.train(ROLE, |archive| {
            start(archive)?.stop();
            Ok(())
        })?;
        let artemis = start(Archive::Read(ROLE))?;
        options.queues.iter().try_for_each(|queue| artemis.create(queue))?;
        Ok(artemis)
    }

    /// Prepares everything except the process.
    fn prepare(java: &Java, archive: &Archive, options: &ArtemisOptions) -> Result<Self> {
        let scratch = Scratch::new("artemis")?;
        let (port, http) = (free_port(), free_port());
        let folder = scratch.path().to_owned();
        let config = CONFIG.replace("FOLDER", &folder.display().to_string()).replace("PORT", &port.to_string());
        let config = config.replace("OPTIONS", &options.acceptor).replace("TIMES", &options.times.to_string());
        std::fs::write(folder.join("broker.xml"), config).during("write broker.xml")?;
        let log = Log::new(folder.join("log"));
        let (java, archive) = (java.clone(), archive.clone());
        let broker = Server::new("Artemis", log, Ready::Prints(READY), move || {
            let mut command = java.quick(&archive, &["-Xmx256m"], "Broker");
            command.arg(folder.join("broker.xml")).arg(http.to_string()).current_dir(&folder);
            Ok(command)
        });
        Ok(Artemis { broker, port, http, scratch })
    }

    /// The port of AMQP on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of this broker: data, log, configuration. It is removed with the broker.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }
}

impl Deref for Artemis {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.broker
    }
}
