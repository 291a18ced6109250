//! `dead import`: letters of lines of JSON, or of the records of a topic.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::answer::answer;
use crate::failed::Failed;
use crate::global::Global;
use crate::input::standard_input;
use crate::load::load;
use crate::person::actor;
use crate::progress::ProgressLine;
use crate::remote::DaemonArgs;
use delaybridge_ops::Session;
use delaybridge_ops::content::escaped;
use delaybridge_ops::dead::{self, Broken, BrokenFile, Imported, Pace};
use delaybridge_ops::operation::Place;
use delaybridge_ops::plural;

/// Make dead letters of lines of JSON, as `dead export` writes them, or of the records of a dead-letter topic.
///
/// For letters that were purged too early, or that go to another Redis. They get new stream ids. A line that is no letter ends
/// the command; what is before it is imported, and the message says how to go on. With --broken it is written to a file, byte for
/// byte, and the import goes on. A dry run lists all of them.
///
/// With --from-kafka the records that daemons have forwarded to a topic (`dead_letter: { sink, topic }`) come back; records of other
/// queues are counted and passed over. A record of this queue with a broken header is named by its partition and offset, and is
/// treated as a broken line is: --broken writes its headers and its body in base64. They are read up to the end that the topic
/// has now. The offsets are committed, so that a second run adds nothing, and one that was ended goes on. The user of the sink
/// needs READ on the topic and on the group. While a daemon would forward the letters again, the import is refused.
///
/// a line, or a record -> dead
#[derive(Debug, Args)]
#[command(after_help = IMPORT)]
pub struct ImportArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// The file with the lines, or `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "from_kafka")]
    pub file: Option<PathBuf>,
    /// Read the records of this topic in place of lines
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["file", "skip"])]
    pub from_kafka: Option<String>,
    /// The Kafka sink with the brokers; without it, that of the queue's `dead_letter`
    #[arg(long, value_name = "SINK", requires = "from_kafka")]
    pub sink: Option<String>,
    /// The consumer group that keeps the offsets [default: delaybridge-dead-import-QUEUE]
    #[arg(long, value_name = "GROUP", requires = "from_kafka")]
    pub group: Option<String>,
    /// Pass over so many lines: goes on with an import that was ended
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    pub skip: u64,
    /// Add what is no letter to this file, and go on
    #[arg(long, value_name = "FILE")]
    pub broken: Option<PathBuf>,
    /// Only count them; nothing is changed
    #[arg(long)]
    pub dry_run: bool,
    /// At most so many a second: 50, or 50/s
    #[arg(long, value_name = "RATE", value_parser = dead::rate)]
    pub rate: Option<f64>,
    /// The daemon to ask, for lines.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

const IMPORT: &str = "\
Examples:
  delaybridge dead import order_timeout letters.jsonl --dry-run
  delaybridge dead import order_timeout letters.jsonl
  delaybridge dead import order_timeout --from-kafka order.dead --dry-run
  delaybridge dead import order_timeout --from-kafka order.dead --broken broken.jsonl";

pub(super) async fn run(global: &Global, args: &ImportArgs, out: &mut (dyn Write + Send)) -> Result<(), Failed> {
    if let Some(topic) = &args.from_kafka {
        if args.daemon.url.is_some() {
            return Err(Failed::usage(
                "import dead letters: --from-kafka reads the topic itself; run it without --daemon, with the configuration",
            ));
        }
        return from_kafka(global, args, topic, out).await;
    }
    // Required by the arguments.
    let path = args.file.clone().unwrap_or_default();
    let mut lines: Box<dyn BufRead + Send> = match path.to_str() {
        Some("-") => Box::new(BufReader::new(standard_input("lines")?)),
        _ => {
            let file = File::open(&path);
            let file = file.map_err(|error| Failed::usage(format!("read {}: {error}", path.display())))?;
            Box::new(BufReader::new(file))
        }
    };
    let place = args.daemon.place(global)?;
    if let Place::Here(scene) = &place {
        scene.queue(&args.queue).await?;
    }
    let aside = aside(args)?;
    let pace = args.pace();
    let mut watch = ProgressLine::start("dead import");
    let done = delaybridge_ops::import(&place, &args.queue, &mut *lines, args.skip, pace, aside, &mut watch).await?;
    drop(watch);
    imported(global, args, &done, out)?;
    if done.stopped {
        Err(Failed::runtime(format!(
            "import dead letters: ended after {} lines; to go on, run it again with --skip {}",
            done.lines, done.lines
        )))
    } else {
        Ok(())
    }
}

