//! What would be put back, and where: a look that changes nothing.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};

use super::super::session::attempted;
use super::super::{Failed, Output, show};
use super::{Fleet, RestoreArgs, View, layout_name};
use crate::message::{Class, MessageId, Origin};
use crate::source::redisson::layout::{self, Layout};
use crate::source::redisson::{Entry, Kept, Order, Place, put_back};

/// What was found.
pub(super) struct Plan {
    /// The layout that everything is put back in.
    pub(super) layout: Layout,
    /// Elements by their layout.
    by_layout: BTreeMap<&'static str, usize>,
    /// Payloads that came from the ready list.
    ready: usize,
    dead: usize,
    kept: BTreeMap<Kept, usize>,
    ghosts: i64,
    /// Elements that some sinks had confirmed, and which.
    confirmed: Vec<(MessageId, Vec<u64>)>,
    /// Elements whose last delivery had no answer.
    doubtful: usize,
}

impl Plan {
    pub(super) async fn of(view: &View<'_>, args: &RestoreArgs) -> Result<Plan, Failed> {
        let what = format!("look at what is held of `{}`", view.id);
        let (redisson, conn) = (&view.queue.redisson, &view.session.conn);
        let stats = redisson.stats(conn, &mut Default::default()).await.map_err(attempted(&what))?;
        let mut entries = Entries::default();
        for place in [Place::Retry, Place::InFlight] {
            let mut first = 0;
            loop {
                let page = redisson.members(conn, place, first).await.map_err(attempted(&what))?.members;
                if page.is_empty() {
                    break;
                }
                first += page.len();
                page.into_iter().for_each(|(_, member)| entries.add(Entry::decode(member), Some(place)));
            }
        }
        if args.dead {
            let mut letters = redisson.dead_letters(conn, Order::Oldest).await.map_err(attempted(&what))?;
            loop {
                let page = letters.next(conn, usize::MAX).await.map_err(attempted(&what))?;
                if page.is_empty() {
                    break;
                }
                entries.dead += page.len();
                page.iter().for_each(|letter| entries.add(letter.reborn().ok().and_then(Entry::decode), None));
            }
        }
        let scheduled = match args.layout {
            Fleet::Auto => redisson.layouts_scheduled(conn).await.map_err(attempted(&what))?,
            Fleet::Old | Fleet::New => Vec::new(),
        };
        let layout = chosen(args.layout, &scheduled, &entries.by_layout).ok_or_else(|| {
            Failed::usage(format!(
                "restore `{}`: elements of both layouts are scheduled or held, and only one can be read by the Redisson \
                 clients; write `--layout old` (Redisson up to 3.21.0) or `--layout new`",
                view.id
            ))
        })?;
        let Entries { by_layout, ready, dead, mut kept, confirmed, doubtful, elements } = entries;
        for element in &elements {
            if let Err(why) = put_back(element, layout) {
                *kept.entry(why).or_default() += 1;
            }
        }
        Ok(Plan {
            layout,
            by_layout,
            ready,
            dead,
            kept,
            ghosts: stats.source.leftovers.count as i64,
            confirmed,
            doubtful,
        })
    }

    pub(super) fn layout_name(&self) -> &'static str {
        layout_name(self.layout)
    }

    pub(super) fn tell(
        &self,
        output: Output,
        view: &View<'_>,
        at_work: Option<&str>,
        out: &mut dyn Write,
    ) -> Result<(), Failed> {
        let elements: usize = self.by_layout.values().sum();
        let other = if self.layout == Layout::New { "old" } else { "new" };
        let repacked = self.by_layout.get(other).copied().unwrap_or(0);
        if output == Output::Json {
            let answer = json!({
                "queue": view.id, "applied": false, "layout": self.layout_name(), "scheduled": elements,
                "repacked": repacked, "ready": self.ready, "dead": self.dead, "ghosts": self.ghosts,
                "kept": kept_json(&self.kept), "confirmed": self.confirmed_json(view), "doubtful": self.doubtful, "at_work": at_work,
            });
            writeln!(out, "{answer:#}")?;
            return Ok(());
        }
        writeln!(
            out,
            "{} would be scheduled again, in the {} layout",
            show::count(elements, "element"),
            self.layout_name()
        )?;
        if repacked > 0 {
            writeln!(out, "{} of them would be packed anew, under their ids", repacked)?;
        }
        writeln!(out, "{} would go to the head of the ready list", show::count(self.ready, "payload"))?;
        if self.dead > 0 {
            writeln!(out, "{} among them", show::count(self.dead, "dead letter"))?;
        }
        writeln!(out, "{} would be swept first", show::count(usize::try_from(self.ghosts).unwrap_or(0), "ghost"))?;
        if let Some(kept) = kept_text(&self.kept) {
            writeln!(out, "{kept} would stay")?;
        }
        self.tell_confirmed(view, out)?;
        if let Some(reason) = at_work {
            writeln!(out, "It would be refused now: {reason}")?;
        }
        writeln!(out, "Nothing was changed; --apply does it")?;
        Ok(())
    }

    /// What a Java consumer will see although a sink has it.
    pub(super) fn tell_confirmed(&self, view: &View<'_>, out: &mut dyn Write) -> Result<(), Failed> {
        for (id, sinks) in &self.confirmed {
            let names: Vec<_> = sinks.iter().map(|hash| view.sink_name(*hash)).collect();
            writeln!(out, "{id} had been confirmed by {}", names.join(", "))?;
        }
        if self.doubtful > 0 {
            let elements = show::count(self.doubtful, "element");
            writeln!(out, "{elements} may have arrived at a sink: the last delivery had no answer")?;
        }
        Ok(())
    }

    /// Elements whose last delivery had no answer.
    pub(super) fn doubtful(&self) -> usize {
        self.doubtful
    }

    pub(super) fn confirmed_json(&self, view: &View<'_>) -> Value {
        let names = |sinks: &[u64]| sinks.iter().map(|hash| view.sink_name(*hash)).collect::<Vec<_>>();
        self.confirmed.iter().map(|(id, sinks)| json!({ "id": id.to_string(), "sinks": names(sinks) })).collect()
    }
}

