//! Layouts of programs that are in use. A preset only fills in settings: `check` and `config show` print them.

use super::layout::{IdIn, Names, Place, Status, StatusAt, Wanted};
use super::record::Format;
use delaybridge_ledger::score::Unit;
use delaybridge_settings::keys::{Word, now};
use delaybridge_settings::words::Words;

/// The settings that a preset fills in.
#[derive(Debug, Clone)]
pub struct Preset {
    /// Buckets.
    pub buckets: Vec<String>,
    /// Unit of their scores.
    pub score: Unit,
    /// The way in which ids are read.
    pub id: IdIn,
    /// The place of the jobs.
    pub place: Place,
    /// A hash with a field for each id that is of no use without the job.
    pub beside: Option<String>,
    /// Keys that are of no use without the job: patterns with the id in them.
    pub also: Vec<String>,
    /// The way in which names are written.
    pub names: Names,
    /// The format of the jobs.
    pub record: Format,
    /// The fields that are read of a job.
    pub wanted: Wanted,
    /// The status that is written.
    pub status: Option<Box<Status>>,
}

/// A preset's name in the configuration, what `name` is there if it is left out, and what it fills in.
pub type Named = (&'static str, &'static str, fn(&str) -> Preset);

/// Every preset.
pub const PRESETS: [Named; 8] = [
    ("ouqiang", "dq_bucket_", ouqiang),
    ("ice", "default", ice),
    ("yii2", "queue", yii2),
    ("hdt3213", "", hdt3213),
    ("youzan", "bucket", youzan),
    ("youzan_json", "bucket", youzan_json),
    ("bullmq", "", bullmq),
    ("asynq", "default", asynq),
];

/// The presets as words of the configuration.
pub(super) enum Presets {}

impl Words for Presets {
    type Value = Named;
    const WORDS: &'static [Word] = &{
        let mut all = [now(""); PRESETS.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = now(PRESETS[at].0);
            at += 1;
        }
        all
    };
    const VALUES: &'static [(&'static str, Named)] = &{
        let mut all = [("", PRESETS[0]); PRESETS.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = (PRESETS[at].0, PRESETS[at]);
            at += 1;
        }
        all
    };
}

/// Buckets of programs that number them, if the user of the program does not say how many.
const BUCKETS: u64 = 3;

fn numbered(prefix: &str, from: u64, count: u64) -> Vec<String> {
    (from..from + count).map(|number| format!("{prefix}{number}")).collect()
}

/// Returns the buckets of a preset, as many as `count`, where its program numbers them.
pub fn buckets(preset: &str, name: &str, count: u64) -> Option<Vec<String>> {
    match preset {
        "ouqiang" => Some(numbered(name, 1, count)),
        "ice" => Some(numbered("ice:bucket", 0, count).into_iter().map(|key| of_instance(key, name)).collect()),
        "youzan" | "youzan_json" => Some(numbered(name, 0, count)),
        _ => None,
    }
}

/// Returns a key of an instance of Ice.
fn of_instance(key: String, name: &str) -> String {
    if name == "default" { key } else { format!("{key}:{name}") }
}

fn wanted(body: &str, topic: Option<&str>) -> Wanted {
    Wanted { body: Some(body.to_owned()), topic: topic.map(str::to_owned), ..Wanted::default() }
}

/// Returns the wanted fields of a program whose jobs say how often they are tried again.
fn tried(body: &str, topic: &str, retries: &str) -> Wanted {
    Wanted { retries: Some(retries.to_owned()), ..wanted(body, Some(topic)) }
}

/// Returns the status of jobs as Youzan's design has it.
fn states() -> Option<Box<Status>> {
    let at = StatusAt::Record("status".to_owned());
    Some(Box::new(Status { at, reserved: "RESERVED".to_owned(), delay: "DELAY".to_owned() }))
}

/// Creates the preset of ouqiang/delay-queue: `bucket_name` and `bucket_size` of its configuration make the buckets.
fn ouqiang(name: &str) -> Preset {
    Preset {
        buckets: numbered(name, 1, BUCKETS),
        score: Unit::Seconds,
        id: IdIn::Member,
        place: Place::Value("{id}".to_owned()),
        beside: None,
        also: Vec::new(),
        names: Names::Plain,
        record: Format::Msgpack,
        wanted: Wanted { due: Some(("3".to_owned(), Unit::Seconds)), ..wanted("5", Some("1")) },
        status: None,
    }
}