impl ImportArgs {
    fn pace(&self) -> Pace {
        Pace { dry_run: self.dry_run, rate: self.rate }
    }
}

/// Returns the file for what is no letter. A dry run makes none.
fn aside(args: &ImportArgs) -> Result<Option<BrokenFile>, Failed> {
    let Some(path) = args.broken.as_ref().filter(|_| !args.dry_run) else { return Ok(None) };
    let aside = BrokenFile::open(path)?;
    let place = |path: &PathBuf| path.canonicalize().ok();
    match args.file.as_ref().and_then(place) {
        Some(file) if Some(&file) == place(path).as_ref() => Err(Failed::usage(format!(
            "import dead letters: {} is read; name another file with --broken",
            path.display()
        ))),
        _ => Ok(Some(aside)),
    }
}

fn imported(global: &Global, args: &ImportArgs, done: &Imported, out: &mut (dyn Write + Send)) -> Result<(), Failed> {
    answer(global, out, done, |done| summary(done, args.broken.as_deref()))?;
    if done.dry_run && done.broken > 0 && args.broken.is_none() {
        Err(Failed::runtime(
            "import dead letters: an import ends at the first that is no letter; with --broken FILE they are written to a file, and it \
             goes on",
        ))
    } else {
        Ok(())
    }
}

fn summary(done: &Imported, broken: Option<&Path>) -> String {
    let letters = plural::count(done.imported, "dead letter");
    let mut text = if done.dry_run {
        format!("{letters} could be imported to {}; nothing was changed", done.queue)
    } else {
        format!("{letters} imported to {}", done.queue)
    };
    if done.known > 0 {
        text += &format!("; {} there already", plural::count(done.known, "letter"));
    }
    if done.passed > 0 {
        text += &format!("; {} of others passed over", plural::count(done.passed, "record"));
    }
    match broken.filter(|_| !done.dry_run) {
        _ if done.broken == 0 => {}
        Some(path) => text += &format!("; {} broken, written to {}", done.broken, path.display()),
        None => text += &format!("; {} broken", done.broken),
    }
    text.push('\n');
    if done.left > 0 {
        text += &format!(
            "{} had been there before and had left: if a redrive took them, the next one delivers their elements once more\n",
            plural::count(done.left, "letter")
        );
    }
    for Broken { place, problem } in &done.problems {
        text += &format!("  {}: {problem}\n", escaped(place));
    }
    if done.broken > done.problems.len() as u64 {
        text += &format!("  and {} more\n", done.broken - done.problems.len() as u64);
    }
    text
}

async fn from_kafka(
    global: &Global,
    args: &ImportArgs,
    topic: &str,
    out: &mut (dyn Write + Send),
) -> Result<(), Failed> {
    // The sink's secrets are needed here.
    let config = load(global)?.config;
    let place = (topic, args.group.as_deref());
    let session = Session::on_queue(config, &args.queue, &actor()).await?;
    dead::can_go_back(&session.1)?;
    let backlog = dead::open(&session.0.config, &args.queue, args.sink.as_deref(), place).await?;
    let aside = aside(args)?;
    let mut watch = ProgressLine::start("dead import");
    let done = dead::import_from(&session.1, backlog, args.pace(), aside, &mut watch).await;
    let done = if args.dry_run {
        done?
    } else {
        session.1.tell("import", topic, done, |done| plural::count(done.imported, "dead letter")).await?
    };
    drop(watch);
    imported(global, args, &done, out)?;
    if done.stopped {
        Err(Failed::runtime(format!("import dead letters: ended after {}; run it again to go on", done.imported)))
    } else {
        Ok(())
    }
}
