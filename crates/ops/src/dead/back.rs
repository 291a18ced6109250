//! The way back from a dead-letter topic: records that a daemon has forwarded become dead letters again.

use std::collections::HashSet;

use bytes::Bytes;

use super::aside::{Broken, BrokenFile, Imported};
use super::import::{PAST_IT, put};
use crate::content::base64;
use crate::error::{Attempted, Error};
use crate::pause::paused;
use crate::progress::{Pacer, Progress, ProgressWatch};
use crate::session::{Queue, find};
use delaybridge_core::message::MessageId;
use delaybridge_ledger::{CAUSES, DeadLetter, Import, Order};
use delaybridge_model::Config;
use delaybridge_sink::{Backlog, BacklogMessage};
use delaybridge_source::redisson::layout::{Layout, pack};

/// Letters that are compared with what is to be imported: far more than a page, after which the place is kept.
const LATEST: usize = 1_000;

/// Opens the topic for a group of its own, by the settings of a sink.
///
/// # Errors
///
/// There is no such sink, it is not one of Kafka, or it does not answer.
pub async fn open(
    config: &Config,
    queue: &str,
    sink: Option<&str>,
    (topic, group): (&str, Option<&str>),
) -> Result<Box<dyn Backlog>, Error> {
    let what = format!("import dead letters to `{queue}` from topic {topic}");
    let spec = find(config, queue)?;
    let name = sink.or(spec.dead_letter_to.as_ref().map(|route| &*route.sink)).ok_or_else(|| {
        Error::invalid(format!("{what}: the queue has no `dead_letter: {{ sink }}`; name the sink of Kafka by --sink"))
    })?;
    let sink = config.sinks.iter().find(|sink| *sink.name == *name);
    let sink = sink.ok_or_else(|| Error::invalid(format!("{what}: the configuration has no sink `{name}`")))?.clone();
    let group = group.map_or_else(|| format!("delaybridge-dead-import-{queue}"), str::to_owned);
    let topic = topic.to_owned();
    let kind = sink.kind();
    let opened = tokio::task::spawn_blocking(move || sink.connector.backlog(&topic, &group, sink.timeout));
    match opened.await {
        Ok(Some(Ok(backlog))) => Ok(backlog),
        Ok(Some(Err(failure))) => Err(Error::failed(format!("{what}: {failure}"))),
        Ok(None) => Err(Error::invalid(format!("{what}: sink `{name}` is a sink of {kind}; only Kafka can be read"))),
        Err(_) => Err(Error::failed(format!("{what}: opening the topic ended by a defect of this program"))),
    }
}

/// Makes letters of the records of this queue; those of other queues and programs, and what was delivered there, are passed over. A record of this queue
/// that is no letter is put aside; without such a place it ends the import, and says where; what is before it is there. A dry run counts it.
///
/// Where it has come to is kept by the destination, under the name of its reader, after each page and at the end. What was stored and not kept, because
/// the process died in between, is recognised among the latest letters of the queue by its id and the time of its death.
///
/// # Errors
///
/// For such a record, and when Redis or the destination cannot be asked.
pub async fn import_from(
    queue: &Queue,
    mut backlog: Box<dyn Backlog>,
    pace: super::Pace,
    mut aside: Option<BrokenFile>,
    watch: &mut dyn ProgressWatch,
) -> Result<Imported, Error> {
    let what = format!("import dead letters to `{}`", queue.id());
    can_go_back(queue)?;
    if !pace.dry_run {
        are_kept(queue, &what).await?;
    }
    let mut done = Imported { queue: queue.id().to_owned(), dry_run: pace.dry_run, ..Imported::default() };
    let of = Some(backlog.total());
    let mut rate = Pacer::new(pace.rate);
    let run = fastrand::u64(..);
    let latest = latest(queue, &what).await?;
    let failed = |failure| Error::failed(format!("{what}: {failure}; run it again to go on"));
    while !done.stopped {
        let (back, page) = blocking(backlog, &what, |backlog| backlog.next()).await?;
        backlog = back;
        let page = page.map_err(failed)?;
        if page.is_empty() {
            break;
        }
        let mut last = None;
        let mut ended = None::<Error>;
        for record in page {
            watch.at(Progress { done: done.lines, of, acted: done.imported });
            if watch.is_stopped() {
                done.stopped = true;
                break;
            }
            let import = Import { run, line: done.lines + 1 };
            match store(queue, &record, import, &latest, (pace.dry_run, &mut rate)).await {
                Ok(Stored::New) => done.imported += 1,
                Ok(Stored::Known) => done.known += 1,
                Ok(Stored::Foreign) => done.passed += 1,
                Ok(Stored::Broken(problem)) if pace.dry_run || aside.is_some() => {
                    let broken = Broken { place: record.place.clone(), problem };
                    ended = done.put_aside(aside.as_mut(), broken, &line_of(&record)).err();
                }
                Ok(Stored::Broken(problem)) => ended = Some(Error::invalid(format!("{problem}; {PAST_IT}"))),
                Err(error) => ended = Some(error),
            }
            if let Some(error) = &mut ended {
                error.message = format!("{what}, record {}: {}", record.place, error.message);
                break;
            }
            done.lines += 1;
            last = Some(record);
        }
        if let Some(last) = last.filter(|_| !pace.dry_run) {
            let (back, kept) = blocking(backlog, &what, move |backlog| backlog.taken(&last)).await?;
            backlog = back;
            if ended.is_none() {
                kept.map_err(failed)?;
            }
        }
        if let Some(error) = ended {
            return Err(error);
        }
    }
    Ok(done)
}

