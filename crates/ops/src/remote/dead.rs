//! Dead letters, as a daemon lists and works through them. A page of the list at a time is redriven or removed by its ids, so that no request
//! takes long, and what dies meanwhile is not touched.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::client::{Daemon, part};
use crate::content::Content;
use crate::dead::{
    ExportPage, Exported, Filter, Letter, LetterList, Letters, LettersBody, LineBatch, LineReport, Pace, Purged,
    Redriven, ShownLetters, Swept,
};
use crate::error::Error;
use crate::operation::RequestFields;
use crate::progress::{Pacer, Progress, ProgressWatch};

/// Letters of a page.
const PAGE: usize = 200;
/// Ids of a request.
const IDS: usize = 200;
/// The largest body that a daemon takes.
const MAX_BODY: usize = 1 << 20;

/// Lists at most `limit` letters that fit, the latest first.
pub async fn letters(
    daemon: &Daemon,
    queue: &str,
    filter: &Filter,
    limit: usize,
    watch: &mut dyn ProgressWatch,
) -> Result<LetterList, Error> {
    let mut all = page(daemon, queue, filter, limit.min(PAGE), None).await?;
    while let Some(next) = all.next.take_if(|_| all.dead_letters.len() < limit) {
        let acted = all.dead_letters.len() as u64;
        watch.at(Progress { done: all.examined, of: Some(all.total as u64), acted });
        if watch.is_stopped() {
            all.next = Some(next);
            break;
        }
        let most = (limit - all.dead_letters.len()).min(PAGE);
        let more = page(daemon, queue, filter, most, Some(&next)).await?;
        all.examined += more.examined;
        all.dead_letters.extend(more.dead_letters);
        all.next = more.next;
    }
    Ok(all)
}

async fn page(
    daemon: &Daemon,
    queue: &str,
    filter: &Filter,
    limit: usize,
    after: Option<&str>,
) -> Result<LetterList, Error> {
    let after = after.map(|after| format!("&after={}", part(after))).unwrap_or_default();
    let path = format!("/v1/queues/{}/dead?limit={limit}{after}{}", part(queue), query(filter)?);
    daemon.get(&path).await
}

/// Shows everything that one letter keeps.
pub async fn show(daemon: &Daemon, queue: &str, id: &str) -> Result<ShownLetters, Error> {
    let path = format!("/v1/queues/{}/dead/{}", part(queue), part(id));
    let answer: Value = daemon.get(&path).await?;
    let rows = answer.get("dead_letters").and_then(Value::as_array).ok_or_else(|| daemon.strange())?;
    let dead_letters = rows.iter().map(letter).collect::<Option<_>>().ok_or_else(|| daemon.strange())?;
    Ok(ShownLetters { queue: queue.to_owned(), dead_letters })
}

/// The parts of a letter's answer that are none of its fields.
const APART: [&str; 5] = ["stream_id", "payload", "payload_base64", "payload_cut", "value"];

