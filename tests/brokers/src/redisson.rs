//! Redisson clients of every tested version: a Java program controlled by one JSON object per line.
//!
//! `redisson/Client.java` documents its commands, which the caller sends.

use std::process::Command;

use crate::cache;
use crate::error::{Error, Result};
use crate::java::{Archive, Java};

/// The installed versions, oldest first. Up to 3.21.0 elements have the old layout.
pub const VERSIONS: [&str; 5] = ["3.16.8", "3.20.1", "3.21.1", "3.45.1", "4.7.0"];

/// The jars of each version, as `sha256sum` prints them: its dependencies as Maven resolves them, and the libraries of
/// its codecs in the versions that it was built with.
const JARS: [&str; VERSIONS.len()] = [
    include_str!("../redisson/3.16.8.sha256"),
    include_str!("../redisson/3.20.1.sha256"),
    include_str!("../redisson/3.21.1.sha256"),
    include_str!("../redisson/3.45.1.sha256"),
    include_str!("../redisson/4.7.0.sha256"),
];

const SOURCE: &str = include_str!("../redisson/Client.java");

/// A command that runs the program with one of the [`VERSIONS`].
pub fn command(version: &str) -> Result<Command> {
    // Compiled against the oldest version, whose methods all versions have.
    let client = java(JARS[0])?.compiled("Client", SOURCE)?;
    let jars = jars(version)?;
    let class_path = format!("{}:{}", client.display(), class_path(jars)?);
    let java = Java::with(cache::redisson(jars)?, class_path)?;
    Ok(java.quick(&Archive::Read("client"), &["-Xmx128m"], "Client"))
}

/// A command that runs a class of the caller's with one of the [`VERSIONS`] and Kafka's own client, as a user would run
/// it: the virtual machine's defaults, a heap of 1 GB.
pub fn beside_kafka(version: &str, class: &str, source: &str) -> Result<Command> {
    let jars = jars(version)?;
    let libraries = format!("{}:{}", class_path(jars)?, cache::kafka_client()?.display());
    let java = Java::with(cache::redisson(jars)?, libraries)?.and_program(class, source)?;
    let mut command = java.plain();
    command.args(["-Xmx1g", "-cp", java.class_path(), class]);
    Ok(command)
}

/// Compiles a program of the caller's for one of the [`VERSIONS`]; returns the Java that runs it, and the class path
/// with Redisson.
pub fn compiled(version: &str, class: &str, source: &str) -> Result<(Command, String)> {
    let java = java(jars(version)?)?.and_program(class, source)?;
    let mut command = java.plain();
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-Xss512k"]);
    Ok((command, java.class_path().to_owned()))
}

fn java(jars: &str) -> Result<Java> {
    Java::with(cache::redisson(jars)?, class_path(jars)?)
}

fn jars(version: &str) -> Result<&'static str> {
    let place = VERSIONS.iter().position(|known| *known == version);
    place
        .map(|place| JARS[place])
        .ok_or_else(|| Error::new(format!("find Redisson {version}: not one of {VERSIONS:?}")))
}

fn class_path(jars: &str) -> Result<String> {
    let folder = cache::redisson(jars)?;
    let paths = jars.lines().filter_map(|line| line.split_whitespace().nth(1));
    Ok(paths.map(|jar| folder.join(jar).display().to_string()).collect::<Vec<_>>().join(":"))
}
