//! The simulation of a schedule: counts of what falls due, against a rate of deliveries.
//!
//! Within a span the elements fall due evenly, as far as anyone knows. A burst at one minute must not be smeared over an hour,
//! so spans are split where the schedule can be counted, until it no longer matters when in them the elements fall due: then no
//! time of the outcome is wrong by more than about a second.

/// Length of a span that is not split any more, in ms. The time in such a span is unknown where a wave begins and where an element
/// falls due, so that an outcome is exact to twice as much.
const FINEST_MS: i64 = 500;

/// Elements that fall due after `from_ms`, and at `until_ms` at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueSpan {
    /// The time before the span, in ms.
    pub from_ms: i64,
    /// The last ms of the span.
    pub until_ms: i64,
    /// Elements.
    pub count: u64,
}

/// The end of a span.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SpanEnd {
    /// Elements that are due and not delivered.
    pub waiting: u64,
    /// Time from the due time to the delivery of the latest element that falls due in the span, in ms.
    pub late_ms: u64,
}

/// A time without a pause, from the first element that has to wait to the one after which none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wave {
    /// The time before the first of its elements falls due, in ms.
    pub from_ms: i64,
    /// The time at which the latest of its elements falls due, in ms.
    pub latest_ms: i64,
    /// Elements that fall due in it.
    pub count: u64,
    /// Elements that were overdue when it began.
    pub backlog: u64,
    /// The time at which all of them are delivered, in ms.
    pub through_ms: i64,
    /// Lateness of the latest, in ms.
    pub late_ms: u64,
}

/// The outcome of a simulation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The end of each span.
    pub ends: Vec<SpanEnd>,
    /// The wave with the latest element that falls due in a span; `None` if none has to wait.
    pub worst: Option<Wave>,
    /// The time at which everything is delivered, in ms; `None` if there is nothing.
    pub through_ms: Option<i64>,
}

/// Simulates the delivery of a backlog, and of what falls due in these spans, in the order of due times.
fn simulate(backlog: u64, spans: &[DueSpan], per_second: f64) -> Outcome {
    let rate = per_second / 1_000.0;
    let start = spans.first().map_or(0, |span| span.from_ms);
    let mut out = Outcome { ends: Vec::with_capacity(spans.len()), ..Outcome::default() };
    let mut waiting = backlog as f64;
    let open = |from_ms, backlog| Wave { from_ms, latest_ms: from_ms, count: 0, backlog, through_ms: 0, late_ms: 0 };
    let mut wave = (backlog > 0).then(|| open(start, backlog));
    for span in spans {
        let length = (span.until_ms - span.from_ms).max(1) as f64;
        let count = span.count as f64;
        let end = waiting + count - rate * length;
        if span.count > 0 {
            out.through_ms = Some(span.until_ms);
        }
        if wave.is_none() && end > 0.0 {
            wave = Some(open(span.from_ms, 0));
        }
        let (most, at_ms) = if end > waiting { (end, span.until_ms) } else { (waiting, span.from_ms) };
        let late_ms = if span.count > 0 { (most / rate) as u64 } else { 0 };
        if let Some(now) = &mut wave {
            now.count += span.count;
            if late_ms > now.late_ms {
                (now.late_ms, now.latest_ms) = (late_ms, at_ms);
            }
            if end <= 0.0 {
                // With these arrivals the last one that waits is delivered within the span.
                let left = (waiting / (rate - count / length)).min(length);
                now.through_ms = span.from_ms.saturating_add(left as i64);
                if span.count == 0 {
                    out.through_ms = Some(now.through_ms);
                }
                out.end_of(wave.take());
            }
        }
        waiting = end.max(0.0);
        out.ends.push(SpanEnd { waiting: waiting.round() as u64, late_ms });
    }
    if let Some(now) = &mut wave {
        let end = spans.last().map_or(start, |span| span.until_ms);
        now.through_ms = end.saturating_add((waiting / rate) as i64);
        out.through_ms = Some(now.through_ms);
        out.end_of(wave);
    }
    out
}

impl Outcome {
    fn end_of(&mut self, wave: Option<Wave>) {
        let least = self.worst.map_or(0, |worst| worst.late_ms);
        self.worst = wave.filter(|wave| wave.late_ms > least).or(self.worst);
    }
}

