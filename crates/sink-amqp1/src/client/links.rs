//! The links of a connection: one for each address that has work, up to a limit.
//!
//! An address beyond the limit takes the place of an idle link. Where none is idle, its elements go to the anonymous terminus,
//! if the broker has one; else they wait here.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::frames::Performative;
use super::link::{Amqp1Link, DRY, LinkEnd, LinkLimits, LinkReply, OutputStuck, attempt};
use super::types::NotAmqp;
use crate::errors;
use crate::{Amqp1Destination, NAME};
use delaybridge_sink::output::FrameOutput;
use delaybridge_sink::worker_queue::WorkItem;

/// Age of an unused link: some brokers end it after ten minutes by themselves.
const UNUSED: Duration = Duration::from_secs(300);

pub(super) struct Amqp1Links {
    links: BTreeMap<u16, Amqp1Link>,
    by_address: HashMap<Arc<str>, u16>,
    /// Our channel for each of the broker's.
    by_peer: HashMap<u16, u16>,
    /// The channel of the anonymous terminus.
    any_address: Option<u16>,
    /// Elements of addresses without a link.
    without_link: VecDeque<(Arc<str>, WorkItem, Instant)>,
    limits: LinksLimits,
    /// The channel whose turn to send it is.
    turn: u16,
    /// The link of each address has a name of its own.
    names: String,
    named: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LinksLimits {
    /// Maximum number of addresses with a link.
    pub(super) most: usize,
    pub(super) channel_max: u16,
    /// The broker has an anonymous terminus.
    pub(super) relays: bool,
    /// Elements that may wait for an address without credit: one that takes nothing must not fill the room of all others.
    pub(super) share: usize,
    pub(super) link: LinkLimits,
}

impl Amqp1Links {
    /// Creates an empty set of links. `names` begins their names.
    pub(super) fn new(limits: LinksLimits, names: String) -> Amqp1Links {
        Amqp1Links {
            links: BTreeMap::new(),
            by_address: HashMap::new(),
            by_peer: HashMap::new(),
            any_address: None,
            without_link: VecDeque::new(),
            limits,
            turn: 0,
            names,
            named: 0,
        }
    }

    /// Counts the elements that have no answer.
    pub(super) fn load(&self) -> usize {
        self.links.values().map(Amqp1Link::load).sum::<usize>() + self.without_link.len()
    }

    pub(super) fn put(&mut self, item: WorkItem, out: &mut BytesMut) {
        match item.message().destination.of_kind(NAME) {
            Ok(Amqp1Destination { address, .. }) => {
                let address = address.clone();
                self.place(address, item, Instant::now(), out);
            }
            Err(failure) => item.finish(Err(failure)),
        }
    }

    fn place(&mut self, address: Arc<str>, item: WorkItem, since: Instant, out: &mut BytesMut) {
        // None overtakes another of its address.
        let behind_others = self.without_link.iter().any(|(other, ..)| *other == address);
        match if behind_others { None } else { self.channel_for(&address, out) } {
            Some(channel) => self.put_into(channel, item, since),
            None => self.without_link.push_back((address, item, since)),
        }
    }

    fn put_into(&mut self, channel: u16, item: WorkItem, since: Instant) {
        match self.links.get_mut(&channel) {
            Some(link) if link.waiting() < self.limits.share || !link.is_behind(Instant::now()) => {
                link.put(item, since)
            }
            Some(link) if !link.is_dry(Instant::now()) => {
                let failure = errors::little_credit(&attempt(&item), DRY);
                item.finish(Err(failure));
            }
            _ => {
                let failure = errors::no_credit(&attempt(&item), DRY);
                item.finish(Err(failure));
            }
        }
    }

    /// Asks whether an address, or without one the broker, is there.
    pub(super) fn ask(&mut self, question: Amqp1Question, out: &mut BytesMut) {
        let channel = match &question.address {
            Some(address) => self.channel_for(address, out),
            None => self.begin(LinkEnd::Session, out),
        };
        match channel.and_then(|channel| self.links.get_mut(&channel)) {
            Some(link) => link.ask(question.reply),
            None => {
                let _ = question.reply.send(Err(errors::no_link("ask the broker", self.limits.most)));
            }
        }
    }

    /// Finds the channel of the link for an address, which is begun if there is room.
    fn channel_for(&mut self, address: &Arc<str>, out: &mut BytesMut) -> Option<u16> {
        if let Some(channel) = self.by_address.get(address) {
            return Some(*channel);
        }
        let of_addresses = |link: &&Amqp1Link| matches!(link.to, LinkEnd::Address(_));
        if self.links.values().filter(of_addresses).count() < self.limits.most
            && let Some(channel) = self.begin(LinkEnd::Address(address.clone()), out)
        {
            return Some(channel);
        }
        let idle = self.links.iter().filter(|(_, link)| of_addresses(link) && link.is_idle());
        if let Some(channel) = idle.min_by_key(|(_, link)| link.used).map(|(channel, _)| *channel) {
            // Its channel is free when the broker has ended it too.
            self.end(channel, out);
            return None;
        }
        if self.limits.relays && self.any_address.is_none() {
            self.any_address = self.begin(LinkEnd::AnyAddress, out);
        }
        self.any_address
    }

    fn begin(&mut self, to: LinkEnd, out: &mut BytesMut) -> Option<u16> {
        let channel = (0..=self.limits.channel_max).find(|channel| !self.links.contains_key(channel))?;
        self.named += 1;
        let name = format!("{}-{}", self.names, self.named);
        if let LinkEnd::Address(address) = &to {
            self.by_address.insert(address.clone(), channel);
        }
        self.links.insert(channel, Amqp1Link::begin(to, channel, &name, self.limits.link, out));
        Some(channel)
    }

