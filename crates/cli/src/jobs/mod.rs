//! `jobs`: the job queue from a terminal or a shell script.

mod args;
mod change;
mod command;
mod dead;
mod open;
mod recurring;
mod remove;

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;

use self::args::{AddArgs, ExportJobsArgs, HeldJob, PopArgs};
pub use self::command::JobsCommand;
use self::open::open;
use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::input::input;
use super::load::on_queue;
use super::progress::ProgressLine;
use delaybridge_jobs::{Due, NewJob, PopRequest, Release, Settled};
use delaybridge_ops::jobs::{ExportTarget, export, failed, import, text};

/// A result without a list: what was done, in the shape of the others.
#[derive(serde::Serialize)]
struct Done {
    id: String,
    done: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
}

pub(super) async fn run(global: &Global, command: JobsCommand, out: &mut (dyn Write + Send)) -> Result<u8, Failed> {
    match command {
        JobsCommand::Operation(command) => command.run(global, out).await,
        command => by_hand(global, &command, out).await,
    }
}

async fn by_hand(global: &Global, command: &JobsCommand, out: &mut dyn Write) -> Result<u8, Failed> {
    let done = |id: &dyn std::fmt::Display, done| Done { id: id.to_string(), done, due_ms: None, deadline_ms: None };
    let words = |done: &Done| format!("{} {}\n", done.id, done.done);
    match command {
        JobsCommand::Operation(_) => {}
        JobsCommand::Add(args) => add(global, args, out).await?,
        JobsCommand::Pop(args) => return pop(global, args, out).await,
        JobsCommand::Finish(HeldJob { id, token }) => {
            let result = open(global).await?.queue.finish(id, *token).await;
            result.map_err(|error| failed(&format!("finish job {id}"), &error))?;
            answer(global, out, &done(id, "finished"), words)?;
        }
        JobsCommand::Release(args) => {
            let HeldJob { id, token } = &args.held;
            let how = if args.uncounted { Release::Uncounted } else { Release::Counted };
            let result = open(global).await?.queue.release(id, *token, args.delay, how, &args.reason).await;
            let (settled, time) = result.map_err(|error| failed(&format!("release job {id}"), &error))?;
            let result = match settled {
                Settled::Done => Done { due_ms: Some(time), ..done(id, "released") },
                Settled::Dead => done(id, "dead: that was its last try"),
                Settled::Expired => done(id, "gone: it was past its time to live"),
            };
            answer(global, out, &result, words)?;
        }
        JobsCommand::Touch(args) => {
            let HeldJob { id, token } = &args.held;
            let result = open(global).await?.queue.touch(id, *token, args.ttr).await;
            let deadline = result.map_err(|error| failed(&format!("touch job {id}"), &error))?;
            answer(global, out, &Done { deadline_ms: Some(deadline), ..done(id, "touched") }, words)?;
        }
        JobsCommand::Bury(args) => {
            let HeldJob { id, token } = &args.held;
            let result = open(global).await?.queue.bury(id, *token, &args.reason).await;
            result.map_err(|error| failed(&format!("bury job {id}"), &error))?;
            answer(global, out, &done(id, "buried"), words)?;
        }
        JobsCommand::Change(args) => change::run(global, args, out).await?,
        JobsCommand::Delete(args) => {
            let result = open(global).await?.queue.delete(&args.id).await;
            result.map_err(|error| failed(&format!("delete job {}", args.id), &error))?;
            answer(global, out, &done(&args.id, "deleted"), words)?;
        }
        JobsCommand::Get(args) => answer(global, out, &open(global).await?.get(&args.id).await?, text::one)?,
        JobsCommand::Dead(command) => dead::run(global, command, out).await?,
        JobsCommand::Recurring(command) => recurring::run(global, command, out).await?,
        JobsCommand::Limits(args) => {
            let done = open(global).await?.limits(&args.topic, args.limits()).await?;
            answer(global, out, &done, text::limits)?;
        }
        JobsCommand::Empty(args) => remove::empty(global, args, out).await?,
        JobsCommand::Destroy(args) => remove::destroy(global, args, out).await?,
        JobsCommand::Import(args) => {
            let (_session, queue) = on_queue(global, &args.queue).await?;
            let jobs = open(global).await?;
            let done =
                import(&queue, &jobs, &args.topic, args.dry_run, &mut ProgressLine::start("jobs import")).await?;
            answer(global, out, &done, text::imported)?;
        }
        JobsCommand::Export(args) => {
            let ExportJobsArgs { topic, key, queue, seconds, dry_run } = args;
            let jobs = open(global).await?;
            let held;
            let target = match (key, queue) {
                (Some(key), _) => ExportTarget::set(key, *seconds),
                (None, queue) => {
                    held = on_queue(global, queue.as_deref().unwrap_or_default()).await?;
                    ExportTarget::of(&held.1)?
                }
            };
            let done = export(&jobs, topic, &target, *dry_run, &mut ProgressLine::start("jobs export")).await?;
            answer(global, out, &done, text::exported)?;
        }
    }
    Ok(0)
}

async fn add(global: &Global, args: &AddArgs, out: &mut dyn Write) -> Result<(), Failed> {
    let due = match (args.delay, args.at) {
        (Some(delay), _) => Due::After(delay),
        (None, Some(at)) => Due::At(at),
        (None, None) => Due::After(Duration::ZERO),
    };
    let bodies = match &args.body {
        Some(body) => vec![Bytes::from(body.clone())],
        None => {
            let all = input("body", args.file.as_deref())?;
            match args.lines {
                // Of a text that ends with a line break nothing is behind it.
                true => {
                    let end = if all.ends_with(b"\n") { all.len() - 1 } else { all.len() };
                    let lines = all[..end].split(|byte| *byte == b'\n');
                    lines.map(|line| all.slice_ref(line)).collect()
                }
                false => vec![all],
            }
        }
    };
    let job = |body: Bytes| NewJob {
        id: args.id.clone(),
        due,
        ttr: args.ttr,
        tries: args.tries,
        ttl: args.ttl,
        priority: args.priority,
        content_type: args.content_type.clone(),
        unique: args.unique(),
        ..NewJob::new(body)
    };
    let jobs = open(global).await?;
    let mut added = delaybridge_ops::jobs::AddedJobs { jobs: Vec::new() };
    for some in bodies.chunks(delaybridge_jobs::MAX_BATCH) {
        let batch = jobs.add(&args.topic, some.iter().cloned().map(job).collect()).await;
        let batch = batch.map_err(|error| match added.jobs.len() {
            0 => error,
            n => delaybridge_ops::Error { message: format!("{} ({n} jobs were added before)", error.message), ..error },
        })?;
        added.jobs.extend(batch.jobs);
    }
    answer(global, out, &added, text::added)?;
    Ok(added.whole(&args.topic)?)
}

async fn pop(global: &Global, args: &PopArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let request = PopRequest { topics: args.topics.clone(), count: args.count, ttr: args.ttr, wait: args.wait };
    let found = open(global).await?.pop(request).await?;
    let none = found.jobs.is_empty();
    answer(global, out, &found, text::taken)?;
    // A shell script asks for it.
    Ok(if none { 4 } else { 0 })
}
