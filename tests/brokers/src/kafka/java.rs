//! Java processes with Kafka's classes: the nodes, and the command-line tools.
//!
//! Most of a start is class loading. A class-data archive, made by one training run per machine and Java, halves it.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache;
use crate::error::{During, Result};
use crate::java;
use crate::process;

/// The Java of this machine and the folder of Kafka.
#[derive(Debug, Clone)]
pub(super) struct Java {
    program: PathBuf,
    /// The class path in a fixed order: an archive is valid only for the class path that it was made with.
    class_path: String,
    /// The folder in the cache.
    pub(super) folder: PathBuf,
    /// A hash that distinguishes the archives of different Javas.
    version: u64,
}

/// The role of a process; each has its own archive.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Node { fast_jit: bool },
    Tool,
}

impl Java {
    pub(super) fn find() -> Result<Self> {
        let folder = cache::kafka()?;
        let lib = folder.join("lib");
        let mut jars = Vec::new();
        for entry in fs::read_dir(&lib).during(format_args!("list {}", lib.display()))? {
            let path = entry.during(format_args!("list {}", lib.display()))?.path();
            if path.extension().is_some_and(|extension| extension == "jar") {
                jars.push(path.to_string_lossy().into_owned());
            }
        }
        jars.sort();
        let program = java::program()?;
        let mut hasher = DefaultHasher::new();
        program.hash(&mut hasher);
        let metadata = fs::metadata(&program).during(format_args!("look at {}", program.display()))?;
        metadata.modified().during(format_args!("look at {}", program.display()))?.hash(&mut hasher);
        Ok(Java { program, class_path: jars.join(":"), folder, version: hasher.finish() })
    }

    /// A command that runs `class`, with the archive if it exists.
    pub(super) fn command(&self, role: Role, log4j: &Path, class: &str) -> Command {
        self.command_with(role, log4j, self.share(role), class)
    }

    /// A command that runs `class` and writes an archive of the loaded classes to `archive` at its end.
    pub(super) fn training(&self, role: Role, log4j: &Path, class: &str, archive: &Path) -> Command {
        self.command_with(role, log4j, vec![format!("-XX:ArchiveClassesAtExit={}", archive.display())], class)
    }

    fn command_with(&self, role: Role, log4j: &Path, share: Vec<String>, class: &str) -> Command {
        // A test needs a quick start and little memory; a measurement of throughput needs the second compiler and more
        // memory.
        let (heap, fast_jit) = match role {
            Role::Node { fast_jit: true } => ("256m", true),
            Role::Node { fast_jit: false } => ("1g", false),
            Role::Tool => ("128m", true),
        };
        let mut command = process::command(&self.program);
        command.args(["-Xms64m", &format!("-Xmx{heap}"), "-Xss512k", "-XX:+UseSerialGC", "-XX:-UsePerfData"]);
        if fast_jit {
            command.arg("-XX:TieredStopAtLevel=1");
        }
        command.args(share);
        command.args(["-Djava.awt.headless=true", "-Dfile.encoding=UTF-8"]);
        command.arg(format!("-Dlog4j2.configurationFile={}", log4j.display()));
        command.args(["-cp", &self.class_path, class]);
        // File names and arguments are UTF-8, whatever the locale is.
        command.env("LC_ALL", "C.UTF-8").env_remove("JAVA_TOOL_OPTIONS").env_remove("CLASSPATH");
        command
    }

    fn share(&self, role: Role) -> Vec<String> {
        let archive = self.archive(role);
        // An empty file means that the training does not work with this Java.
        if fs::metadata(&archive).is_ok_and(|metadata| metadata.len() > 0) {
            vec!["-Xshare:auto".to_owned(), format!("-XX:SharedArchiveFile={}", archive.display())]
        } else {
            Vec::new()
        }
    }

    /// The path of the archive, which may not exist yet.
    pub(super) fn archive(&self, role: Role) -> PathBuf {
        let role = match role {
            Role::Node { .. } => "node",
            Role::Tool => "tool",
        };
        self.folder.join(format!("{role}-{:016x}.jsa", self.version))
    }
}