/// Returns whether records have all that an element of this queue is made of.
///
/// # Errors
///
/// They have not.
pub fn can_go_back(queue: &Queue) -> Result<(), Error> {
    match queue.spec.source.redisson() {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!(
            "import dead letters to `{}`: a record has the payload, and not the element of this kind of source; only queues of Redisson \
             can be imported from a topic",
            queue.id()
        ))),
    }
}

/// A letter, as far as it is recognised: its id, and when it died.
type Mark = (String, String);

/// Returns the latest letters of the queue.
async fn latest(queue: &Queue, what: &str) -> Result<HashSet<Mark>, Error> {
    let mut marks = HashSet::new();
    let mut letters = queue.ledger.dead_letters(&queue.conn, Order::Newest).await.attempt(what)?;
    while marks.len() < LATEST {
        let page = letters.next(&queue.conn, LATEST).await.attempt(what)?;
        if page.is_empty() {
            break;
        }
        marks.extend(page.iter().map(|letter| (letter.text("id").to_owned(), letter.text("died_ms").to_owned())));
    }
    Ok(marks)
}

/// Returns whether letters stay in the stream: a daemon would forward them again.
async fn are_kept(queue: &Queue, what: &str) -> Result<(), Error> {
    let Some(to) = &queue.spec.dead_letter_to else { return Ok(()) };
    let paused = paused(queue).await.attempt(what)?;
    if paused.iter().any(|pause| pause.sink.as_deref() == Some(&*to.sink)) {
        return Ok(());
    }
    match queue.ledger.daemons(&queue.conn).await.attempt(what)? {
        0 => Ok(()),
        _ => Err(Error::conflict(format!(
            "{what}: a daemon runs and would forward them again; run `delaybridge pause --sink {} --why ...` until they are redriven, or \
             take `dead_letter` out of the configuration",
            to.sink
        ))),
    }
}

/// The outcome for a record.
enum Stored {
    /// A letter was added.
    New,
    /// The letter was there already.
    Known,
    /// The record is of another queue or program, or was delivered.
    Foreign,
    /// The record is of this queue, and cannot be a letter for this reason.
    Broken(String),
}

/// Stores a record of this queue as a letter, unless it is one.
async fn store(
    queue: &Queue,
    record: &BacklogMessage,
    import: Import,
    latest: &HashSet<Mark>,
    (dry_run, rate): (bool, &mut Pacer),
) -> Result<Stored, Error> {
    let foreign = header(record, "delaybridge-queue") != queue.id().as_bytes();
    // What was delivered there has no reason.
    if foreign || header(record, "delaybridge-dead-reason").is_empty() {
        return Ok(Stored::Foreign);
    }
    let fields = match fields(queue.id(), record) {
        Ok(fields) => fields,
        Err(problem) => return Ok(Stored::Broken(problem)),
    };
    if latest.contains(&(text(record, "delaybridge-id"), text(record, "delaybridge-dead-at-ms"))) {
        return Ok(Stored::Known);
    }
    if !dry_run {
        rate.turn().await;
        put(queue, import, &fields).await?;
    }
    Ok(Stored::New)
}

/// Returns a record with all of its bytes, as a line of JSON.
fn line_of(record: &BacklogMessage) -> Vec<u8> {
    let header = |(name, value): &(String, Bytes)| serde_json::json!({ "name": name, "value_base64": base64(value) });
    let headers: Vec<_> = record.headers.iter().map(header).collect();
    let line = serde_json::json!({ "record": record.place, "headers": headers, "body_base64": base64(&record.body) });
    line.to_string().into_bytes()
}

