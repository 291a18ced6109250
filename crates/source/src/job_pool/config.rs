//! The keys of `queues.NAME.source.job_pool`, and the pool that they describe.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::layout::{ID, IdIn, Layout, Names, Place, Status, StatusAt, Wanted};
use super::preset::{Named, PRESETS, Preset, Presets, buckets, bullmq_with};
use super::record::Format;
use super::write::Program;
use crate::config::{RESERVED_KEYS, SourceConfig, SourceKind, SourceSettings};
use delaybridge_ledger::score::Unit;
use delaybridge_link::{KeySpace, hashed};
use delaybridge_settings::Settings;
use delaybridge_settings::keys::{Key, Kind, key};
use delaybridge_settings::problem::{Report, Spot};
use delaybridge_settings::reader::{Scalar, Section};
use delaybridge_settings::words::{Words as _, words};

/// A pool of jobs: sorted sets with ids, and the jobs in other keys.
#[derive(Settings)]
#[settings(job_pool, at = "queues.NAME.source.job_pool", hidden)]
struct PoolKeys {
    /// All other keys of a program, unless they are set.
    #[key(word::<Presets>(), read = Section::one_of::<Presets>)]
    preset: Option<Named>,
    /// With `preset`: the prefix of a bucket's number of `ouqiang` (`dq_bucket_`) and `youzan` (`bucket`), the instance of
    /// `ice` (`default`), the channel of `yii2` (`queue`), the queue of `hdt3213` and `bullmq` (required) and `asynq`
    /// (`default`).
    #[key(Kind::Text)]
    name: Option<String>,
    /// With `preset: bullmq`: the `prefix` of its queues (`bull`).
    #[key(Kind::Text)]
    prefix: Option<String>,
    /// With `preset: youzan`: the serializers of its `RedisTemplate`. `java`: none are configured. `string`, `json`: names
    /// are text, jobs are JSON, as in `youzan_json`.
    #[key(word::<Serializers>(), read = Section::one_of::<Serializers>)]
    serializer: Option<&'static str>,
    /// Sorted sets with the due times, or their number if the preset numbers them (`ouqiang`, `ice`, `youzan`). The first
    /// names the queue in Redis.
    #[key(Kind::TextsOrCount { max: BUCKETS_MAX as u64 }, read = Section::texts_or_count)]
    buckets: Result<Vec<Scalar>, u64>,
    /// Unit of the scores, since 1970. `s` may have a fraction.
    #[key(word::<Unit>())]
    score: Option<Unit>,
    /// The id in a member: `member` (all of it), `behind:TEXT` (after this prefix), `before:TEXT` (before the first such
    /// text), or `json:FIELD`, `msgpack:FIELD`, `java:FIELD` of a record.
    #[key(Kind::Text)]
    id: Option<Scalar>,
    /// The key of the job with an id.
    #[key(Kind::Section(&job::TABLE))]
    job: Option<JobKeys>,
    /// Format and fields of a job.
    #[key(Kind::Section(&record::TABLE))]
    record: Option<RecordKeys>,
    /// The status of a job, if its program keeps one, written when the daemon claims the job and when it goes back.
    #[key(Kind::Section(&status::TABLE))]
    status: Option<StatusKeys>,
    /// Names of keys and fields as text, or as Java objects, as of a `RedisTemplate` without configured serializers.
    #[key(word::<Names>())]
    names: Option<Names>,
    /// Lists of ready jobs, which are claimed too. If omitted, they are left to the program's consumers.
    #[key(Kind::Texts)]
    ready: Option<Vec<String>>,
    /// A due id without a job is removed and counted, or becomes a dead letter.
    #[key(words = BuriesMissing, default = "drop")]
    on_missing_body: bool,
}

/// One of `string`, `hash` and `own_hash`. `{id}` stands for the id.
#[derive(Settings)]
#[settings(job, at = "queues.NAME.source.job_pool.job", hidden)]
struct JobKeys {
    #[settings(read = Section::place)]
    place: Spot,
    /// A string for each job: its key, as `job:{id}`.
    #[key(Kind::Text)]
    string: Option<String>,
    /// One hash for all jobs: its key. The id is the field.
    #[key(Kind::Text)]
    hash: Option<String>,
    /// A hash for each job: its key. It is removed with the job.
    #[key(Kind::Text)]
    own_hash: Option<String>,
    /// With `own_hash`: the field with the body.
    #[key(Kind::Text)]
    field: Option<String>,
    /// A hash with a field for each id, which is removed with the job.
    #[key(Kind::Text)]
    beside: Option<String>,
    /// Other keys of a job, with `{id}`, which are removed with it.
    #[key(Kind::Texts)]
    also: Option<Vec<String>>,
}