    /// Ends a link; nothing new is put there.
    fn end(&mut self, channel: u16, out: &mut BytesMut) {
        self.forget(channel);
        if let Some(link) = self.links.get_mut(&channel) {
            link.end(out);
        }
    }

    /// Puts nothing more into the link of this channel.
    fn forget(&mut self, channel: u16) {
        self.by_address.retain(|_, other| *other != channel);
        self.any_address = self.any_address.filter(|other| *other != channel);
    }

    /// Looks at a performative of the broker on one of its channels.
    pub(super) fn received(&mut self, peer: u16, what: Performative, out: &mut BytesMut) -> Result<(), NotAmqp> {
        if let Performative::Begin { of, .. } = &what {
            self.by_peer.insert(peer, of.ok_or(NotAmqp("a session that we have not begun"))?);
        }
        // What belongs to a session that has ended on both sides concerns nobody.
        let Some(channel) = self.by_peer.get(&peer).copied() else { return Ok(()) };
        let Some(link) = self.links.get_mut(&channel) else { return Ok(()) };
        match what {
            Performative::Begin { window, .. } => {
                link.begun(window);
                if link.to == LinkEnd::Session {
                    link.end(out);
                }
            }
            Performative::Attach { has_target, max_message } => link.attached(has_target, max_message),
            Performative::Flow(flow) => link.flow(flow, out),
            Performative::Disposition(of) => link.decided(of, out),
            Performative::Detach(error) => {
                link.fail(&error);
                self.end(channel, out);
            }
            Performative::End(error) => {
                link.fail(&error);
                if !link.is_ending() {
                    super::frames::end(out, channel);
                }
                self.forget(channel);
                self.links.remove(&channel);
                self.by_peer.remove(&peer);
                self.place_waiting(out);
            }
            Performative::Open(_) | Performative::Close(_) => {
                return Err(NotAmqp("a frame of the connection in a session"));
            }
        }
        Ok(())
    }

    /// Puts elements without a link into one, as far as there is room.
    fn place_waiting(&mut self, out: &mut BytesMut) {
        while let Some((address, ..)) = self.without_link.front() {
            let address = address.clone();
            let Some(channel) = self.channel_for(&address, out) else { return };
            // All of that address, in their order.
            let (here, others) = self.without_link.drain(..).partition(|(other, ..)| *other == address);
            self.without_link = others;
            for (_, item, since) in Vec::from(here) {
                self.put_into(channel, item, since);
            }
        }
    }

    /// Puts elements into the output as far as it has room, one link after the other.
    pub(super) fn send(&mut self, output: &mut FrameOutput, full: usize) {
        let behind: Vec<u16> = self.links.keys().copied().filter(|channel| *channel >= self.turn).collect();
        let before: Vec<u16> = self.links.keys().copied().filter(|channel| *channel < self.turn).collect();
        for channel in behind.into_iter().chain(before) {
            if output.bytes.len() >= full {
                self.turn = channel;
                return;
            }
            // No link fills the output alone.
            let full = full.min(output.bytes.len() + full / 4);
            if let Some(link) = self.links.get_mut(&channel) {
                link.send(output, full);
            }
        }
    }

    /// Answers what has waited for too long, and replaces links that are not trusted any more.
    pub(super) fn look(&mut self, now: Instant, output: &mut FrameOutput) -> Result<(), OutputStuck> {
        let mut again = Vec::new();
        let mut ended = Vec::new();
        let mut forgotten = Vec::new();
        for (channel, link) in &mut self.links {
            link.look(now, output)?;
            if !link.is_open() && !link.is_ending() {
                again.extend(link.take_waiting());
                forgotten.push(*channel);
            }
            let unused = link.is_idle() && now.saturating_duration_since(link.used) >= UNUSED;
            if unused || link.is_spent(now) {
                ended.push(*channel);
            }
        }
        for channel in forgotten {
            self.forget(channel);
        }
        for channel in ended {
            self.end(channel, &mut output.bytes);
        }
        for (item, since) in again {
            if let Ok(Amqp1Destination { address, .. }) = item.message().destination.of_kind(NAME) {
                let address = address.clone();
                self.place(address, item, since, &mut output.bytes);
            }
        }
        let patience = self.limits.link.patience;
        while self.without_link.front().is_some_and(|(.., since)| now.saturating_duration_since(*since) >= patience) {
            let Some((_, item, _)) = self.without_link.pop_front() else { break };
            let failure = errors::no_link(&attempt(&item), self.limits.most);
            item.finish(Err(failure));
        }
        self.place_waiting(&mut output.bytes);
        Ok(())
    }

    /// Ends all links that have nothing to do; whether none is left.
    pub(super) fn close(&mut self, out: &mut BytesMut) {
        let channels: Vec<u16> = self.links.keys().copied().collect();
        for channel in channels {
            self.end(channel, out);
        }
    }

    /// Answers everything: the connection has ended.
    pub(super) fn lose(&mut self, why: &str) {
        for link in self.links.values_mut() {
            link.lose(why);
        }
        for (_, item, _) in self.without_link.drain(..) {
            let failure = errors::lost(&attempt(&item), why, false);
            item.finish(Err(failure));
        }
    }
}

/// A question whether an address is there; without one, whether the broker is.
pub struct Amqp1Question {
    pub(super) address: Option<Arc<str>>,
    pub(super) reply: oneshot::Sender<LinkReply>,
}
