//! What would be restored, and where to: changes nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::name;
use super::{ConfirmedElement, KeptCount, Layout, RestoreOptions, Stay, entry, refusal};
use crate::error::{Attempted, Error};
use crate::release;
use crate::session::Queue;
use delaybridge_core::message::{Class, MessageId, Origin};
use delaybridge_ledger::claims::Element;
use delaybridge_ledger::{Place, sink_hash};
use delaybridge_model::Config;
use delaybridge_source::redisson::layout;
use delaybridge_source::redisson::{Kept, open_entry, put_back};

/// The changes that a restore would make.
#[derive(Debug, Clone, Serialize)]
pub struct RestorePlan {
    /// The queue.
    pub queue: String,
    /// Always false: nothing was changed.
    pub applied: bool,
    /// The layout that everything is restored in.
    pub layout: &'static str,
    /// Elements that would be scheduled again.
    pub scheduled: usize,
    /// Elements of these that would be repacked.
    pub repacked: usize,
    /// Payloads that would go to the head of the ready list.
    pub ready: usize,
    /// Dead letters among them all.
    pub dead: usize,
    /// Entries of Redisson's list that would be swept first.
    pub ghosts: u64,
    /// Elements that would stay.
    pub kept: Vec<KeptCount>,
    /// Elements that some sinks have confirmed.
    pub confirmed: Vec<ConfirmedElement>,
    /// Elements that may have arrived at a sink, because the last delivery had no answer.
    pub doubtful: usize,
    /// Why it would be refused now.
    pub at_work: Option<String>,
    #[serde(skip)]
    pub(super) to: Layout,
    #[serde(skip)]
    pub(super) options: RestoreOptions,
}

/// Finds out what would be restored.
///
/// # Errors
///
/// When Redis cannot be asked, and when it is open which layout is meant.
pub async fn plan(config: &Config, queue: &Queue, options: RestoreOptions) -> Result<RestorePlan, Error> {
    let at_work = refusal(queue).await?;
    let what = format!("read the held elements of `{}`", queue.id());
    let stats = queue.redisson().stats(&queue.conn).await.attempt(&what)?;
    let mut found = Entries::default();
    queue.each_member(Place::Retry, &what, |member| found.add(entry(member), Some(Place::Retry))).await?;
    for name in release::claims(queue, &what).await? {
        let contents = queue.redisson().claims().contents(&queue.conn, name).await.attempt(&what)?;
        contents.elements.into_iter().for_each(|element| found.add(Some(element), Some(Place::InFlight)));
        (0..contents.unknown).for_each(|_| found.add(None, Some(Place::InFlight)));
    }
    if options.dead {
        let mut pages = queue.letter_pages(&what).await?;
        while let Some(page) = pages.next().await? {
            found.dead += page.len();
            page.iter().for_each(|letter| found.add(letter.reborn().ok().and_then(entry), None));
        }
    }
    let scheduled = match options.layout {
        None => queue.redisson().layouts_scheduled(&queue.conn).await.attempt(&what)?,
        Some(_) => Vec::new(),
    };
    let to = chosen(options.layout, &scheduled, &found.by_layout).ok_or_else(|| {
        Error::invalid(format!(
            "restore `{}`: elements of both layouts are scheduled or held, and only one can be read by the Redisson \
             clients; write `--layout old` (Redisson up to 3.21.0) or `--layout new`",
            queue.id()
        ))
    })?;
    for why in found.elements.iter().filter_map(|element| put_back(element, to).err()) {
        found.kept.add(why);
    }
    let other = if to == Layout::New { Layout::Old } else { Layout::New };
    Ok(RestorePlan {
        queue: queue.id().to_owned(),
        applied: false,
        layout: name(to),
        scheduled: found.by_layout.values().sum(),
        repacked: found.by_layout.get(name(other)).copied().unwrap_or(0),
        ready: found.ready,
        dead: found.dead,
        ghosts: stats.source.leftovers.count,
        kept: found.kept.counts(),
        confirmed: found.confirmed.iter().map(|(id, sinks)| confirmed(config, queue, *id, sinks)).collect(),
        doubtful: found.doubtful,
        at_work,
        to,
        options,
    })
}

/// Everything that is held, counted.
#[derive(Default)]
struct Entries {
    by_layout: BTreeMap<&'static str, usize>,
    /// Payloads that came from the ready list.
    ready: usize,
    dead: usize,
    kept: Stay,
    confirmed: Vec<(MessageId, Vec<u64>)>,
    doubtful: usize,
    /// The few with an ambiguous length, until the layout of the clients is known.
    elements: Vec<Element>,
}

impl Entries {
    /// Counts one; a dead letter is in no sorted set.
    fn add(&mut self, entry: Option<Element>, place: Option<Place>) {
        let Some(entry) = entry else { return self.kept.add(Kept::Unknown) };
        // In flight under a lease that is over: its former owner may have sent it.
        if place == Some(Place::InFlight) || entry.header().class == Some(Class::Ambiguous) {
            self.doubtful += 1;
        }
        if !entry.header().confirmed.is_empty() {
            self.confirmed.push((open_entry(&entry).0, entry.header().confirmed.clone()));
        }
        if entry.origin() == Origin::Ready {
            self.ready += 1;
            return;
        }
        match layout::parse(&entry.bytes()) {
            Ok(element) => {
                *self.by_layout.entry(name(element.layout)).or_default() += 1;
                if entry.bytes().len() <= layout::FIXED {
                    self.elements.push(entry);
                }
            }
            Err(_) => self.kept.add(Kept::Junk),
        }
    }
}

/// Returns the sinks behind the hashes of a header.
fn confirmed(config: &Config, queue: &Queue, id: MessageId, hashes: &[u64]) -> ConfirmedElement {
    let sink = |hash: &u64| {
        let known = config.sinks.iter().map(|sink| &*sink.name);
        let mut known = known.chain(queue.spec.to.iter().map(|route| &*route.sink));
        let name = known.find(|name| sink_hash(name) == *hash);
        name.map_or_else(|| format!("a sink that is not in the configuration ({hash:016x})"), str::to_owned)
    };
    ConfirmedElement { id, sinks: hashes.iter().map(sink).collect() }
}

/// Returns the layout of the returned elements; `None` if both exist: an unreadable one would block the clients.
fn chosen(wanted: Option<Layout>, scheduled: &[Layout], held: &BTreeMap<&'static str, usize>) -> Option<Layout> {
    let met = |layout| scheduled.contains(&layout) || held.contains_key(name(layout));
    match (wanted, met(Layout::Old), met(Layout::New)) {
        (Some(layout), ..) => Some(layout),
        (None, true, true) => None,
        (None, true, false) => Some(Layout::Old),
        (None, false, _) => Some(Layout::New),
    }
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
        check(None, &[Layout::Old], &[], Some(Layout::Old));
        check(None, &[Layout::Old], &["old"], Some(Layout::Old));
        check(None, &[], &["old"], Some(Layout::Old));
        check(None, &[], &[], Some(Layout::New));
        check(None, &[], &["old", "new"], None);
        check(None, &[Layout::Old, Layout::New], &[], None);
        // One overdue element of the old layout at the head, and clients that read the new one.
        check(None, &[Layout::Old], &["new"], None);
        check(Some(Layout::New), &[Layout::Old], &["old"], Some(Layout::New));
    }
}