/// Everything that is held, counted.
#[derive(Default)]
struct Entries {
    by_layout: BTreeMap<&'static str, usize>,
    ready: usize,
    dead: usize,
    kept: BTreeMap<Kept, usize>,
    confirmed: Vec<(MessageId, Vec<u64>)>,
    doubtful: usize,
    /// The few whose length leaves their layout open, to be looked at when the fleet's is known.
    elements: Vec<Entry>,
}

impl Entries {
    /// Takes one up; a dead letter stands in no zset.
    fn add(&mut self, entry: Option<Entry>, place: Option<Place>) {
        let Some(entry) = entry else {
            *self.kept.entry(Kept::Unknown).or_default() += 1;
            return;
        };
        // In flight under a lease that is over: whoever held it may have sent it.
        if place == Some(Place::InFlight) || entry.header.class == Some(Class::Ambiguous) {
            self.doubtful += 1;
        }
        if !entry.header.confirmed.is_empty() {
            self.confirmed.push((crate::source::redisson::open_entry(&entry).0, entry.header.confirmed.clone()));
        }
        if entry.header.origin == Origin::Ready {
            self.ready += 1;
            return;
        }
        match layout::parse(&entry.element) {
            Ok(element) => {
                *self.by_layout.entry(layout_name(element.layout)).or_default() += 1;
                if entry.element.len() <= layout::FIXED {
                    self.elements.push(entry);
                }
            }
            Err(_) => *self.kept.entry(Kept::Junk).or_default() += 1,
        }
    }
}

/// The layout to put back in; `None` where two are met: one that the clients cannot read would jam them.
fn chosen(wanted: Fleet, scheduled: &[Layout], held: &BTreeMap<&'static str, usize>) -> Option<Layout> {
    match wanted {
        Fleet::Old => Some(Layout::Old),
        Fleet::New => Some(Layout::New),
        Fleet::Auto => {
            let met = |layout| scheduled.contains(&layout) || held.contains_key(layout_name(layout));
            match (met(Layout::Old), met(Layout::New)) {
                (true, true) => None,
                (true, false) => Some(Layout::Old),
                (false, _) => Some(Layout::New),
            }
        }
    }
}

/// `2 elements of no layout ..., 1 element written by ...`.
pub(super) fn kept_text(kept: &BTreeMap<Kept, usize>) -> Option<String> {
    let words: Vec<_> = kept
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(why, count)| format!("{} {}", show::count(*count, "element"), why.as_str()))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

pub(super) fn kept_json(kept: &BTreeMap<Kept, usize>) -> Value {
    kept.iter().map(|(why, count)| json!({ "count": count, "why": why.as_str() })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_queue_and_never_a_guess_between_two() {
        let held = |names: &[&'static str]| names.iter().map(|name| (*name, 1)).collect::<BTreeMap<_, _>>();
        let check = |wanted, scheduled: &[Layout], names: &[&'static str], expected| {
            assert_eq!(chosen(wanted, scheduled, &held(names)), expected, "{wanted:?} {scheduled:?} {names:?}");
        };
        check(Fleet::Auto, &[Layout::Old], &[], Some(Layout::Old));
        check(Fleet::Auto, &[Layout::Old], &["old"], Some(Layout::Old));
        check(Fleet::Auto, &[], &["old"], Some(Layout::Old));
        check(Fleet::Auto, &[], &[], Some(Layout::New));
        check(Fleet::Auto, &[], &["old", "new"], None);
        check(Fleet::Auto, &[Layout::Old, Layout::New], &[], None);
        // One overdue element of the old layout at the head, and a fleet that reads the new one.
        check(Fleet::Auto, &[Layout::Old], &["new"], None);
        check(Fleet::New, &[Layout::Old], &["old"], Some(Layout::New));
    }
}