/// A letter of an answer, with its fields in their order.
fn letter(answer: &Value) -> Option<Letter> {
    let stream_id = answer.get("stream_id")?.as_str()?.to_owned();
    let content = Content::answered(answer)?;
    let own = answer.as_object()?.iter().filter(|(name, _)| !APART.contains(&name.as_str()));
    let fields: Map<String, Value> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    let element = fields.get("element_base64").and_then(Value::as_str).and_then(bytes).unwrap_or_default();
    Some(Letter { stream_id, fields, content, element: element.into() })
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Delivers letters again. An error says how many were redriven before it.
pub async fn redrive(
    daemon: &Daemon,
    queue: &str,
    which: &Letters,
    pace: Pace,
    watch: &mut dyn ProgressWatch,
) -> Result<Redriven, Error> {
    let all = Redriven { queue: queue.to_owned(), dry_run: pace.dry_run, ..Redriven::default() };
    let (mut all, listed) = Sweep { daemon, queue, which, pace, verb: "redrive" }.run(watch, all).await?;
    all.matched += listed.counted;
    all.stopped = listed.stopped;
    if which.ids.is_empty() {
        // They were there, and another client took them.
        all.left += std::mem::take(&mut all.not_found).len();
    }
    Ok(all)
}

/// Removes letters for good. An error says how many were removed before it.
pub async fn purge(
    daemon: &Daemon,
    queue: &str,
    which: &Letters,
    pace: Pace,
    watch: &mut dyn ProgressWatch,
) -> Result<Purged, Error> {
    let all = Purged { queue: queue.to_owned(), dry_run: pace.dry_run, ..Purged::default() };
    let (mut all, listed) = Sweep { daemon, queue, which, pace, verb: "purge" }.run(watch, all).await?;
    all.matched += listed.counted;
    all.stopped = listed.stopped;
    if which.ids.is_empty() {
        all.not_found.clear();
    }
    Ok(all)
}

/// Writes the letters that are meant, the oldest first, one object a line.
pub async fn export(
    daemon: &Daemon,
    queue: &str,
    which: &Letters,
    watch: &mut dyn ProgressWatch,
    out: &mut (dyn Write + Send),
) -> Result<Exported, Error> {
    let mut done = Exported { queue: queue.to_owned(), last: which.after.clone(), ..Exported::default() };
    let filter = query(&which.filter)?;
    loop {
        let after = done.last.as_ref().map(|last| format!("&after={}", part(last))).unwrap_or_default();
        let path =
            format!("/v1/queues/{}/dead/export?{}", part(queue), format!("{after}{filter}").trim_start_matches('&'));
        let go_on = |error: Error, done: &Exported| {
            let after = done.last.as_ref().map(|last| format!(" with --after {last}")).unwrap_or_default();
            let message =
                format!("{}; {} lines were written: to go on, run it again{after}", error.message, done.exported);
            Error { message, ..error }
        };
        let page: ExportPage = daemon.get(&path).await.map_err(|error| go_on(error, &done))?;
        for letter in &page.dead_letters {
            let line = serde_json::to_vec(letter).unwrap_or_default();
            let written = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
            written
                .map_err(|error| go_on(Error::failed(format!("export dead letters of `{queue}`: {error}")), &done))?;
            done.exported += 1;
            done.last = letter.get("stream_id").and_then(Value::as_str).map(str::to_owned).or(done.last);
        }
        done.examined += page.examined;
        watch.at(Progress { done: done.examined, of: None, acted: done.exported });
        done.stopped = watch.is_stopped() && page.next.is_some();
        let Some(next) = page.next else { break };
        done.last = Some(next);
        if done.stopped {
            break;
        }
    }
    out.flush().map_err(|error| Error::failed(format!("export dead letters of `{queue}`: {error}")))?;
    Ok(done)
}

/// Makes letters of lines, with as many requests as their bytes take.
pub async fn import_lines(daemon: &Daemon, queue: &str, batch: &LineBatch) -> Result<LineReport, Error> {
    let LineBatch { run, dry_run, stops, .. } = batch;
    let mut report = LineReport { queue: queue.to_owned(), ..LineReport::default() };
    let mut rest = &batch.lines[..];
    while !rest.is_empty() && report.problem.is_none() {
        let (mut body, mut count) = (Vec::new(), 0);
        for line in rest {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if count > 0 && body.len() + line.len() >= MAX_BODY {
                break;
            }
            body.extend_from_slice(line);
            body.push(b'\n');
            count += 1;
        }
        if body.len() > MAX_BODY {
            report.problem = Some(format!(
                "the line has {} bytes, and a daemon takes {MAX_BODY}; import it over Redis, without --daemon",
                body.len()
            ));
            break;
        }
        let first = batch.first + report.lines.len() as u64;
        let query = format!("run={run}&first={first}&dry_run={dry_run}&stops={stops}");
        let path = format!("/v1/queues/{}/dead/import?{query}", part(queue));
        let part: LineReport = match daemon.post_lines(&path, body.into()).await {
            Ok(part) => part,
            Err(error) if report.lines.is_empty() => return Err(error),
            // What was done before it is known.
            Err(error) => LineReport { problem: Some(error.message), ..LineReport::default() },
        };
        let complete = part.lines.len() == count;
        report.lines.extend(part.lines);
        report.problem = part.problem;
        if !complete {
            break;
        }
        rest = &rest[count..];
    }
    Ok(report)
}

/// Letters that are to be worked through.
struct Sweep<'a> {
    daemon: &'a Daemon,
    queue: &'a str,
    which: &'a Letters,
    pace: Pace,
    verb: &'static str,
}

