//! Reads a file of cases, and reports every mistake with its place and its correction.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use redisson_codecs::Coding;

use super::case::{Case, Expected, ExpectedBody, ExpectedMessage, ExpectedVerdict, Failing};
use super::element::{Given, redisson as as_redisson, written};
use super::keys::{Abouts, Layouts, case, dead, deliver, element, expect, fails, file, hold, redisson, retry};
use delaybridge_core::message::{Class, MessageId, Origin};
use delaybridge_model::{Config, Mode, QueueSpec};
use delaybridge_settings::files;
use delaybridge_settings::keys::{Key, nearest};
use delaybridge_settings::node;
use delaybridge_settings::problem::ConfigErrors;
use delaybridge_settings::problem::{Report, Spot};
use delaybridge_settings::reader::{Context, Needs, Scalar, Section};
use delaybridge_source::redisson::layout::Layout;

/// The cases of one file.
#[derive(Debug)]
pub struct Suite {
    /// The file, as it was given.
    pub file: String,
    /// The configuration.
    pub config: PathBuf,
    /// The cases.
    pub cases: Vec<Case>,
}

/// A look-up of environment variables.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;
/// A reader of configurations.
pub type Load<'a> = &'a dyn Fn(&Path, Env<'_>) -> Result<Config, ConfigErrors>;

/// Reads the cases in the file at `path`, and with `load` the configuration that it names, or `default` if it names none. `env`
/// looks up variables.
///
/// # Errors
/// Everything that is wrong with the file, or else with its configuration.
pub fn read(path: &Path, default: &Path, env: Env<'_>, load: Load<'_>) -> Result<Suite, ConfigErrors> {
    let file = path.display().to_string();
    // No pipe, and nothing that grows without an end.
    let text = files::read(path).map_err(|error| error.to_string());
    let text = text.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned()));
    let text = match text {
        Ok(text) => text,
        Err(error) => return Err(of_file(&file, format!("read cases: {error}"))),
    };
    let base = path.parent().map(PathBuf::from).unwrap_or_default();
    let cx = Context {
        report: Report::new(&file),
        env,
        base: base.clone(),
        needs: Needs::Everything,
        files: Default::default(),
    };
    let tree = node::parse(&text, &cx.report);
    let Some(tree) = tree.as_ref() else { return finish(cx, None) };
    let spot = Spot { at: tree.at, path: String::new() };
    let top = Section::open(&cx, spot, &file::TABLE, Some(tree));
    let config = top.text(&file::CONFIG).map_or_else(|| default.to_owned(), |name| base.join(name.value));
    let own: Vec<(String, Scalar)> = top.scalars(&file::ENV);
    let variable = |name: &str| {
        own.iter().find(|(key, _)| key == name).map(|(_, value)| value.value.clone().into()).or_else(|| env(name))
    };
    let sections = top.list(&file::CASES);
    let loaded = match load(&config, &variable) {
        Ok(loaded) => loaded,
        Err(errors) => {
            sections.iter().for_each(|section| drop(one(section, None)));
            drop(sections);
            drop(top);
            // What is wrong with this file goes first: it may name the wrong configuration.
            return finish(cx, Some(())).and(Err(errors));
        }
    };
    let cases: Vec<_> = sections.iter().filter_map(|section| one(section, Some(&loaded))).collect();
    drop((sections, top));
    let suite = Suite { file, config, cases };
    finish(cx, Some(suite))
}

fn finish<T>(cx: Context<'_>, value: Option<T>) -> Result<T, ConfigErrors> {
    cx.report.finish(value).map(|(value, _)| value)
}

fn of_file(file: &str, message: String) -> ConfigErrors {
    let report = Report::new(file);
    report.of_file(None, message, None);
    match report.finish::<()>(None) {
        Err(errors) => errors,
        Ok(_) => ConfigErrors { problems: Vec::new(), warnings: Vec::new(), absent: 0 },
    }
}

