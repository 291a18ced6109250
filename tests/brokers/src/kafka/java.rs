//! Java processes with Kafka's classes: the nodes, and the command-line tools.

use std::path::Path;
use std::process::Command;

use super::MAIN;
use crate::java::{Archive, Java};

/// The names of the archives of classes.
pub(super) const NODE: &str = "node";
/// As [`NODE`].
pub(super) const TOOL: &str = "tool";

/// A command that starts a node: quickly and with little memory for a test; for a measurement of throughput with the
/// second compiler and more memory.
pub(super) fn node(java: &Java, archive: &Archive, log4j: &Path, fast_jit: bool) -> Command {
    let logging = logging(log4j);
    if fast_jit {
        java.quick(archive, &["-Xmx256m", &logging], MAIN)
    } else {
        java.lasting(archive, &["-Xms64m", "-Xmx1g", "-Xss512k", &logging], MAIN)
    }
}

pub(super) fn tool(java: &Java, archive: &Archive, log4j: &Path, class: &str) -> Command {
    java.quick(archive, &["-Xmx128m", &logging(log4j)], class)
}

fn logging(log4j: &Path) -> String {
    format!("-Dlog4j2.configurationFile={}", log4j.display())
}
