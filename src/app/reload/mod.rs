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
use crate::clock::Instant;
use crate::config::{Loaded, summary};
use crate::pipeline::process::Process;
use crate::reload::{Outcome, ReloadHandle, Report, Wish};
use crate::settings::problem::{ConfigErrors, Problem};
use crate::telemetry::status::Refusal;

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
    pub(super) async fn run(self, wishes: mpsc::Receiver<Wish>) {
        let process = self.process.clone();
        let watching = self.handle.running().watch_file;
        let watch = watch::run(self.file.path.clone(), self.handle.clone(), watching);
        // Biased: shutdown takes priority.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => {}
            () = self.serve(wishes) => {}
            () = watch => {}
        }
    }

    async fn serve(&self, mut wishes: mpsc::Receiver<Wish>) {
        while let Some(first) = wishes.recv().await {
            let more = std::iter::from_fn(|| wishes.try_recv().ok());
            let (questions, wishes): (Vec<_>, Vec<_>) =
                std::iter::once(first).chain(more).partition(|wish| wish.dry_run);
            if !wishes.is_empty() {
                self.words.reloading();
                let outcome = self.reload().await;
                self.words.reloaded();
                answer(wishes, &outcome);
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
        let (events, began) = (self.process.events.clone(), Instant::now());
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
        let (running, parts) = (self.handle.running(), self.handle.parts());
        Plan::new(&running, &parts, loaded, &self.file.path.display().to_string())
    }
}

fn answer(wishes: Vec<Wish>, outcome: &Outcome) {
    for answer in wishes.into_iter().filter_map(|wish| wish.answer) {
        // Ignore the error: the requester may be gone.
        drop(answer.send(outcome.clone()));
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
    fn report(&self, dry_run: bool) -> Report {
        let (queues, sinks, warnings) = (self.queues.clone(), self.sinks.clone(), self.warnings.clone());
        Report { dry_run, queues, sinks, warnings, took: Default::default() }
    }
}