/// Format of a job, and the fields that are read.
#[derive(Settings)]
#[settings(record, at = "queues.NAME.source.job_pool.record", hidden)]
struct RecordKeys {
    /// `raw`: all is the body. `ttr`: `TTR;BODY`, with the fields `ttr` and `body`. The others have named fields,
    /// `protobuf` numbers.
    #[key(word::<Format>())]
    format: Option<Format>,
    /// The field that is delivered. Default: the whole job.
    #[key(Kind::Text)]
    body: Option<String>,
    /// The field with the topic, for `${topic}` in templates.
    #[key(Kind::Text)]
    topic: Option<String>,
    /// The field with the job's number of retries; after the last one it is a dead letter, whatever `max_attempts`
    /// allows.
    #[key(Kind::Text)]
    retries: Option<String>,
    /// The field with the due time. If that is ahead, the job goes back to the first bucket.
    #[key(Kind::Text)]
    due: Option<String>,
    /// With `due`: the unit.
    #[key(word::<Unit>(), default = "s")]
    due_unit: Unit,
}

/// One of `field` and `hash_field`, and the two texts.
#[derive(Settings)]
#[settings(status, at = "queues.NAME.source.job_pool.status", hidden)]
struct StatusKeys {
    #[settings(read = Section::place)]
    place: Spot,
    /// The record's field with the status, a text or the constant of an enum. For `json`, `msgpack` and `java`.
    #[key(Kind::Text)]
    field: Option<Scalar>,
    /// With `own_hash`: the field of the job's hash with the status.
    #[key(Kind::Text)]
    hash_field: Option<Scalar>,
    /// The status of a job that the daemon has claimed.
    #[key(Kind::Text, required)]
    reserved: Option<String>,
    /// The status of a job that waits in a bucket.
    #[key(Kind::Text, required)]
    delay: Option<String>,
}

pub(crate) static KIND: SourceKind = SourceKind {
    key: key(
        "job_pool",
        Kind::Section(&job_pool::TABLE),
        "A pool of jobs: ids by due time, and the jobs in other keys.",
    ),
    tables: &[&job_pool::TABLE, &job::TABLE, &record::TABLE, &status::TABLE],
    read,
    metric_names: None,
    recognise: |_| None,
};

words! {
    /// The serializers of Youzan's design, each with its preset.
    list Serializers of &'static str { "java" => "youzan", "string" => "youzan_json", "json" => "youzan_json" }
}

words! {
    /// Whether a due id without a job becomes a dead letter.
    list BuriesMissing of bool { "drop" => false, "dead_letter" => true }
}

/// A pool of jobs.
#[derive(Debug, Clone)]
pub struct JobPoolSpec {
    /// Buckets: at least one.
    pub buckets: Vec<String>,
    /// Unit of their scores.
    pub score: Unit,
    /// The way in which ids and jobs are read.
    pub layout: Layout,
    /// A hash with a field for each id that goes with its job.
    pub beside: Option<String>,
    /// Keys that go with their job: patterns with the id in them.
    pub also: Vec<String>,
    /// Lists that are drained.
    pub ready: Vec<String>,
    /// A due id without a job is a dead letter.
    pub buries_missing: bool,
    /// The program that has written the jobs, if all of their layout is a preset's.
    pub program: Option<Program>,
    /// The names of our keys and channels in its Redis.
    pub space: KeySpace,
}

impl JobPoolSpec {
    /// Creates a pool with this layout, which nothing else is known of.
    pub fn of(preset: Preset) -> Self {
        let Preset { buckets, score, id, place, beside, also, names, record, wanted, status } = preset;
        let layout = Layout { id, place, names, record, wanted, status };
        JobPoolSpec {
            buckets,
            score,
            layout,
            beside,
            also,
            ready: Vec::new(),
            buries_missing: false,
            program: None,
            space: KeySpace::default(),
        }
    }

    /// Returns the first bucket, which names the queue.
    pub(crate) fn first_bucket(&self) -> &str {
        self.buckets.first().map_or("", String::as_str)
    }

