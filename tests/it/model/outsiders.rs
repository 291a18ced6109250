//! Steps of all other clients: producers, Redisson's own scripts, operators, and deletions of keys.

use std::time::Duration;

use bytes::Bytes;
use delaybridge::message::{MessageId, Origin};
use delaybridge::source::ledger::{ClaimKey, Header};

use super::snapshot::{Snapshot, identity, short};
use super::world::{Sent, World};
use crate::harness::Layout;
use crate::harness::redisson::{Element, TRANSFER};

impl World<'_> {
    fn payload(&mut self) -> Vec<u8> {
        let length = match self.rng.u8(..40) {
            0 => 20_000,
            1..6 => 0,
            _ => self.rng.usize(..60),
        };
        let letter = self.rng.u8(..);
        vec![letter; length]
    }

    /// A new element; junk now and then, and now and then the twin of another: the same first 16 bytes.
    fn element(&mut self) -> Bytes {
        let layout = if self.rng.bool() { Layout::New } else { Layout::Old };
        let id = self.rng.u64(..).to_le_bytes();
        let payload = self.payload();
        let packed = Bytes::from(layout.pack(id, &payload));
        match self.rng.u8(..20) {
            0 => packed.slice(..self.rng.usize(..packed.len())),
            1 => (0..self.rng.usize(1..40)).map(|_| self.rng.u8(..)).collect(),
            2 => match self.rng.choice(self.seen.l.iter().chain(self.seen.z.keys()).cloned().collect::<Vec<_>>()) {
                Some(other) if other.len() > 16 => {
                    let tail: [u8; 4] = self.rng.u32(..).to_le_bytes();
                    [&other[..16], &other[17..], &tail].concat().into()
                }
                _ => packed,
            },
            _ => packed,
        }
    }

    /// No step offers an element with the identity of an orphan: a later record of it would be the orphan's end.
    fn offerable(&self, element: &Bytes) -> bool {
        !self.orphans.iter().any(|o| identity(o) == identity(element))
    }

    /// A producer offers: by Redisson's own script, or bytes of whatever kind.
    pub async fn offer_as_producer(&mut self) {
        let due_ms = self.now() + self.rng.i64(-3_000..20_000);
        if self.rng.u8(..4) == 0 {
            let layout = if self.rng.bool() { Layout::New } else { Layout::Old };
            let id = match layout {
                Layout::New => self.rng.u64(..).to_le_bytes(),
                Layout::Old => (self.rng.i64(..) as f64).to_le_bytes(),
            };
            let payload = self.payload();
            let member = layout.pack(id, &payload);
            let element = Element { id, payload, due_ms, member };
            self.queue.with_layout(layout).offer_script(&mut self.rig.redis, &element).await;
            self.note(format!("a producer offers {}", short(&element.member.into())));
        } else {
            let element = self.element();
            if !self.offerable(&element) || self.seen.z.contains_key(&element) {
                return;
            }
            if self.seen.copies(&element) > 0 {
                self.doubled.insert(element.clone());
            }
            let score = if self.rng.u8(..8) == 0 { due_ms as f64 + 0.5 } else { due_ms as f64 };
            let mut pipe = redis::pipe();
            pipe.zadd(&self.queue.timeouts, &element[..], score).rpush(&self.queue.list, &element[..]);
            pipe.exec_async(&mut self.rig.redis).await.unwrap();
            self.note(format!("a producer offers {} at {score}", short(&element)));
        }
        self.theirs_only("an offer").await;
    }

    /// The command line offers.
    pub async fn offer(&mut self, daemon: usize, element: Bytes, delay: Duration) {
        if !self.offerable(&element) {
            return;
        }
        self.daemons[daemon].sent.push(Sent::Offer { element: element.clone(), delay });
        let standing = self.seen.z.get(&element).copied();
        let source = &self.daemons[daemon].source;
        let (due, new) = source.offer(&self.rig.conn, element.clone(), delay).await.unwrap();
        self.note(format!("offer {} of {daemon}: due {due}, new {new}", short(&element)));
        assert_eq!(new, standing.is_none());
        if let Some(standing) = standing {
            assert_eq!(due, standing as i64);
            return self.unchanged("an offer of an existing element").await;
        }
        assert_eq!(due, self.now() + delay.as_millis() as i64);
        if self.seen.copies(&element) > 0 {
            self.doubled.insert(element.clone());
        }
        let mut expected = self.seen.clone();
        expected.z.insert(element.clone(), due as f64);
        self.seen.l.push(element);
        self.settled_as("offer", expected, &[], false).await;
    }

    /// A fresh element for [`offer`](Self::offer).
    pub async fn offer_new(&mut self, daemon: usize) {
        let element = self.element();
        let delay = Duration::from_millis(self.rng.u64(..20_000));
        self.offer(daemon, element, delay).await;
    }

    /// Payloads come to the ready list; equal ones are different elements.
    pub async fn push_ready(&mut self) {
        let payload = self.payload();
        let count = self.rng.usize(1..5);
        let payloads = vec![payload; count];
        self.queue.clone().push_ready(&mut self.rig.redis, &payloads).await;
        self.note(format!("{count} equal payloads on the ready list"));
        self.theirs_only("a push").await;
    }

    /// Redisson's transfer, `remove` or `poll`, of a client of one layout: it fails half way at the other one's.
    pub async fn redisson(&mut self) {
        let layout = if self.rng.bool() { Layout::New } else { Layout::Old };
        let (queue, now) = (self.queue.with_layout(layout), self.now());
        let what = match self.rng.u8(..3) {
            0 => {
                let script = queue.script(TRANSFER);
                let mut call = script.key(&queue.name);
                call.key(&queue.timeouts).key(&queue.list).arg(now).arg(100);
                format!("transfer: {:?}", call.invoke_async::<Option<String>>(&mut self.rig.redis).await)
            }
            1 => format!("poll: {:?}", queue.poll(&mut self.rig.redis).await),
            _ => {
                let payloads: Vec<_> = self.seen.l.iter().filter_map(|e| Some(layout.unpack(e)?.1.to_vec())).collect();
                let Some(payload) = self.rng.choice(payloads) else { return };
                format!("remove: {:?}", queue.remove(&mut self.rig.redis, &payload).await)
            }
        };
        self.note(what);
        self.theirs_only("a script of Redisson").await;
    }

    /// Z is gone, L is not.
    pub async fn delete_z(&mut self) {
        let orphans: Vec<_> = self.seen.z.keys().filter(|e| self.seen.copies(e) > 0).cloned().collect();
        let alike = |id: Bytes| self.seen.l.iter().filter(|e| identity(e) == id).count();
        // No set of identities can distinguish an orphan from a ghost with the same one.
        if orphans.iter().map(identity).any(|id| self.seen.records(&id) > 0 || alike(id) > 1) {
            return;
        }
        self.note(format!("Z deleted: {} orphans", orphans.len()));
        self.orphans.extend(orphans);
        let key = self.queue.timeouts.clone();
        self.rig.run(redis::cmd("DEL").arg(key)).await;
        self.theirs_only("the end of Z").await;
    }

    /// L is gone, Z is not.
    pub async fn delete_l(&mut self) {
        self.note("L deleted".to_owned());
        let key = self.queue.list.clone();
        self.rig.run(redis::cmd("DEL").arg(key)).await;
        self.theirs_only("the end of L").await;
    }

    /// A newer daemon leaves an entry: in flight or in retry, of any length.
    pub async fn newer_entry(&mut self) {
        let body: Vec<u8> = (0..self.rng.usize(..150)).map(|_| self.rng.u8(..)).collect();
        let member = [&[0xdb, 2][..], &body].concat();
        let keys = &self.daemons[0].source.keys;
        let key = if self.rng.bool() { keys.in_flight.clone() } else { keys.retry.clone() };
        let score = self.now() + self.rng.i64(-5_000..5_000);
        self.rig.run(redis::cmd("ZADD").arg(&key[..]).arg(score).arg(member)).await;
        self.note("an entry of a future version".to_owned());
        self.seen = self.look().await;
    }

    /// A daemon that is gone has left an entry in flight, with some expiries behind it.
    pub async fn entry_of_the_dead(&mut self) {
        let element = self.element();
        let mut header =
            Header::redriven(Origin::Delayed, MessageId([0; 8]), self.now() - 1, [9; 8], vec![self.rng.u64(..)]);
        header.expiries = self.rng.u16(..12);
        header.generation = u32::from(header.expiries) + self.rng.u32(1..4);
        header.key = ClaimKey { claim: self.rng.u64(..), index: 1 };
        let member = [&header.encode()[..], &element].concat();
        let key = self.daemons[0].source.keys.in_flight.clone();
        let until = self.now() + self.rng.i64(-5_000..5_000);
        self.rig.run(redis::cmd("ZADD").arg(&key[..]).arg(until).arg(member)).await;
        self.note(format!("a daemon is gone with {} after {} expiries", short(&element), header.expiries));
        self.seen = self.look().await;
    }

    /// What others did is theirs; but they did not touch what is ours.
    async fn theirs_only(&mut self, what: &str) {
        let after = self.look().await;
        let ours = |s: &Snapshot| {
            (s.in_flight.clone(), s.retry.clone(), s.ghosts.clone(), s.turn.clone(), s.state.clone(), s.dead.clone())
        };
        assert!(ours(&after) == ours(&self.seen), "{what} touched what is ours");
        self.orphans.retain(|o| after.l.contains(o));
        self.seen = after;
    }

    /// The command line cancels something scheduled or waiting, or something that is not there.
    pub async fn cancel_some(&mut self, daemon: usize) {
        let in_retry = self.rng.bool();
        let from: Vec<Bytes> = match in_retry {
            true => self.seen.retry.keys().cloned().collect(),
            false => self.seen.z.keys().cloned().collect(),
        };
        let Some(member) = self.rng.choice(from) else { return };
        self.daemons[daemon].sent.push(Sent::Cancel { member: member.clone(), in_retry });
        self.cancel(daemon, member, in_retry, false).await;
    }

    /// Sends a cancel.
    pub async fn cancel(&mut self, daemon: usize, member: Bytes, in_retry: bool, again: bool) {
        let mut expected = self.seen.clone();
        let there = match in_retry {
            true => expected.retry.remove(&member).is_some(),
            false => expected.z.remove(&member).is_some(),
        };
        let source = &self.daemons[daemon].source;
        let removed = source.cancel(&self.rig.conn, member.clone(), in_retry).await.unwrap();
        self.note(format!("cancel {} in retry {in_retry} of {daemon}, again {again}: {removed}", short(&member)));
        assert_eq!(removed, there, "cancel {}", short(&member));
        if !there {
            return self.unchanged("a cancel of what is not there").await;
        }
        let taken = if in_retry { Vec::new() } else { vec![member] };
        self.settled_as("cancel", expected, &taken, true).await;
    }

    /// The command line gives a dead letter another life.
    pub async fn redrive_some(&mut self, daemon: usize) {
        let Some((id, fields)) = self.rng.choice(self.seen.dead.clone()) else { return };
        let value = |name: &str| fields.chunks(2).find(|f| f[0] == name).unwrap()[1].clone();
        let origin = if value("origin") == "delayed" { Origin::Delayed } else { Origin::Ready };
        let number = |name| std::str::from_utf8(&value(name)).unwrap().parse::<i64>().unwrap();
        let message = MessageId(value("id")[..].try_into().unwrap());
        let mut header =
            Header::redriven(origin, message, number("time"), self.daemons[daemon].source.owner, Vec::new());
        header.generation = number("generation") as u32;
        let member = Bytes::from([&header.encode()[..], &value("element")].concat());
        self.daemons[daemon].sent.push(Sent::Redrive { id: id.clone(), member: member.clone() });
        self.redrive(daemon, &id, member, false).await;
    }

    /// Sends a redrive. An equal dead letter that waits for its new life already is not merged with this one.
    pub async fn redrive(&mut self, daemon: usize, id: &str, member: Bytes, again: bool) {
        let mut expected = self.seen.clone();
        let place = expected.dead.iter().position(|(dead, _)| dead == id);
        let moves = place.is_some() && !expected.retry.contains_key(&member);
        let source = &self.daemons[daemon].source;
        let moved = source.redrive(&self.rig.conn, id, member.clone()).await.unwrap();
        self.note(format!("redrive {id} as {} of {daemon}, again {again}: {moved}", short(&member)));
        assert_eq!(moved, moves, "redrive {id}");
        match place.filter(|_| moves) {
            None => self.unchanged("a redrive of what is not there").await,
            Some(place) => {
                expected.dead.remove(place);
                expected.retry.insert(member, self.now());
                self.settled_as("redrive", expected, &[], false).await;
            }
        }
    }
}
