//! Applies a changed configuration while the daemon runs. `plan` finds the difference, `swap` carries it out.
//!
//! The whole file is read and checked first, with the checks of the start. Then only the difference is applied, so that
//! unchanged queues and sinks are not interrupted. One reload runs at a time; all requests that arrive meanwhile are
//! served by one more.

mod plan;
mod swap;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use self::plan::Plan;
use super::group::Group;
use super::sinks::Sinks;
use super::systemd::Words;
use delaybridge_config::{Loaded, summary};
use delaybridge_core::clock::Instant;
use delaybridge_ops::reload::{Outcome, ReloadHandle, ReloadReport, ReloadRequest};
use delaybridge_pipeline::process::Process;
use delaybridge_settings::problem::{ConfigErrors, Problem};
use delaybridge_telemetry::status::Refusal;

/// The configuration file of the daemon, and the function that reads and checks it.
#[derive(Clone)]
pub struct ConfigFile {
    /// The path of the file.
    pub path: PathBuf,
    /// Reads and checks the file, as the start does.
    pub read: Arc<dyn Fn() -> Result<Loaded, ConfigErrors> + Send + Sync>,
}

/// The parts of the daemon that a reload changes.
pub(super) struct Reloads {
    pub(super) file: ConfigFile,
    pub(super) handle: ReloadHandle,
    pub(super) process: Arc<Process>,
    pub(super) groups: Arc<Vec<Group>>,
    pub(super) sinks: Arc<Sinks>,
    /// Notifies the service manager.
    pub(super) words: Words,
}

impl Reloads {
    /// Serves requests until the process stops. A reload in progress is abandoned then; the drain finishes the queues
    /// that it has begun to retire.
    pub(super) async fn run(self, requests: mpsc::Receiver<ReloadRequest>) {
        let process = self.process.clone();
        let watching = self.handle.running().reload.watch;
        let watch = watch::run(self.file.path.clone(), self.handle.clone(), watching);
        // Biased: shutdown takes priority.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => {}
            () = self.serve(requests) => {}
            () = watch => {}
        }
    }

    async fn serve(&self, mut requests: mpsc::Receiver<ReloadRequest>) {
        while let Some(first) = requests.recv().await {
            let more = std::iter::from_fn(|| requests.try_recv().ok());
            let (questions, requests): (Vec<_>, Vec<_>) =
                std::iter::once(first).chain(more).partition(|request| request.dry_run);
            if !requests.is_empty() {
                self.words.reloading();
                let outcome = self.reload().await;
                self.words.reloaded();
                answer(requests, &outcome);
            }
            if !questions.is_empty() {
                let outcome = self.plan().await.map(|plan| plan.report(true));
                answer(questions, &outcome);
            }
        }
        // The handle in `self` keeps the channel open.
        std::future::pending().await
    }

    async fn reload(&self) -> Outcome {
        let events = self.process.events.clone();
        let began = Instant::now();
        events.reload_begins();
        let plan = match self.plan().await {
            Ok(plan) => plan,
            Err(problems) => {
                events.reload_refused(&problems.iter().map(refusal).collect::<Vec<_>>());
                return Err(problems);
            }
        };
        let mut report = plan.report(false);
        if !report.is_empty() {
            events.reloading(&report.to_string());
            swap::apply(&self.process, &self.groups, &self.sinks, &plan).await;
        }
        let hash = summary(&plan.config);
        self.handle.runs(plan.config, plan.parts);
        report.took = began.elapsed();
        events.reloaded(&report.to_string(), &hash, report.took);
        Ok(report)
    }

    /// Reads the file and compares it with the running configuration.
    async fn plan(&self) -> Result<Plan, Vec<Problem>> {
        let read = self.file.read.clone();
        // On a blocking thread, because it reads files and validates settings with the sinks' client libraries.
        let loaded = match tokio::task::spawn_blocking(move || read()).await {
            Ok(loaded) => loaded.map_err(|errors| errors.problems)?,
            Err(panic) => {
                let message = format!("read configuration: {panic}");
                let file = self.file.path.display().to_string();
                return Err(vec![Problem { file, position: None, path: String::new(), message, help: None }]);
            }
        };
        let running = self.handle.running();
        let parts = self.handle.parts();
        Plan::new(&running, &parts, loaded, &self.file.path.display().to_string())
    }
}

fn answer(requests: Vec<ReloadRequest>, outcome: &Outcome) {
    for answer in requests.into_iter().filter_map(|request| request.answer) {
        // Ignore the error: the requester may be gone.
        let _ = answer.send(outcome.clone());
    }
}

fn refusal(problem: &Problem) -> Refusal {
    Refusal {
        file: problem.file.clone(),
        line: problem.position.map(|at| at.line),
        path: problem.path.clone(),
        message: problem.message.clone(),
        help: problem.help.clone(),
    }
}

impl Plan {
    fn report(&self, dry_run: bool) -> ReloadReport {
        let queues = self.queues.clone();
        let sinks = self.sinks.clone();
        let warnings = self.warnings.clone();
        ReloadReport { dry_run, queues, sinks, warnings, took: Default::default() }
    }
}
