//! Jobs and topics as a person reads them.

use super::{AddedJob, AddedJobs, FoundJobs, JobDetail, TopicLimits, TopicState};
use crate::content::escaped;
use crate::table::TextTable;
use crate::{plural, show};

/// Characters of a body in a row.
const PREVIEW: usize = 80;

/// Returns a line for each job that was added.
pub fn added(added: &AddedJobs) -> String {
    let line = |job: &AddedJob| match job.due_ms {
        Some(due) => format!("{} added, due {}\n", job.id, show::absolute(due)),
        None if job.conflict => format!("{} is there with another body; nothing was added\n", job.id),
        None if job.existing.is_some() => format!("{} holds the unique key; nothing was added\n", job.id),
        None => format!("{} was there already, or was finished lately\n", job.id),
    };
    added.jobs.iter().map(line).collect()
}

/// Jobs that were taken.
pub fn taken(found: &FoundJobs) -> String {
    let text = found.jobs.iter().map(|job| whole(job, found.now_ms)).collect::<Vec<_>>();
    if text.is_empty() { "no job is ready\n".to_owned() } else { text.join("\n") }
}

/// Everything about jobs.
pub fn one(found: &FoundJobs) -> String {
    found.jobs.iter().map(|job| whole(job, found.now_ms)).collect()
}

fn whole(job: &JobDetail, now_ms: i64) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<13} {value}\n"));
    let time = |ms: i64| format!("{} ({})", show::absolute(ms), show::relative(ms, now_ms));
    line("id", job.id.clone());
    line("state", job.state.clone());
    job.token.iter().for_each(|token| line("token", token.clone()));
    for (name, ms) in
        [("due", job.due_ms), ("until", job.deadline_ms), ("died", job.died_ms), ("expires", job.expires_ms)]
    {
        ms.into_iter().for_each(|ms| line(name, time(ms)));
    }
    line("added", time(job.added_ms));
    if job.priority > 0 {
        line("priority", job.priority.to_string());
    }
    line("attempts", format!("{}, {} left", job.attempts, job.tries_left));
    line("time to run", plural::duration(job.ttr_ms));
    if !job.reason.is_empty() {
        line("reason", escaped(&job.reason));
    }
    if !job.content_type.is_empty() {
        line("content type", escaped(&job.content_type));
    }
    line("body", job.content.preview(usize::MAX));
    text
}

/// Jobs, a row for each.
pub fn list(found: &FoundJobs) -> String {
    if found.jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    let mut table = TextTable::new("ID|STATE|TIME|>PRIORITY|>ATTEMPTS|REASON|>SIZE|BODY");
    for job in &found.jobs {
        let time = job.due_ms.or(job.deadline_ms).or(job.died_ms);
        table.row([
            job.id.clone(),
            job.state.clone(),
            time.map(|ms| show::relative(ms, found.now_ms)).unwrap_or_default(),
            job.priority.to_string(),
            job.attempts.to_string(),
            escaped(&job.reason),
            show::size(job.size),
            job.content.preview(PREVIEW),
        ]);
    }
    let more = if found.more { "There are more: raise --limit.\n" } else { "" };
    format!("{}{more}", table.render())
}

/// Topics, a row for each.
pub fn topics(found: &[TopicState], now_ms: i64) -> String {
    if found.is_empty() {
        return "no topics\n".to_owned();
    }
    let mut table = TextTable::new("TOPIC|>DELAY|>READY|>RESERVED|>DEAD|OLDEST READY|NEXT DUE|");
    for TopicState { topic, sizes } in found {
        let numbers = [sizes.delay, sizes.ready, sizes.reserved, sizes.dead].map(|number| number.to_string());
        let times = [
            sizes.oldest_ready_ms.map(|ms| plural::duration(ms.unsigned_abs())).unwrap_or_default(),
            sizes.next_due_ms.map(|ms| show::relative(ms, now_ms)).unwrap_or_default(),
            if sizes.paused { "paused".to_owned() } else { String::new() },
        ];
        table.row(std::iter::once(topic.clone()).chain(numbers).chain(times));
    }
    table.render()
}

/// Returns the limits of a topic.
pub fn limits(found: &TopicLimits) -> String {
    let time = |ms: u64| plural::duration(ms);
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let found = &found.limits;
    let rows = [
        ("ttr_ms", time(found.ttr_ms)),
        ("tries", found.tries.to_string()),
        ("ttl_ms", or_none(found.ttl_ms.map(time))),
        ("max_jobs", or_none(found.max_jobs.map(|most| most.to_string()))),
        ("max_body", show::size(usize::try_from(found.max_body).unwrap_or(usize::MAX))),
        ("dead_max_len", or_none(found.dead_max_len.map(|most| most.to_string()))),
        ("dead_ttl_ms", or_none(found.dead_ttl_ms.map(time))),
        ("backoff_ms", time(found.backoff_ms)),
        ("backoff_max_ms", time(found.backoff_max_ms)),
    ];
    let mut table = TextTable::new("LIMIT|VALUE|FROM");
    for (name, value) in rows {
        let from = if found.set.iter().any(|set| set == name) { "set" } else { "configuration" };
        table.row([name.trim_end_matches("_ms").to_owned(), value, from.to_owned()]);
    }
    table.render()
}