/// Creates the preset of Milkomeda's Ice: `name` is `ice.instance-name`. The member has the number of retries behind
/// the id.
fn ice(name: &str) -> Preset {
    Preset {
        buckets: numbered("ice:bucket", 0, BUCKETS).into_iter().map(|key| of_instance(key, name)).collect(),
        score: Unit::Millis,
        id: IdIn::Before("#".to_owned()),
        place: Place::Shared(of_instance("ice:job_pool".to_owned(), name)),
        beside: None,
        also: Vec::new(),
        names: Names::Plain,
        record: Format::Json,
        wanted: tried("body", "topic", "retryCount"),
        status: states(),
    }
}

/// Creates the preset of yii2-queue with its Redis driver: `name` is its `channel`.
fn yii2(name: &str) -> Preset {
    Preset {
        buckets: vec![format!("{name}.delayed")],
        score: Unit::Seconds,
        id: IdIn::Member,
        place: Place::Shared(format!("{name}.messages")),
        beside: None,
        also: Vec::new(),
        names: Names::Plain,
        record: Format::Ttr,
        wanted: wanted("body", None),
        status: None,
    }
}

/// Creates the preset of HDT3213/delayqueue: `name` is the queue's, in braces with `UseHashTagKey`: `{dp:NAME}`.
fn hdt3213(name: &str) -> Preset {
    let prefix = if name.starts_with('{') { name.to_owned() } else { format!("dp:{name}") };
    Preset {
        buckets: vec![format!("{prefix}:pending")],
        score: Unit::Seconds,
        id: IdIn::Member,
        place: Place::Value(format!("{prefix}:msg:{{id}}")),
        beside: Some(format!("{prefix}:retry:cnt")),
        also: Vec::new(),
        names: Names::Plain,
        record: Format::Raw,
        wanted: Wanted::default(),
        status: None,
    }
}

/// Creates the preset of a port of Youzan's design with a Spring `RedisTemplate` that has no serializers configured.
fn youzan(name: &str) -> Preset {
    Preset {
        buckets: numbered(name, 0, BUCKETS),
        score: Unit::Millis,
        id: IdIn::Field(Format::Java, "jodId".to_owned()),
        place: Place::Shared("job.pool".to_owned()),
        beside: None,
        also: Vec::new(),
        names: Names::Java,
        record: Format::Java,
        wanted: tried("message", "topic", "retryCount"),
        status: states(),
    }
}

/// Creates the preset of Youzan's design with serializers for text and JSON.
fn youzan_json(name: &str) -> Preset {
    Preset {
        id: IdIn::Field(Format::Json, "jodId".to_owned()),
        names: Names::Plain,
        record: Format::Json,
        ..youzan(name)
    }
}

/// Creates the preset of BullMQ, and Bull from version 3 on: `name` is the queue's.
fn bullmq(name: &str) -> Preset {
    bullmq_with(BULL, name)
}

/// The prefix of BullMQ's queues that have no other.
const BULL: &str = "bull";

/// Creates the preset of BullMQ, with the `prefix` of its queues.
pub fn bullmq_with(prefix: &str, name: &str) -> Preset {
    let job = format!("{prefix}:{name}:{{id}}");
    Preset {
        buckets: vec![format!("{prefix}:{name}:delayed")],
        score: Unit::Millis4096,
        id: IdIn::Member,
        beside: None,
        // As its own `removeJobKeys.lua`.
        also: ["logs", "dependencies", "processed", "failed", "unsuccessful"]
            .map(|part| format!("{job}:{part}"))
            .into(),
        place: Place::Own(job, "data".to_owned()),
        names: Names::Plain,
        record: Format::Raw,
        wanted: Wanted::default(),
        status: None,
    }
}

/// Returns the status of asynq's tasks, which is beside the message in the hash of a task.
fn asynq_states() -> Status {
    let at = StatusAt::Hash("state".to_owned());
    Status { at, reserved: "active".to_owned(), delay: "scheduled".to_owned() }
}

/// Creates the preset of asynq: `name` is the queue's.
fn asynq(name: &str) -> Preset {
    Preset {
        buckets: vec![format!("asynq:{{{name}}}:scheduled"), format!("asynq:{{{name}}}:retry")],
        score: Unit::Seconds,
        id: IdIn::Member,
        place: Place::Own(format!("asynq:{{{name}}}:t:{{id}}"), "msg".to_owned()),
        beside: None,
        also: Vec::new(),
        names: Names::Plain,
        record: Format::Protobuf,
        wanted: Wanted { left_out: true, ..tried("2", "1", "5") },
        status: Some(Box::new(asynq_states())),
    }
}