/// Runs it on a thread that may wait.
async fn blocking<T: Send + 'static>(
    mut backlog: Box<dyn Backlog>,
    what: &str,
    work: impl FnOnce(&mut dyn Backlog) -> T + Send + 'static,
) -> Result<(Box<dyn Backlog>, T), Error> {
    let done = tokio::task::spawn_blocking(move || {
        let done = work(&mut *backlog);
        (backlog, done)
    });
    done.await.map_err(|_| Error::failed(format!("{what}: reading the destination ended by a defect of this program")))
}

fn header<'a>(record: &'a BacklogMessage, name: &str) -> &'a [u8] {
    record.headers.iter().find(|(header, _)| header == name).map_or(&[], |(_, value)| value)
}

fn text(record: &BacklogMessage, name: &str) -> String {
    std::str::from_utf8(header(record, name)).unwrap_or_default().to_owned()
}

/// Returns the fields of the letter that was forwarded as this record. The words of an error quote none of it.
fn fields(queue: &str, record: &BacklogMessage) -> Result<Vec<(String, Bytes)>, String> {
    let text = |name: &str| text(record, name);
    let id = text("delaybridge-id");
    let known: MessageId = id.parse().map_err(|_| "its header delaybridge-id is no id of an element".to_owned())?;
    let mut fields = vec![
        ("queue".to_owned(), Bytes::copy_from_slice(queue.as_bytes())),
        ("id".to_owned(), id.into()),
        ("due_ms".to_owned(), text("delaybridge-due-ms").into()),
        ("attempts".to_owned(), text("delaybridge-attempt").into()),
    ];
    fields.extend(CAUSES.iter().map(|(field, header)| ((*field).to_owned(), Bytes::from(text(header)))));
    // What came from the ready list is bare. All else has its id in front, as Redisson writes it.
    let element = match text("delaybridge-dead-origin").as_str() {
        "ready" => record.body.clone(),
        _ => pack(Layout::New, known, &record.body).into(),
    };
    fields.push(("element".to_owned(), element));
    let letter = DeadLetter { stream_id: "of this record".to_owned(), fields };
    letter.reborn().map_err(|error| {
        format!(
            "its header for `{}` is missing or cannot be read; did a daemon forward it as a dead letter?",
            error.field
        )
    })?;
    Ok(letter.fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(headers: &[(&str, &str)]) -> BacklogMessage {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes()));
        BacklogMessage {
            place: "dead[0]@1".to_owned(),
            part: 1,
            number: 2,
            body: Bytes::from_static(b"geheim"),
            headers: headers.iter().map(pair).collect(),
        }
    }

    #[test]
    fn a_forwarded_letter_comes_back_with_its_element() {
        let record = record(&[
            ("delaybridge-id", "52414e444f4d3842"),
            ("delaybridge-queue", "q"),
            ("delaybridge-due-ms", "1795251632252"),
            ("delaybridge-attempt", "3"),
            ("delaybridge-dead-origin", "delayed"),
            ("delaybridge-dead-reason", "max_attempts"),
            ("delaybridge-dead-at-ms", "1795251640000"),
        ]);
        let letter = DeadLetter { stream_id: String::new(), fields: fields("q", &record).unwrap() };
        assert_eq!((letter.text("reason"), letter.number("due_ms")), ("max_attempts", Some(1_795_251_632_252)));
        assert_eq!((letter.number("attempts"), letter.number("died_ms")), (Some(3), Some(1_795_251_640_000)));
        let element = letter.bytes("element").unwrap();
        let read = delaybridge_source::redisson::layout::parse(element).unwrap();
        assert_eq!((read.id.to_string().as_str(), &read.payload[..]), ("52414e444f4d3842", &b"geheim"[..]));
    }

    #[test]
    fn what_is_no_letter_is_refused_without_a_word_of_it() {
        let id = ("delaybridge-id", "52414e444f4d3842");
        for (headers, words) in [
            (vec![("delaybridge-id", "geheim")], "no id of an element"),
            (vec![id, ("delaybridge-dead-origin", "delayed")], "`due_ms` is missing"),
            (vec![id], "`origin` is missing"),
        ] {
            let why = fields("q", &record(&headers)).unwrap_err();
            assert!(why.contains(words) && !why.contains("geheim"), "{headers:?}: {why}");
        }
    }
}
