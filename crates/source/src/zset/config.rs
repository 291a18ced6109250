//! The keys of `queues.NAME.source.zset`, and the queue that they describe.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use super::identity::Naming;
use super::keys::tag;
use crate::config::{RESERVED_KEYS, SourceConfig, SourceKind, SourceSettings, works_in_cluster};
use delaybridge_core::template::Template;
use delaybridge_ledger::score::Unit;
use delaybridge_link::KeySpace;
use delaybridge_settings::keys::{Key, Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::{word, words};
use delaybridge_settings::{Settings, shown};

pub(crate) static KIND: SourceKind = SourceKind {
    key: key("zset", Kind::Section(&zset::TABLE), "A sorted set with the payloads as members."),
    tables: &[&zset::TABLE],
    read,
    metric_names: None,
    recognise: |_| None,
};

/// A sorted set whose members are the payloads and whose scores are the due times. Identical members are one: a second
/// `ZADD` only changes its score.
#[derive(Debug, Clone, Settings)]
#[settings(zset, at = "queues.NAME.source.zset")]
pub struct ZsetSpec {
    /// Key of the set. Required without `preset`.
    #[key(Kind::Text, later = String::new())]
    pub key: String,
    /// Unit of the scores, since 1970. `s` may have a fraction; `ms*4096` has a counter in the lower 12 bits. Required
    /// without `preset`.
    #[key(word::<Unit>(), later = Unit::Millis)]
    pub score: Unit,
    /// Id of an element: a hash of member and score, or for members in JSON a template such as `${payload.jid}`. A
    /// result that is not 1 to 256 visible ASCII characters gives way to the hash.
    #[key(Kind::Template, default = "hash", later = Naming::Hash, show = shown::value)]
    pub id: Naming,
    /// The payload: the whole member, or for members in JSON a template such as `${payload.data}`; a member that cannot
    /// fill it is a dead letter.
    #[key(Kind::Template, default = "member", read = body, show = shown::value)]
    pub body: Body,
    /// The bytes of a key that is no text. Then `key` is `base64:` and the text of `key_base64`.
    #[settings(keys(KEY_BASE64), later = None)]
    pub bytes: Option<Bytes>,
    /// The names of our keys and channels in its Redis. The number of the database is in the channel of its changes.
    #[settings(keys(PRESET, NAME, PREFIX), later = KeySpace::default())]
    pub space: KeySpace,
}

const KEY_BASE64: Key = key(
    "key_base64",
    Kind::Text,
    "In place of `key`: its bytes in base64, as of Java's serialisation by Spring's `RedisTemplate` (`rO0ABX...`). Not in a cluster.",
);
const PRESET: Key = key(
    "preset",
    word::<Presets>(),
    "`key`, `score` and `id` of a program, unless they are set. `laravel`: `queues:NAME:delayed`, s, `${payload.uuid}`. `sidekiq`: `schedule`, s, `${payload.jid}`. `hyperf`: `NAME:delayed`, s, hash. `machinery`: `delayed_tasks`, ns, `${payload.UUID}`.",
);
const NAME: Key = key(
    "name",
    Kind::Text,
    "With `preset`: Laravel's queue (`default`), `schedule` or `retry` of Sidekiq, Hyperf's channel (`{queue}`), Machinery's set (`delayed_tasks`).",
);
const PREFIX: Key =
    key("prefix", Kind::Text, "With `preset`: prefix of that program's keys, such as `laravel_database_`.");

/// The part of a member that is delivered.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Body {
    /// All of it.
    #[serde(serialize_with = "member")]
    Member,
    /// A text of the payload.
    Text(Template),
}

fn member<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("member")
}

/// The keys and scores of a program.
struct Preset {
    /// The texts before and behind the name in the key.
    around: [&'static str; 2],
    name: &'static str,
    score: Unit,
    id: &'static str,
}

const LARAVEL: Preset =
    Preset { around: ["queues:", ":delayed"], name: "default", score: Unit::Seconds, id: "${payload.uuid}" };
const SIDEKIQ: Preset = Preset { around: ["", ""], name: "schedule", score: Unit::Seconds, id: "${payload.jid}" };
const HYPERF: Preset = Preset { around: ["", ":delayed"], name: "{queue}", score: Unit::Seconds, id: "hash" };
const MACHINERY: Preset = Preset { around: ["", ""], name: "delayed_tasks", score: Unit::Nanos, id: "${payload.UUID}" };

words! {
    /// The programs.
    list Presets of &'static Preset {
        "laravel" => &LARAVEL,
        "sidekiq" => &SIDEKIQ,
        "hyperf" => &HYPERF,
        "machinery" => &MACHINERY,
    }
}

