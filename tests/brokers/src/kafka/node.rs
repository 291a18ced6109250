//! One broker process with its folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::java::{self, TOOL};
use super::properties::{Ports, SCRAM, USERS};
use super::{KafkaOptions, TokenRules, Volume};
use crate::cache;
use crate::error::{During, Error, Result};
use crate::java::{Archive, Java};
use crate::log::Log;
use crate::process;
use crate::server::{Ready, Server};
use crate::tool::run;

/// The cluster id, the same for all clusters, so that a formatted folder fits each of them.
const CLUSTER_ID: &str = "ZGVsYXlicmlkZ2UtdGVzdA";
/// The line that a node logs when it is ready.
const READY: &str = "Kafka Server started";

/// A node; its folder contains its `server.properties` and its data.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) ports: Ports,
    pub(super) server: Server,
}

impl Node {
    pub(super) fn new(
        java: &Java,
        archive: &Archive,
        (id, ports): (usize, Ports),
        (folder, log4j): (&Path, &Path),
        options: &KafkaOptions,
    ) -> Self {
        let volume = options.volume.iter().find(|volume| volume.node == id);
        let enter = volume.map(|volume| volume.enter.clone()).unwrap_or_default();
        let (java, archive, properties, log4j) = (java.clone(), archive.clone(), properties(folder), log4j.to_owned());
        let (fast_jit, tokens) = (options.fast_jit, options.tokens.clone());
        let log = Log::new(folder.join("log"));
        let server = Server::new(format!("node {id} of Kafka"), log, Ready::Prints(READY), move || {
            let mut command = java::node(&java, &archive, &log4j, fast_jit);
            command.arg(&properties);
            if let Some(TokenRules { keys, .. }) = &tokens {
                // Without this property Kafka reads no public keys.
                let allowed = format!("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}");
                command.env("JDK_JAVA_OPTIONS", allowed);
            }
            Ok(behind(&enter, command))
        });
        Node { ports, server }
    }
}

pub(super) fn properties(folder: &Path) -> PathBuf {
    folder.join("server.properties")
}

pub(super) fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// Creates the data folder that the first start requires, from a copy of one that Kafka has formatted.
pub(super) fn format(java: &Java, folder: &Path, log4j: &Path, (id, controller): (usize, bool)) -> Result<()> {
    let role = if controller { "controller" } else { "broker" };
    let template = java.folder.join(format!("formatted-{role}-{id}"));
    let data = data(folder);
    cache::once(&template, |template| {
        let mut command = java::tool(java, &Archive::Read(TOOL), log4j, "kafka.tools.StorageTool");
        command.args(["format", "--cluster-id", CLUSTER_ID, "--config"]).arg(properties(folder));
        for (mechanism, (user, password)) in SCRAM.iter().flat_map(|m| USERS.map(|user| (m, user))) {
            command.arg("--add-scram").arg(format!("{mechanism}=[name={user},password={password}]"));
        }
        let output = command.output().during("start Kafka's storage tool")?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            return Err(Error::new(format!("format {}: {}", data.display(), String::from_utf8_lossy(&said))));
        }
        copy_files(&data, template)
    })?;
    if data.exists() { Ok(()) } else { copy_files(&template, &data) }
}

/// Moves the formatted data to a file system of its own.
pub(super) fn move_data(folder: &Path, volume: &Volume) -> Result<()> {
    let file = properties(folder);
    let lines = fs::read_to_string(&file).during(format_args!("read {}", file.display()))?;
    // Of two lines with the same name, the later one applies.
    let lines = format!("{lines}log.dirs={}\n", volume.path.display());
    fs::write(&file, lines).during(format_args!("write {}", file.display()))?;
    let mut copy = process::command("cp");
    copy.arg("-r").arg(data(folder).join(".")).arg(&volume.path);
    run(behind(&volume.enter, copy), None, "cp").map(drop)
}

/// Wraps a command so that it sees the node's files, and ends with this process.
fn behind(enter: &[String], command: Command) -> Command {
    let Some((program, arguments)) = enter.split_first() else { return command };
    let mut behind = process::command(program);
    behind.args(arguments).arg("--").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => behind.env(name, value),
            None => behind.env_remove(name),
        };
    }
    behind
}

/// Copies a folder that contains only files.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).during(format_args!("create {}", to.display()))?;
    for entry in fs::read_dir(from).during(format_args!("list {}", from.display()))? {
        let entry = entry.during(format_args!("list {}", from.display()))?;
        let source = entry.path();
        fs::copy(&source, to.join(entry.file_name())).during(format_args!("copy {}", source.display()))?;
    }
    Ok(())
}