/// Returns one case; `None` after a problem. Without a configuration only what needs none is looked at.
fn one(section: &Section<'_>, config: Option<&Config>) -> Option<Case> {
    let name = section.text(&case::NAME).map(|name| name.value).unwrap_or_default();
    let queue = section.text(&case::QUEUE).and_then(|queue| find_queue(section, config?, &queue));
    let late = section.duration(&case::LATE);
    let due_ms = section.count(&case::DUE_MS).and_then(|ms| i64::try_from(ms).ok()).unwrap_or_default();
    let now_ms = due_ms.saturating_add(i64::try_from(late.as_millis()).unwrap_or(i64::MAX));
    let attempts = section.count(&case::ATTEMPTS).and_then(|count| u32::try_from(count).ok()).unwrap_or_default();
    let given = of_element(&section.section(&case::ELEMENT), queue.as_deref(), due_ms, now_ms);
    let fails: Vec<_> = section.list(&case::FAILS).iter().map(|fails| failing(fails, queue.as_deref())).collect();
    let expected = expected(&section.section(&case::EXPECT), queue.as_deref());
    if expected.deliver.is_none() && expected.verdict.is_none() && section.has(&case::EXPECT) {
        let help = "write `deliver`, `dead`, `hold`, `retry` or `wait`";
        section.cx.report.problem(&section.spot(&case::EXPECT), "nothing is expected", help);
    }
    let fails = fails.into_iter().collect::<Option<Vec<_>>>()?;
    Some(Case { name, line: section.spot.at.line, queue: queue?, given: given?, attempts, fails, expected })
}

fn find_queue(section: &Section<'_>, config: &Config, name: &Scalar) -> Option<Arc<QueueSpec>> {
    let known = || config.queues.iter().map(|queue| &*queue.id);
    let Some(queue) = config.queues.iter().find(|queue| *queue.id == *name.value) else {
        unknown(section, name, "queue", &known().collect::<Vec<_>>());
        return None;
    };
    if let Mode::Rescue { .. } = queue.mode {
        let help = "cases are about queues that deliver";
        section.cx.report.problem(&name.spot, "the queue has `mode: rescue`, which delivers nothing", help);
    }
    Some(queue.clone())
}

fn unknown(section: &Section<'_>, name: &Scalar, what: &str, known: &[&str]) {
    let help = match nearest(&name.value, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are: {}", known.join(", ")),
    };
    section.cx.report.problem(&name.spot, format!("there is no {what} `{}`", name.written), help);
}

/// Returns the place of a sink among the queue's destinations.
fn place_of(section: &Section<'_>, key: &Key, queue: Option<&QueueSpec>) -> Option<(String, usize)> {
    let name = section.text(key)?;
    let queue = queue?;
    let Some(place) = queue.to.iter().position(|to| *to.sink == *name.value) else {
        let known: Vec<_> = queue.to.iter().map(|to| &*to.sink).collect();
        unknown(section, &name, &format!("destination of queue `{}` in sink", queue.id), &known);
        return None;
    };
    Some((name.value, place))
}

fn of_element(section: &Section<'_>, queue: Option<&QueueSpec>, due_ms: i64, now_ms: i64) -> Option<Given> {
    let report = &section.cx.report;
    let inner = section.opt_section(&element::REDISSON).map(|inner| of_redisson(&inner, queue));
    let text = text_of(section, &element::TEXT, &element::CODEC, queue);
    let hex = section.has(&element::HEX).then(|| digits(section, &element::HEX));
    let member = section.text(&element::MEMBER);
    match (inner.is_some(), text.is_some(), hex.is_some()) {
        (true, false, false) | (false, true, false) | (false, false, true) => {}
        _ => {
            report.problem(&section.spot, "an element has exactly one of `redisson`, `text` and `hex`", "keep one");
            return None;
        }
    }
    let queue = queue?;
    let default = MessageId(DEFAULT_ID);
    let given = (Origin::Delayed, default);
    let due_ms = Some(due_ms);
    let of = |(origin, id), element, record| {
        let due_ms = due_ms.filter(|_| origin == Origin::Delayed);
        Some(Given { element, record, origin, id, due_ms, now_ms })
    };
    let is_redisson = queue.source.redisson().is_some();
    match inner {
        Some(inner) if is_redisson => {
            let (layout, id, payload) = inner?;
            let origin = if layout.is_some() { Origin::Delayed } else { Origin::Ready };
            of((origin, id), as_redisson(layout, id, &payload), None)
        }
        Some(_) => {
            let spot = section.spot(&element::REDISSON);
            let message = format!("queue `{}` is none of Redisson", queue.id);
            report.problem(&spot, message, "write the payload as `text`, or the element's bytes as `hex`");
            None
        }
        None if is_redisson => match text {
            Some(payload) => of(given, as_redisson(Some(Layout::New), default, &payload?), None),
            None => of(given, hex??, None),
        },
        None if queue.source.has_payload_in_member() => of(given, text.or(hex)??, None),
        None => {
            let Some(member) = member else {
                let help = "write the id of the job, as it is in the sorted set";
                report.problem(
                    &section.spot,
                    "`member` is missing: the queue keeps its jobs beside a sorted set",
                    help,
                );
                return None;
            };
            of(given, member.value.into(), Some(text.or(hex)??))
        }
    }
}

