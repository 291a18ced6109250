//! `dead export`: letters as lines of JSON.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::answer::answer;
use crate::failed::Failed;
use crate::global::Global;
use crate::progress::ProgressLine;
use crate::remote::DaemonArgs;
use delaybridge_ops::dead::unknown_sinks;
use delaybridge_ops::operation::Operation;
use delaybridge_ops::operations::ExportDead;
use delaybridge_ops::plural;
use delaybridge_ops::progress::{Progress, ProgressWatch};

/// Write dead letters as lines of JSON.
///
/// One object a line, with everything that a letter keeps; what is not text is in base64, in a field that ends in `_base64`.
/// The letters stay where they are. Dead letters may hold payloads of customers: so does the file.
///
/// dead -> dead, and a line
#[derive(Debug, Args)]
#[command(after_help = EXPORT)]
pub struct ExportArgs {
    /// The file to write, which must not exist; without it, standard output
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The letters.
    #[command(flatten)]
    pub request: ExportDead,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

const EXPORT: &str = "\
Examples:
  delaybridge dead export order_timeout > letters.jsonl
  delaybridge dead export order_timeout --reason undecodable --file letters.jsonl";

/// The outcome of an export.
#[derive(Default, Serialize)]
struct Exported {
    queue: String,
    /// Lines.
    exported: u64,
    /// Letters that were looked at.
    examined: u64,
    /// Whether it was ended before it was done.
    stopped: bool,
    /// The last letter of which it is known that it was looked at: a later export of what is behind it goes on there.
    last: Option<String>,
    /// Sinks of the filter that neither the configuration has nor a letter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown_sinks: Vec<String>,
}

impl Exported {
    /// Returns the failure, with the way to go on behind it.
    fn go_on(&self, message: &str) -> String {
        let after = self.last.as_ref().map(|last| format!(" with --after {last}")).unwrap_or_default();
        format!("{message}; {} written: to go on, run it again{after}", plural::count(self.exported, "line"))
    }
}

pub(super) async fn run(global: &Global, args: &ExportArgs, out: &mut (dyn Write + Send)) -> Result<(), Failed> {
    let place = args.daemon.place(global)?;
    let mut watch = ProgressLine::start("dead export");
    let mut done =
        Exported { queue: args.request.queue.clone(), last: args.request.after.clone(), ..Exported::default() };
    let mut file = None;
    let mut next = Some(args.request.clone());
    while let Some(request) = next {
        let page = place.call(&request).await.map_err(|error| match done.examined {
            0 => Failed::from(error),
            _ => Failed { message: done.go_on(&error.message), ..Failed::from(error) },
        })?;
        // A file is made once there is something to write, and never over one that holds something already.
        if let Some(path) = args.file.as_ref().filter(|_| file.is_none()) {
            let made = File::create_new(path).map_err(|error| {
                Failed::usage(format!("write {}: {error}; the export makes a new file", path.display()))
            });
            file = Some(made?);
        }
        let lines = page.lines();
        let written = match &mut file {
            Some(file) => file.write_all(&lines),
            None => out.write_all(&lines),
        };
        written.map_err(|error| {
            Failed::runtime(done.go_on(&format!("export dead letters of `{}`: {error}", args.request.queue)))
        })?;
        if done.examined == 0 {
            done.unknown_sinks.clone_from(&page.unknown_sinks);
        }
        done.unknown_sinks.retain(|sink| page.unknown_sinks.contains(sink));
        done.exported += page.dead_letters.len() as u64;
        done.examined += page.examined;
        let last = page.dead_letters.last().and_then(|letter| letter.get("stream_id")?.as_str());
        done.last = page.next.clone().or(last.map(str::to_owned)).or(done.last);
        if page.next.is_none() {
            // Without the end of this export.
            done.last = done.last.and_then(|last| Some(last.split("..").next()?.to_owned()));
        }
        watch.at(Progress {
            done: done.examined,
            of: page.total.map(|left| done.examined.max(left)),
            acted: done.exported,
        });
        next = request.rest(&page);
        if watch.is_stopped() && next.is_some() {
            return Err(Failed::runtime(done.go_on("export dead letters: ended early")));
        }
    }
    drop(watch);
    if file.is_some() {
        answer(global, out, &done, |done| {
            format!("{} of {} written\n", plural::count(done.exported, "dead letter"), done.queue)
        })?;
    }
    unknown_sinks(&done.queue, &done.unknown_sinks).map_or(Ok(()), |problem| Err(Failed::runtime(problem)))
}
