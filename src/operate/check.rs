//! Everything that is wrong with a configuration, the settings in effect, and whether they would work.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

pub use super::live::{Finding, State};
use crate::config::{self, ConfigErrors, Loaded, Problem, QueueSpec};
use crate::sink;

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Whether the daemon can run with it; warnings do not count.
    pub ok: bool,
    /// What keeps the daemon from starting.
    pub problems: Vec<Problem>,
    /// What is doubtful besides.
    pub warnings: Vec<Problem>,
    /// What is good to know of it.
    pub notes: Vec<String>,
    /// The settings in effect, without secrets; none where the configuration is wrong.
    pub settings: Option<Value>,
    /// What was found by connecting; none unless that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Vec<Finding>>,
}

/// Reads a configuration, and asks the clients of the sinks whether they take their settings.
///
/// # Errors
///
/// Everything that is wrong.
pub fn read(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, ConfigErrors> {
    let loaded = config::load(path, variable)?;
    let refused = |spec: &Arc<sink::SinkSpec>| {
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
    if problems.is_empty() { Ok(loaded) } else { Err(ConfigErrors { problems, warnings: loaded.warnings }) }
}

/// Reads a configuration for commands at its queues: what only sinks need may be missing.
///
/// # Errors
///
/// Everything else that is wrong.
pub fn read_for(
    path: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
    needs: config::Needs,
) -> Result<Loaded, ConfigErrors> {
    config::load_for(path, variable, needs)
}

impl Check {
    /// Sums up what [`read`] answered; connects to everything that the configuration names where `live`.
    pub async fn of(read: &Result<Loaded, ConfigErrors>, live: bool) -> Check {
        match read {
            Err(ConfigErrors { problems, warnings }) => {
                let (problems, warnings) = (problems.clone(), warnings.clone());
                Check { ok: false, problems, warnings, notes: Vec::new(), settings: None, live: None }
            }
            Ok(Loaded { config, warnings, .. }) => {
                let live = if live { Some(super::live::look(config).await) } else { None };
                let settings = Some(config::describe_json(config));
                let note = |spec: &Arc<QueueSpec>| Some(format!("queue {}: {}", spec.id, spec.source.note()?));
                let notes = config.queues.iter().filter_map(note).collect();
                let warnings = warnings.clone();
                let mut check = Check { ok: true, problems: Vec::new(), warnings, notes, settings, live };
                check.ok = check.failed() == 0;
                check
            }
        }
    }

    /// How many things do not work, as far as was found by connecting.
    pub fn failed(&self) -> usize {
        self.live.iter().flatten().filter(|finding| finding.state == State::Failed).count()
    }
}