/// The id of an element without an id of its own.
const DEFAULT_ID: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];

fn of_redisson(section: &Section<'_>, queue: Option<&QueueSpec>) -> Option<(Option<Layout>, MessageId, Bytes)> {
    let report = &section.cx.report;
    let layout = section.one_of::<Layouts>(&redisson::LAYOUT);
    let id = section.text(&redisson::ID).and_then(|id| {
        let parsed =
            id.value.parse().map_err(|error| report.problem(&id.spot, format!("{error}"), "as in 0123456789abcdef"));
        parsed.ok()
    });
    let text = text_of(section, &redisson::PAYLOAD, &redisson::CODEC, queue);
    let hex = section.has(&redisson::PAYLOAD_HEX).then(|| digits(section, &redisson::PAYLOAD_HEX));
    if text.is_some() == hex.is_some() {
        report.problem(&section.spot, "an element has a `payload` or a `payload_hex`", "write one of them");
        return None;
    }
    Some((layout?, id?, text.or(hex)??))
}

/// Returns a text as a codec writes it; the inner `None` after a problem.
fn text_of(section: &Section<'_>, key: &Key, codec: &Key, queue: Option<&QueueSpec>) -> Option<Option<Bytes>> {
    let named = section.has(codec).then(|| section.text(codec)).flatten();
    section.has(key).then(|| {
        let text = section.text(key)?;
        let report = &section.cx.report;
        let coding = match &named {
            None => queue?.codec,
            Some(name) => name.value.parse::<Coding>().map_err(|_| unknown_codec(section, name)).ok()?,
        };
        let refused = |codec: &str| {
            let help = "write the payload's bytes as hexadecimal digits (`hex`, `payload_hex`)";
            report.problem(&text.spot, format!("a text cannot be written with codec `{codec}` here"), help);
        };
        written(coding, &text.value).map_err(refused).ok()
    })
}

fn unknown_codec(section: &Section<'_>, name: &Scalar) {
    unknown(section, name, "codec", &Coding::names().collect::<Vec<_>>());
}

/// Bytes as hexadecimal digits; spaces are ignored.
fn digits(section: &Section<'_>, key: &Key) -> Option<Bytes> {
    let text = section.text(key)?;
    let plain: String = text.value.chars().filter(|letter| !letter.is_whitespace()).collect();
    let bytes = hex::decode(plain).map(Bytes::from);
    let help = "write two hexadecimal digits for each byte, in quotes, as in \"036162e3\"";
    bytes.map_err(|_| section.cx.report.problem(&text.spot, "these are no hexadecimal digits", help)).ok()
}

fn failing(section: &Section<'_>, queue: Option<&QueueSpec>) -> Option<Failing> {
    let place = place_of(section, &fails::SINK, queue);
    let classes = Class::ALL.map(|class| (class.as_str(), class));
    let class = section.word(&fails::CLASS, &classes);
    let about = section.one_of::<Abouts>(&fails::ABOUT);
    let flag = |key| section.flag(key).unwrap_or_default();
    let sent = flag(&fails::SENT);
    let outage = flag(&fails::OUTAGE);
    let worked = flag(&fails::WORKED);
    let lasted = section.duration(&fails::LASTED);
    Some(Failing { place: place?.1, class: class?, about: about?, sent, outage, lasted, worked })
}