pub(crate) fn read(section: &Section<'_>) -> SourceSettings {
    let report = &section.cx.report;
    let preset = section.one_of::<Presets>(&PRESET);
    let text = |key: &Key| section.text(key).map(|text| text.value);
    let written = text(&zset::KEY);
    let name = text(&NAME);
    let prefix = text(&PREFIX);
    for key in [&NAME, &PREFIX].into_iter().filter(|key| section.has(key)) {
        if preset.is_none() || section.has(&zset::KEY) {
            let message = format!("`{}` has no effect without a `preset` that makes the key of it", key.name);
            report.problem(&section.spot(key), message, "write the whole key as `key`, or remove `key`");
        }
    }
    let made = |preset: &Preset| {
        let [before, after] = preset.around;
        let name = name.as_deref().unwrap_or(preset.name);
        format!("{}{before}{name}{after}", prefix.as_deref().unwrap_or_default())
    };
    let bytes = in_base64(section);
    if let Some(text) = &written
        && is_bytes(text)
    {
        report.problem(
            &section.spot(&zset::KEY),
            "the key looks like bytes that are no text, and would be written as UTF-8",
            "write them as `key_base64`",
        );
    }
    let key = match section.text(&KEY_BASE64).filter(|_| bytes.is_some()) {
        Some(text) => format!("base64:{}", text.value),
        None => written.or_else(|| preset.map(made)).unwrap_or_default(),
    };
    let written_as = [&zset::KEY, &KEY_BASE64].into_iter().find(|key| section.has(key));
    let name_spot = section.spot(written_as.unwrap_or(&NAME));
    let required = |key: &Key| {
        if !section.empty && preset.is_none() && !section.has(key) {
            report.problem(&section.spot, format!("`{}` is missing", key.name), key.help);
        }
    };
    if bytes.is_none() && !section.has(&KEY_BASE64) {
        required(&zset::KEY);
    }
    required(&zset::SCORE);
    if RESERVED_KEYS.iter().any(|reserved| key.starts_with(reserved)) {
        let help = "a queue of Redisson is written `redisson: { name: NAME }`";
        report.problem(&name_spot, format!("`{key}` is among the keys of delayed queues"), help);
    } else if bytes.is_some() {
        let message = "the daemon's own keys are in another slot of a Redis Cluster";
        let help = "it works on a single Redis";
        report.warning(&section.spot(&KEY_BASE64), message, help);
    } else if !key.is_empty() && !works_in_cluster(&key, &tag(&key)) {
        let help = "it works on a single Redis; a key with one whole `{tag}`, or without braces, works everywhere";
        report.warning(&name_spot, "the braces in the key spread the queue's keys over Redis Cluster", help);
    }
    let id = match template(section, &zset::ID, "hash") {
        Some(template) => Naming::Text(template),
        None if section.has(&zset::ID) => Naming::Hash,
        // The texts of presets are templates, as a test shows.
        None => match preset.filter(|preset| preset.id != "hash").map(|preset| Template::compile(preset.id)) {
            Some(Ok(template)) => Naming::Text(template),
            _ => Naming::Hash,
        },
    };
    let score = section.one_of::<Unit>(&zset::SCORE).or(preset.map(|preset| preset.score));
    let spec = ZsetSpec { key, score: score.unwrap_or(Unit::Millis), id, bytes, ..ZsetSpec::of(section) };
    SourceSettings { config: Arc::new(SourceConfig::Zset(Box::new(spec))), name_spot, rescue_only: Vec::new() }
}

fn in_base64(section: &Section<'_>) -> Option<Bytes> {
    let written = section.text(&KEY_BASE64)?;
    let spot = section.spot(&KEY_BASE64);
    if section.has(&zset::KEY) || section.has(&PRESET) {
        section.cx.report.problem(&spot, "the key is there twice", "remove `key` and `preset`, or `key_base64`");
    }
    match STANDARD.decode(written.value.as_bytes()) {
        Ok(bytes) if !bytes.is_empty() => return Some(bytes.into()),
        Ok(_) => section.cx.report.problem(&spot, "the key is empty", "write its bytes in base64"),
        Err(error) => {
            section.cx.report.problem(&spot, format!("this is no base64: {error}"), "write the key's bytes in base64")
        }
    }
    None
}

/// Returns whether a text was meant as bytes, each of them written as the character with its number: none of them is a
/// letter alone.
fn is_bytes(key: &str) -> bool {
    let high = |c: char| ('\u{80}'..='\u{ff}').contains(&c);
    key.chars().all(|c| c <= '\u{ff}') && key.chars().any(high) && key.chars().any(char::is_control)
}

fn body(section: &Section<'_>, key: &Key) -> Body {
    template(section, key, "member").map_or(Body::Member, Body::Text)
}

/// Returns the template behind the key; `None` for its word.
fn template(section: &Section<'_>, key: &Key, word: &str) -> Option<Template> {
    let template = section.template(key).filter(|template| template.static_text() != Some(word))?;
    if template.is_of_payload_fields() {
        return Some(template);
    }
    let message = format!("`{}` is neither `{word}` nor made of fields of the payload", template.source());
    section.cx.report.problem(&section.spot(key), message, "write a template such as `${payload.id}`");
    None
}

/// The note for every user of a sorted set.
pub(crate) const NOTE: &str = "identical members are one element in Redis, due at the score that was written last: put something unique into \
                               each, such as an id";

impl ZsetSpec {
    /// Returns the settings in effect.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        let mut fields = self.shown();
        if let Some(bytes) = &self.bytes {
            fields.shift_remove(zset::KEY.name);
            fields.shift_insert(0, KEY_BASE64.name.to_owned(), STANDARD.encode(bytes).into());
        }
        fields
    }
}
