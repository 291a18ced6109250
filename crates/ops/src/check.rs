//! Everything that is wrong with a configuration, the settings in effect, and whether they would work.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

pub use super::live::{Health, LiveFinding};
use delaybridge_model::{Config, QueueSpec};
use delaybridge_settings::problem::{ConfigErrors, Problem};

/// The findings about a configuration.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigCheck {
    /// Whether the daemon can run with it; warnings do not count.
    pub ok: bool,
    /// Problems that keep the daemon from starting.
    pub problems: Vec<Problem>,
    /// Doubts beside them.
    pub warnings: Vec<Problem>,
    /// Notes.
    pub notes: Vec<String>,
    /// The settings in effect, without secrets; none where the configuration is wrong.
    pub settings: Option<Value>,
    /// Findings of a connection; none unless that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Vec<LiveFinding>>,
}

impl ConfigCheck {
    /// Returns the result for a configuration that is refused.
    pub fn refused(errors: &ConfigErrors) -> ConfigCheck {
        let ConfigErrors { problems, warnings, .. } = errors.clone();
        ConfigCheck { ok: false, problems, warnings, notes: Vec::new(), settings: None, live: None }
    }

    /// Returns the result for a configuration that can be run, with its settings in effect; connects to everything that
    /// it names where `live`.
    pub async fn of(config: &Config, warnings: &[Problem], settings: Value, live: bool) -> ConfigCheck {
        let live = if live { Some(super::live::look(config).await) } else { None };
        let note = |spec: &Arc<QueueSpec>| Some(format!("queue {}: {}", spec.id, spec.source.note()?));
        let notes = config.queues.iter().filter_map(note).collect();
        let warnings = warnings.to_vec();
        let settings = Some(settings);
        let mut check = ConfigCheck { ok: true, problems: Vec::new(), warnings, notes, settings, live };
        check.ok = check.failed() == 0;
        check
    }

    /// Returns the number of things that do not work, as far as was found by connecting.
    pub fn failed(&self) -> usize {
        self.live.iter().flatten().filter(|finding| finding.state == Health::Failed).count()
    }
}