fn expected(section: &Section<'_>, queue: Option<&QueueSpec>) -> Expected {
    let written = section.has(&expect::DELIVER);
    let messages = section.list(&expect::DELIVER);
    let messages: Vec<_> = messages.iter().filter_map(|message| expected_message(message, queue)).collect();
    let text = |section: &Section<'_>, key| section.text(key).map(|text| text.value);
    let sink = |section: &Section<'_>, key| place_of(section, key, queue).map(|(name, _)| name);
    let verdicts = [
        section.opt_section(&expect::DEAD).map(|section| {
            let words = dead_reasons();
            let reason = section.has(&dead::REASON).then(|| section.word(&dead::REASON, &words)).flatten();
            ExpectedVerdict::Dead { reason, code: text(&section, &dead::CODE), sink: sink(&section, &dead::SINK) }
        }),
        section.opt_section(&expect::HOLD).map(|section| ExpectedVerdict::Hold {
            code: text(&section, &hold::CODE),
            sink: sink(&section, &hold::SINK),
        }),
        section.opt_section(&expect::RETRY).map(|section| {
            let time = |key| {
                let time = section.duration(key);
                section.has(key).then_some(time)
            };
            let counted = section.flag(&retry::COUNTED);
            ExpectedVerdict::Retry { earliest: time(&retry::EARLIEST), latest: time(&retry::LATEST), counted }
        }),
        section.opt_section(&expect::WAIT).map(|_| ExpectedVerdict::Wait),
        section.opt_section(&expect::SKIPPED).map(|_| ExpectedVerdict::Skipped),
    ];
    let mut verdicts = verdicts.into_iter().flatten();
    let verdict = verdicts.next();
    if verdicts.next().is_some() {
        let help = "keep one of `dead`, `hold`, `retry`, `wait` and `skipped`";
        section.cx.report.problem(&section.spot, "an element has one end", help);
    }
    Expected { deliver: written.then_some(messages), verdict }
}

fn dead_reasons() -> Vec<(&'static str, &'static str)> {
    match dead::REASON.kind {
        delaybridge_settings::keys::Kind::Word(words) => words.iter().map(|word| (word.text, word.text)).collect(),
        _ => Vec::new(),
    }
}

fn expected_message(section: &Section<'_>, queue: Option<&QueueSpec>) -> Option<ExpectedMessage> {
    let sink = place_of(section, &deliver::SINK, queue);
    let keys = [
        deliver::LIST,
        deliver::STREAM,
        deliver::TOPIC,
        deliver::KEY,
        deliver::EXCHANGE,
        deliver::ROUTING_KEY,
        deliver::SUBJECT,
        deliver::ADDRESS,
        deliver::TAGS,
        deliver::SHARDING_KEY,
        deliver::KEYS,
        deliver::QUEUE_URL,
        deliver::TOPIC_ARN,
        deliver::GROUP_ID,
        deliver::PATH,
    ];
    // A number needs no quotes here: it is compared as text.
    let own = keys.iter().filter_map(|key| Some((key.name.to_owned(), section.scalar(key)?.value)));
    let mut destination: Vec<_> = own.collect();
    let scalars = |key| section.scalars(key).into_iter().map(|(name, scalar)| (name, scalar.value));
    let properties = scalars(&deliver::PROPERTIES);
    destination.extend(properties.map(|(name, value)| (format!("{}.{name}", deliver::PROPERTIES.name), value)));
    let headers = scalars(&deliver::HEADERS).collect();
    let bodies = [
        section.text(&deliver::BODY).map(|text| ExpectedBody::Bytes(text.value.into())),
        section.has(&deliver::BODY_HEX).then(|| digits(section, &deliver::BODY_HEX)).flatten().map(ExpectedBody::Bytes),
        section.text(&deliver::BODY_JSON).and_then(|text| json(section, &text)).map(ExpectedBody::Json),
    ];
    let mut bodies = bodies.into_iter().flatten();
    let body = bodies.next();
    if bodies.next().is_some() {
        let help = "keep one of `body`, `body_hex` and `body_json`";
        section.cx.report.problem(&section.spot, "a message has one body", help);
    }
    Some(ExpectedMessage { sink: sink?.0, destination, headers, body })
}

fn json(section: &Section<'_>, text: &Scalar) -> Option<serde_json::Value> {
    let value = serde_json::from_str(&text.value);
    let help = "write JSON in single quotes, as in '{\"orderId\": 7}'";
    value.map_err(|error| section.cx.report.problem(&text.spot, format!("this is not JSON: {error}"), help)).ok()
}