/// The outcome of a sweep beside the answers.
#[derive(Default)]
struct SweepCount {
    /// Letters that were only counted.
    counted: usize,
    /// Whether the sweep was ended early.
    stopped: bool,
}

impl Sweep<'_> {
    /// Adds every answer to `all`.
    async fn run<T: Swept>(&self, watch: &mut dyn ProgressWatch, mut all: T) -> Result<(T, SweepCount), Error> {
        let (mut listed, mut step, mut rate) = (SweepCount::default(), Progress::default(), Pacer::new(self.pace.rate));
        if !self.which.ids.is_empty() {
            step.of = Some(self.which.ids.len() as u64);
            listed.stopped = self.send(&self.which.ids, (&mut rate, &mut step), watch, &mut all).await?;
            return Ok((all, listed));
        }
        let mut after: Option<String> = None;
        loop {
            watch.at(step);
            if watch.is_stopped() {
                listed.stopped = true;
                return Ok((all, listed));
            }
            let page = page(self.daemon, self.queue, &self.which.filter, PAGE, after.as_deref());
            let page = page.await.map_err(|error| self.after(error, step))?;
            step.of = step.of.or(Some(page.total as u64));
            let ids: Vec<String> = page.dead_letters.into_iter().map(|letter| letter.stream_id).collect();
            if self.pace.dry_run {
                listed.counted += ids.len();
                step.acted += ids.len() as u64;
            } else {
                listed.stopped = self.send(&ids, (&mut rate, &mut step), watch, &mut all).await?;
            }
            step.done += page.examined.saturating_sub(if self.pace.dry_run { 0 } else { ids.len() as u64 });
            match page.next {
                Some(next) if !listed.stopped => after = Some(next),
                _ => return Ok((all, listed)),
            }
        }
    }

    /// Sends ids, as many at once as may go in a second. Returns whether it was ended early.
    async fn send<T: Swept>(
        &self,
        ids: &[String],
        (rate, step): (&mut Pacer, &mut Progress),
        watch: &mut dyn ProgressWatch,
        all: &mut T,
    ) -> Result<bool, Error> {
        let at_once = self.pace.rate.map_or(IDS, |rate| (rate as usize).clamp(1, IDS));
        for some in ids.chunks(at_once) {
            for _ in some {
                rate.turn().await;
            }
            watch.at(*step);
            if watch.is_stopped() {
                return Ok(true);
            }
            let path = format!("/v1/queues/{}/dead/{}", part(self.queue), self.verb);
            let body = LettersBody { ids: Some(some.to_vec()), dry_run: self.pace.dry_run, ..LettersBody::default() };
            all.add(self.daemon.post(&path, &body).await.map_err(|error| self.after(error, *step))?);
            step.done += some.len() as u64;
            step.acted = all.done() as u64;
        }
        Ok(false)
    }

    /// The error, with what was done before it.
    fn after(&self, error: Error, step: Progress) -> Error {
        let message = match step.acted {
            0 => error.message,
            done => format!("{} (after {done} in `{}`; run the command again to go on)", error.message, self.queue),
        };
        Error { message, ..error }
    }
}

/// The filter as the end of a query.
fn query(filter: &Filter) -> Result<String, Error> {
    let filter = filter.in_query(serde_json::value::Serializer).map_err(|error| Error::invalid(error.to_string()))?;
    Ok(filter.as_object().map(RequestFields::query).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_letter_of_an_answer_is_the_letter() {
        let own = crate::dead::sample::sample(redisson_codecs::Codec::String);
        let answer = serde_json::to_value(&own).unwrap();
        let read = letter(&answer).unwrap();
        assert_eq!((&read.stream_id, &read.fields, &read.element), (&own.stream_id, &own.fields, &own.element));
        // As text: the order is the same.
        assert_eq!(serde_json::to_string(&read).unwrap(), serde_json::to_string(&own).unwrap());
        assert!(letter(&json!({ "stream_id": "1-0" })).is_none());
    }
}