/// Returns the largest error of the lateness in each span, in ms: the due times within a span are not known.
fn errors(backlog: u64, spans: &[DueSpan], per_second: f64) -> Vec<u64> {
    let ends = simulate(backlog, spans, per_second).ends;
    let before = std::iter::once(backlog).chain(ends.iter().map(|end| end.waiting));
    let error = |(span, waiting): (&DueSpan, u64)| {
        let length = span.until_ms - span.from_ms;
        if span.count == 0 || length <= FINEST_MS {
            return 0;
        }
        // They may fall due at once; or at the end, when those before them are delivered.
        let work_ms = span.count.max(waiting) as f64 / per_second * 1_000.0;
        work_ms.min(length as f64) as u64
    };
    spans.iter().zip(before).map(error).collect()
}

/// Returns the spans that have to be split, at most `most`: those that may be wrong by most. In their order.
fn to_split(backlog: u64, spans: &[DueSpan], per_second: f64, most: usize) -> Vec<usize> {
    let errors = errors(backlog, spans, per_second);
    let mut found: Vec<usize> = (0..spans.len()).filter(|at| errors[*at] > FINEST_MS.unsigned_abs()).collect();
    if found.len() > most {
        found.sort_by_key(|at| std::cmp::Reverse((errors[*at], spans[*at].count)));
        found.truncate(most);
        found.sort_unstable();
    }
    found
}

/// Returns the error that a lateness of the outcome may have, in ms: a second if all spans were split that have to be.
fn exact_to_ms(backlog: u64, spans: &[DueSpan], per_second: f64) -> u64 {
    errors(backlog, spans, per_second).into_iter().fold(2 * FINEST_MS.unsigned_abs(), u64::max)
}

fn middle_ms(span: &DueSpan) -> i64 {
    span.from_ms + (span.until_ms - span.from_ms) / 2
}

/// Splits these spans, in their order, with the counts of their first halves.
fn split(spans: &[DueSpan], at: &[usize], first_halves: &[u64]) -> Vec<DueSpan> {
    let mut halves = at.iter().zip(first_halves).peekable();
    let mut all = Vec::with_capacity(spans.len() + at.len());
    for (place, span) in spans.iter().enumerate() {
        match halves.next_if(|(at, _)| **at == place) {
            None => all.push(*span),
            Some((_, count)) => {
                // What was claimed or rescheduled since the whole was counted is in neither half.
                let middle_ms = middle_ms(span);
                let first = (*count).min(span.count);
                all.push(DueSpan { until_ms: middle_ms, count: first, ..*span });
                all.push(DueSpan { from_ms: middle_ms, count: span.count - first, ..*span });
            }
        }
    }
    all
}

/// A schedule that is being counted, as finely as a forecast needs it.
#[derive(Debug)]
pub struct Schedule {
    backlog: u64,
    per_second: f64,
    spans: Vec<DueSpan>,
    /// Counts that may still be asked for.
    room: usize,
    /// The spans that are being split.
    at: Vec<usize>,
}

impl Schedule {
    /// Creates a schedule with a backlog of overdue elements, and what falls due in these spans, which follow each
    /// other without a gap. The rate is positive; at most `room` more counts are asked for.
    pub fn new(backlog: u64, spans: Vec<DueSpan>, per_second: f64, room: usize) -> Schedule {
        Schedule { backlog, per_second, spans, room, at: Vec::new() }
    }

    /// Returns the spans of which the counts are needed, each after the first time and up to the second; none if it is
    /// fine enough. Each call is followed by [`learn`](Schedule::learn).
    pub fn unknown(&mut self) -> Vec<(i64, i64)> {
        self.at = to_split(self.backlog, &self.spans, self.per_second, self.room);
        self.room -= self.at.len();
        self.at.iter().map(|at| (self.spans[*at].from_ms, middle_ms(&self.spans[*at]))).collect()
    }

    /// Takes the counts of [`unknown`](Schedule::unknown).
    pub fn learn(&mut self, counts: &[u64]) {
        self.spans = split(&self.spans, &std::mem::take(&mut self.at), counts);
    }

    /// Computes the outcome as far as it is known.
    pub fn outcome(&self) -> Outcome {
        simulate(self.backlog, &self.spans, self.per_second)
    }

    /// Returns the spans as far as they are known.
    pub fn spans(&self) -> &[DueSpan] {
        &self.spans
    }

    /// Returns the error that a lateness of the outcome may have, in ms: a second if the counts were enough.
    pub fn exact_to_ms(&self) -> u64 {
        exact_to_ms(self.backlog, &self.spans, self.per_second)
    }
}

#[cfg(test)]
mod tests;
