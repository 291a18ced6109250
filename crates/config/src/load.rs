//! Reading a configuration: the file, or a text, and what is wrong with it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use delaybridge_model::{Config, Parts};
use delaybridge_settings::problem::{ConfigErrors, Position, Problem};
use delaybridge_settings::reader::Needs;
use delaybridge_settings::{node, problem, reader};
use delaybridge_sink::SinkSpec;

use super::{input, parts, validate};

/// A configuration that can be run.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings, in the order of the file.
    pub warnings: Vec<Problem>,
    /// Hashes of its parts, to find the changes to another one.
    pub parts: Parts,
}

/// Reads and checks the file at `path`, or what comes by standard input for [`STANDARD_INPUT`]; `env` looks up environment variables.
///
/// # Errors
/// Everything that is wrong with the file, at once.
pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Loaded, ConfigErrors> {
    load_for(path, env, Needs::Everything)
}

/// Reads and checks the file for a use that needs only some of its secrets: files and variables of the others may be missing.
///
/// # Errors
/// As for [`load`].
pub fn load_for(path: &Path, env: &dyn Fn(&str) -> Option<OsString>, needs: Needs) -> Result<Loaded, ConfigErrors> {
    let file = path.display().to_string();
    match input::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => load_str_for(&text, &file, env, needs),
        Ok(Err(error)) => {
            let good = error.utf8_error().valid_up_to();
            let bytes = error.as_bytes();
            let before = String::from_utf8_lossy(&bytes[..good]);
            let last = before.rsplit('\n').next().unwrap_or_default();
            let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
            let line = number(before.matches('\n').count()).saturating_add(1);
            let at = Position { line, column: number(last.chars().count()).saturating_add(1) };
            let byte = bytes.get(good).copied().unwrap_or_default();
            let message = format!("read configuration: the file is not UTF-8 text: byte 0x{byte:02x}");
            Err(unreadable(&file, Some(at), message, "save the file as UTF-8"))
        }
        Err(error) => Err(unreadable(
            &file,
            None,
            format!("read configuration: {error}"),
            "copy config.example.yaml there and edit it, or name another file with --config FILE or DELAYBRIDGE_CONFIG",
        )),
    }
}

/// Reads and checks the file as [`load`] does, and asks the clients of the sinks whether they take their settings. Connects
/// nowhere.
///
/// # Errors
/// Everything that is wrong with the file, at once.
pub fn load_with_clients(path: &Path, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Loaded, ConfigErrors> {
    let loaded = load(path, env)?;
    let refused = |spec: &Arc<SinkSpec>| {
        let failure = spec.validate().err()?;
        Some(Problem {
            file: path.display().to_string(),
            position: None,
            path: format!("sinks.{}.{}", spec.name, spec.kind()),
            message: failure.message,
            help: None,
        })
    };
    let problems: Vec<_> = loaded.config.sinks.iter().filter_map(refused).collect();
    if problems.is_empty() { Ok(loaded) } else { Err(ConfigErrors { problems, warnings: loaded.warnings, absent: 0 }) }
}

fn unreadable(file: &str, at: Option<Position>, message: String, help: &str) -> ConfigErrors {
    let report = problem::Report::new(file);
    report.of_file(at, message, Some(help.to_owned()).filter(|help| !help.is_empty()));
    match report.finish::<()>(None) {
        Err(errors) => errors,
        Ok(_) => ConfigErrors { problems: Vec::new(), warnings: Vec::new(), absent: 0 },
    }
}

/// Reads and checks `text`. `file_name` is used in messages; paths in the file are relative to its directory.
///
/// # Errors
/// Everything that is wrong with the text, at once.
pub fn load_str(text: &str, file_name: &str, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Loaded, ConfigErrors> {
    load_str_for(text, file_name, env, Needs::Everything)
}

fn load_str_for(
    text: &str,
    file_name: &str,
    env: &dyn Fn(&str) -> Option<OsString>,
    needs: Needs,
) -> Result<Loaded, ConfigErrors> {
    let base = Path::new(file_name).parent().map(PathBuf::from).unwrap_or_default();
    let cx = reader::Context { report: problem::Report::new(file_name), env, base, needs, files: Default::default() };
    let tree = node::parse(text, &cx.report);
    let config = tree.as_ref().and_then(|tree| validate::config(&cx, tree));
    let (config, warnings) = cx.report.finish(config)?;
    let parts = |tree| parts::of(&tree, (file_name, text), &cx.files.borrow(), &config);
    let parts = tree.map(parts).unwrap_or_default();
    Ok(Loaded { config, warnings, parts })
}
