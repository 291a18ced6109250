//! A node's folder, ports and environment. Everything is set that RabbitMQ would otherwise look for on the machine.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Rabbit, RabbitOptions};
use crate::error::{During, Error, Result};
use crate::ports::free_port;
use crate::process;
use crate::tls::Certificates;

/// The name of a node by its number within its epmd; a single node has no number.
pub(super) fn node_name(number: Option<usize>) -> String {
    format!("rabbit{}@localhost", number.map(|number| number.to_string()).unwrap_or_default())
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) amqp: u16,
    pub(super) amqps: u16,
    pub(super) epmd: u16,
    /// The port on which the node is administered.
    pub(super) node: u16,
}

impl Ports {
    pub(super) fn free() -> Self {
        Ports { amqp: free_port(), amqps: free_port(), epmd: free_port(), node: free_port() }
    }
}

/// The paths and ports of a node.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) ports: Ports,
    /// The name of the node.
    pub(super) node: String,
    sbin: PathBuf,
    folder: PathBuf,
    plugins_folder: Option<PathBuf>,
}

/// The folder of RabbitMQ's scripts. Debian's commands of the same names switch the user first.
pub(super) fn installed() -> Result<PathBuf> {
    let lib = Path::new("/usr/lib/rabbitmq/lib");
    let mut versions: Vec<PathBuf> = fs::read_dir(lib)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("sbin")))
        .filter(|sbin| sbin.join("rabbitmq-server").exists())
        .collect();
    versions.sort();
    versions.pop().ok_or_else(|| {
        Error::new(format!("find RabbitMQ in {}: not there; run scripts/setup.sh rabbitmq", lib.display()))
    })
}

impl Files {
    pub(super) fn write(
        sbin: PathBuf,
        folder: &Path,
        (ports, node): (Ports, String),
        options: &RabbitOptions,
        certificates: Option<&Certificates>,
    ) -> Result<Self> {
        let plugins_folder = options.plugins_folder.clone();
        let files = Files { ports, node, sbin, folder: folder.to_owned(), plugins_folder };
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).during(format_args!("write {}", path.display()))
        };
        write("rabbitmq.conf", &files.rabbitmq_conf(options, certificates))?;
        write("definitions.json", options.definitions.as_deref().unwrap_or(Rabbit::DEFINITIONS))?;
        write("enabled_plugins", &format!("[{}].\n", options.plugins.join(",")))?;
        write("rabbitmq-env.conf", "")?;
        // The cookie of nodes and `erl_call`; Erlang requires that no other user can read it. The listeners that it
        // protects are on 127.0.0.1 only.
        write(".erlang.cookie", "DELAYBRIDGETEST")?;
        let cookie = folder.join(".erlang.cookie");
        fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400))
            .during(format_args!("protect {}", cookie.display()))?;
        Ok(files)
    }

    fn rabbitmq_conf(&self, options: &RabbitOptions, certificates: Option<&Certificates>) -> String {
        let mut lines = vec![
            ("listeners.tcp.1", format!("127.0.0.1:{}", self.ports.amqp)),
            ("load_definitions", self.path("definitions.json")),
            ("log.console", "true".to_owned()),
            ("log.console.level", "info".to_owned()),
            ("log.file", "false".to_owned()),
            // A machine with a full disk does not block tests.
            ("disk_free_limit.absolute", "50MB".to_owned()),
        ];
        if let Some(certificates) = certificates {
            lines.push(("listeners.ssl.1", format!("127.0.0.1:{}", self.ports.amqps)));
            lines.push(("ssl_options.cacertfile", certificates.ca.display().to_string()));
            lines.push(("ssl_options.certfile", certificates.server_cert.display().to_string()));
            lines.push(("ssl_options.keyfile", certificates.server_key.display().to_string()));
        }
        if options.mutual_tls {
            lines.push(("ssl_options.verify", "verify_peer".to_owned()));
            lines.push(("ssl_options.fail_if_no_peer_cert", "true".to_owned()));
        }
        let own = lines.iter().map(|(name, value)| (*name, value.as_str()));
        let further = options.config.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        own.chain(further).map(|(name, value)| format!("{name} = {value}\n")).collect()
    }

    /// A command that runs one of RabbitMQ's scripts in the environment of this node.
    pub(super) fn command(&self, script: &str) -> Command {
        const LOCAL: &str = "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}";
        let mut command = process::command(self.sbin.join(script));
        command.env_clear().current_dir(&self.folder);
        command.env("PATH", env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        command.env("LANG", "C.UTF-8").env("HOME", &self.folder);
        command.env("ERL_EPMD_PORT", self.ports.epmd.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_NODENAME", &self.node);
        command.env("RABBITMQ_DIST_PORT", self.ports.node.to_string());
        command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", LOCAL);
        if let Some(further) = &self.plugins_folder {
            let own = self.sbin.join("../plugins");
            command.env("RABBITMQ_PLUGINS_DIR", format!("{}:{}", own.display(), further.display()));
        }
        for (name, file) in [
            ("RABBITMQ_CONF_ENV_FILE", "rabbitmq-env.conf"),
            // RabbitMQ appends `.conf` and `.config`.
            ("RABBITMQ_CONFIG_FILE", "rabbitmq"),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", "advanced"),
            ("RABBITMQ_GENERATED_CONFIG_DIR", "generated"),
            ("RABBITMQ_SCHEMA_DIR", "schema"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
            ("RABBITMQ_FEATURE_FLAGS_FILE", "feature_flags"),
            ("RABBITMQ_MNESIA_BASE", "data"),
            ("RABBITMQ_LOG_BASE", "logs"),
            ("RABBITMQ_PID_FILE", "pid"),
        ] {
            command.env(name, self.folder.join(file));
        }
        command
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}