    /// Returns the keys that lie on several slots of Redis Cluster, with why scripts cannot reach them there; `None` if
    /// it works.
    pub fn why_not_in_cluster(&self) -> Option<String> {
        let jobs = match &self.layout.place {
            Place::Value(key) | Place::Shared(key) | Place::Own(key, _) => key,
        };
        let keys = self.buckets.iter().chain(&self.ready).chain([jobs]).chain(&self.beside).chain(&self.also);
        // Two ids show whether the id decides.
        let named = keys.flat_map(|key| ["1", "2"].map(|id| key.replace(ID, id)));
        let slots: BTreeSet<String> = named.map(|key| hashed(&key).to_owned()).collect();
        (slots.len() > 1).then(|| {
            "the keys of the pool share no hash tag: one script cannot reach all of them in Redis Cluster".to_owned()
        })
    }

    /// Returns the settings in effect.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        let Layout { id, place, names, record, wanted, status } = &self.layout;
        let mut job = match place {
            Place::Value(pattern) => json!({ "string": pattern }),
            Place::Shared(key) => json!({ "hash": key }),
            Place::Own(pattern, field) => json!({ "own_hash": pattern, "field": field }),
        };
        if let Some(beside) = &self.beside {
            job["beside"] = beside.clone().into();
        }
        if !self.also.is_empty() {
            job["also"] = self.also.clone().into();
        }
        let mut shown = json!({
            "buckets": self.buckets,
            "score": self.score.as_str(),
            "id": word_of(id),
            "job": job,
            "record": { "format": record.as_str() },
            "names": names.as_str(),
            "on_missing_body": BuriesMissing::text(self.buries_missing),
        });
        for (key, field) in [("body", &wanted.body), ("topic", &wanted.topic), ("retries", &wanted.retries)] {
            if let Some(field) = field {
                shown["record"][key] = field.clone().into();
            }
        }
        if let Some((field, unit)) = &wanted.due {
            shown["record"]["due"] = field.clone().into();
            shown["record"]["due_unit"] = unit.as_str().into();
        }
        if let Some(Status { at, reserved, delay }) = status.as_deref() {
            let (key, field) = match at {
                StatusAt::Record(field) => ("field", field),
                StatusAt::Hash(field) => ("hash_field", field),
            };
            shown["status"] = json!({ key: field, "reserved": reserved, "delay": delay });
        }
        if !self.ready.is_empty() {
            shown["ready"] = self.ready.clone().into();
        }
        match shown {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

fn word_of(id: &IdIn) -> String {
    match id {
        IdIn::Member => "member".to_owned(),
        IdIn::Behind(text) => format!("behind:{text}"),
        IdIn::Before(text) => format!("before:{text}"),
        IdIn::Field(format, field) => format!("{}:{field}", format.as_str()),
    }
}

fn id_of(text: &str) -> Option<IdIn> {
    if text == "member" {
        return Some(IdIn::Member);
    }
    let (how, rest) = text.split_once(':').filter(|(_, rest)| !rest.is_empty())?;
    let rest = rest.to_owned();
    Some(match how {
        "behind" => IdIn::Behind(rest),
        "before" => IdIn::Before(rest),
        "json" => IdIn::Field(Format::Json, rest),
        "msgpack" => IdIn::Field(Format::Msgpack, rest),
        "java" => IdIn::Field(Format::Java, rest),
        _ => return None,
    })
}

pub(crate) fn read(section: &Section<'_>) -> SourceSettings {
    let report = &section.cx.report;
    let keys = PoolKeys::of(section);
    let named = with_serializer(section, keys.preset, keys.serializer);
    if named.is_none() && section.has(&job_pool::NAME) {
        let message = "`name` has no effect without a `preset` that makes keys of it";
        report.problem(&section.spot(&job_pool::NAME), message, "write the keys themselves: `buckets` and `job`");
    }
    if section.has(&job_pool::PREFIX) && !matches!(named, Some(("bullmq", ..))) {
        let message = "`prefix` has no effect without `preset: bullmq`";
        report.problem(&section.spot(&job_pool::PREFIX), message, "write the keys themselves: `buckets` and `job`");
    }
    let mut program = None;
    let preset = named.map(|(word, default, fill)| {
        let name = keys.name.unwrap_or_else(|| default.to_owned());
        if name.is_empty() {
            report.problem(
                &section.spot,
                format!("`name` is missing: preset `{word}` makes its keys of it"),
                job_pool::NAME.help,
            );
        }
        let preset = match &keys.prefix {
            Some(prefix) if word == "bullmq" => bullmq_with(prefix, &name),
            _ => fill(&name),
        };
        program = Some(Program { preset: word, name });
        preset
    });
    let required = |key: &Key| {
        if preset.is_none() && !section.has(key) && !section.empty {
            report.problem(&section.spot, format!("`{}` is missing", key.name), key.help);
        }
    };
    [&job_pool::BUCKETS, &job_pool::SCORE, &job_pool::ID, &job_pool::JOB].into_iter().for_each(required);
    let mut spec = JobPoolSpec::of(preset.unwrap_or_else(nothing));
    match keys.buckets {
        Ok(written) if written.is_empty() => {}
        Ok(written) => spec.buckets = written.into_iter().map(|text| text.value).collect(),
        Err(count) => match program.as_ref().and_then(|of| buckets(of.preset, &of.name, count)) {
            Some(all) => spec.buckets = all,
            None => {
                let help = "write their keys, as `buckets: [orders0, orders1]`";
                report.problem(&section.spot(&job_pool::BUCKETS), "the buckets have no numbers here", help);
            }
        },
    }
    let of_its_own = [&job_pool::ID, &job_pool::RECORD, &job_pool::NAMES].into_iter().any(|key| section.has(key));
    spec.program = program.filter(|_| !of_its_own);
    spec.score = keys.score.unwrap_or(spec.score);
    if let Some(scalar) = keys.id {
        match id_of(&scalar.value) {
            Some(id) => spec.layout.id = id,
            None => {
                report.problem(&scalar.spot, format!("`{}` is no way to read an id", scalar.written), job_pool::ID.help)
            }
        }
    }
    if let Some(written) = keys.job {
        job_of(written, &mut spec, report);
    }
    if let Some(written) = keys.record {
        record_of(written, &mut spec);
    }
    if let Some(written) = keys.status {
        status_of(written, &mut spec, report);
    }
    spec.layout.names = keys.names.unwrap_or(spec.layout.names);
    spec.ready = keys.ready.unwrap_or(spec.ready);
    spec.buries_missing = keys.on_missing_body;
    let name_spot =
        if section.has(&job_pool::BUCKETS) { section.spot(&job_pool::BUCKETS) } else { section.spot(&job_pool::NAME) };
    check(section, &spec, &name_spot);
    SourceSettings { config: Arc::new(SourceConfig::JobPool(Box::new(spec))), name_spot, rescue_only: Vec::new() }
}

/// Replaces the preset of Youzan's design by the one for another serializer.
fn with_serializer(section: &Section<'_>, named: Option<Named>, serializer: Option<&'static str>) -> Option<Named> {
    let Some(preset) = serializer else { return named };
    if !matches!(named, Some(("youzan" | "youzan_json", ..))) {
        let message = "`serializer` has no effect without `preset: youzan`";
        section.cx.report.problem(&section.spot(&job_pool::SERIALIZER), message, job_pool::SERIALIZER.help);
        return named;
    }
    PRESETS.into_iter().find(|(word, ..)| *word == preset)
}

/// Most buckets: each is looked at by every claim.
const BUCKETS_MAX: usize = 128;

fn check(section: &Section<'_>, spec: &JobPoolSpec, spot: &Spot) {
    let report = &section.cx.report;
    let keys: Vec<&String> = spec.buckets.iter().chain(&spec.ready).collect();
    if keys.iter().collect::<BTreeSet<_>>().len() < keys.len() {
        report.problem(spot, "a bucket or ready list is there twice", "write each key once");
    }
    if spec.buckets.len() > BUCKETS_MAX {
        report.problem(spot, format!("{} buckets, at most {BUCKETS_MAX} fit", spec.buckets.len()), "split the pool");
    }
    if keys.iter().any(|key| RESERVED_KEYS.iter().any(|reserved| key.starts_with(reserved))) {
        report.problem(
            spot,
            "a bucket is among the keys of delayed queues",
            "a queue of Redisson is written `redisson: { name: NAME }`",
        );
    }
    if let Some(key) = keys.iter().find(|key| spec.layout.name(key).is_none()) {
        report.problem(
            spot,
            format!("`{key}` cannot be written as a Java string here"),
            "use letters of any language, and no NUL",
        );
    }
    if spec.layout.record == Format::Raw && spec.layout.wanted != Wanted::default() {
        let help = "write the `format` that has these fields, or remove them";
        report.problem(&section.spot(&job_pool::RECORD), "a `raw` record has no fields", help);
    }
    if let Place::Value(pattern) | Place::Own(pattern, _) = &spec.layout.place
        && pattern == ID
    {
        report.warning(
            spot,
            "the jobs are under their bare ids: the daemon's user needs rights on ALL keys of the server, in every database",
            "give the pool a Redis of its own; rights of Redis know no databases",
        );
    }
    if let Some(why) = spec.why_not_in_cluster() {
        report.warning(spot, why, "it works on a single Redis, with replicas and Sentinel");
    }
}

/// Creates the preset of a queue without a preset; what is missing is reported.
fn nothing() -> Preset {
    Preset {
        buckets: Vec::new(),
        score: Unit::Millis,
        id: IdIn::Member,
        place: Place::Shared(String::new()),
        beside: None,
        also: Vec::new(),
        names: Names::Plain,
        record: Format::Raw,
        wanted: Wanted::default(),
        status: None,
    }
}

fn job_of(keys: JobKeys, spec: &mut JobPoolSpec, report: &Report) {
    let JobKeys { place, string, hash, own_hash, field, beside, also } = keys;
    let written = [string, hash, own_hash];
    let patterns = [&written[0], &written[2]];
    if patterns.into_iter().flatten().chain(also.iter().flatten()).any(|pattern| pattern.matches(ID).count() != 1) {
        report.problem(&place, "the pattern of a key needs `{id}` once", "write for example `job:{id}`");
    }
    if field.is_some() != written[2].is_some() {
        report.problem(&place, "`own_hash` and `field` belong together", job::FIELD.help);
    }
    spec.beside = beside.or(spec.beside.take());
    if let Some(also) = also {
        spec.also = also;
    }
    spec.layout.place = match written {
        [Some(pattern), None, None] => Place::Value(pattern),
        [None, Some(key), None] => Place::Shared(key),
        [None, None, Some(pattern)] => Place::Own(pattern, field.unwrap_or_default()),
        _ => {
            report.problem(&place, "a job is in one place", "write one of `string`, `hash` and `own_hash`");
            return;
        }
    };
}

fn record_of(keys: RecordKeys, spec: &mut JobPoolSpec) {
    let RecordKeys { format, body, topic, retries, due, due_unit } = keys;
    if let Some(format) = format {
        (spec.layout.record, spec.layout.wanted, spec.layout.status) = (format, Wanted::default(), None);
    }
    let wanted = &mut spec.layout.wanted;
    // Another field than the preset's may be a mistake.
    wanted.left_out &= body.is_none() && retries.is_none();
    wanted.body = body.or(wanted.body.take());
    wanted.topic = topic.or(wanted.topic.take());
    wanted.retries = retries.or(wanted.retries.take());
    wanted.due = due.map(|due| (due, due_unit)).or(wanted.due.take());
}

fn status_of(keys: StatusKeys, spec: &mut JobPoolSpec, report: &Report) {
    let layout = &mut spec.layout;
    let StatusKeys { place, field, hash_field, reserved, delay } = keys;
    let (at, spot) = match (field, hash_field) {
        (Some(field), None) => (StatusAt::Record(field.value), field.spot),
        (None, Some(field)) => (StatusAt::Hash(field.value), field.spot),
        _ => {
            report.problem(&place, "a status is in one place", "write one of `field` and `hash_field`");
            return;
        }
    };
    match (&at, layout.record, &layout.place) {
        (StatusAt::Record(_), Format::Raw | Format::Ttr | Format::Protobuf, _) => {
            let message = format!("no status can be written into a record of `{}`", layout.record.as_str());
            report.problem(&spot, message, status::FIELD.help);
        }
        (StatusAt::Hash(_), _, Place::Value(_) | Place::Shared(_)) => {
            let message = "`hash_field` is a field of a job's own hash, and the jobs have none";
            report.problem(&spot, message, "write `field`, or `job: { own_hash: ... }`");
        }
        _ => {}
    }
    if let (Some(reserved), Some(delay)) = (reserved, delay) {
        layout.status = Some(Box::new(Status { at, reserved, delay }));
    }
}
