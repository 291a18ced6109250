//! Elements in two places, and entries that delaybridge holds and cannot read.
//!
//! Only where a source says that no two of its elements have the same bytes is a second copy a fault. Elsewhere its
//! programs may have added the same member once more, which is another element.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use bytes::Bytes;
use redis::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::held::{Held, place_of};
use super::leases::MEMBER;
use super::{COMPARED, Check, Fault, Found, MOST, Repair, Suspect, script};
use crate::claims::{ClaimName, Element, Header, Part};
use crate::dead::Order;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::packed::Shape;
use crate::page::{Kind, members};
use delaybridge_core::message::{MessageId, Origin};
use delaybridge_link::{Conn, Script};

static COPY: LazyLock<Script> = LazyLock::new(|| script("fsck_copy", include_str!("scripts/copy.lua")));
static HEADER: LazyLock<Script> = LazyLock::new(|| script("fsck_header", include_str!("scripts/header.lua")));

/// The place where an element is held, in the order of what stays: what is in flight, then what waits, then what is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Claim(ClaimName),
    Retry,
    Dead,
}

/// One element as it is held.
struct Copy {
    place: Place,
    key: Bytes,
    /// The exact member, or the id in the stream.
    member: Bytes,
    score: i64,
    /// The bytes that the source wrote; none for what cannot be read.
    element: Option<Bytes>,
    /// Payloads from a ready list may be equal, and are different elements.
    bare: bool,
}

impl Copy {
    /// Returns the bytes that no other element has, where the source has no two alike.
    fn unique(&self) -> Option<&Bytes> {
        self.element.as_ref().filter(|_| !self.bare)
    }
}

impl Ledger {
    /// Looks at everything that is in flight, waits or is dead.
    pub(super) async fn look_at_held(&self, conn: &Conn, found: &mut Found<'_>) -> Result<Held, StoreError> {
        let mut held = Held::default();
        let mut doubles = HashSet::new();
        let unleased = found.unleased.clone();
        self.each_copy(conn, &unleased, async |page: Vec<Copy>| {
            found.looked(page.len());
            for copy in &page {
                let Some(element) = &copy.element else {
                    found.add(self.unreadable(copy));
                    continue;
                };
                held.more |= held.hashes.len() >= COMPARED;
                if held.more {
                    continue;
                }
                held.bodies.extend(self.source.body_at(element).as_ref().map(place_of));
                let hash = xxh3_64(element);
                if !held.hashes.insert(hash) && !copy.bare && doubles.len() < MOST {
                    doubles.insert(hash);
                }
            }
            if self.source.repair().elements_are_unique() {
                self.look_in_schedules(conn, &page, found).await?;
            }
            Ok(())
        })
        .await?;
        if !self.source.repair().elements_are_unique() {
            found.not_checked(
                "elements in two places: the programs of this source may add the same member again, and both count",
            );
        } else if held.more {
            found.not_checked(format!("elements in two places beyond the first {COMPARED} that delaybridge holds"));
        }
        if !doubles.is_empty() && self.source.repair().elements_are_unique() {
            self.look_at_doubles(conn, &doubles, found).await?;
        }
        Ok(held)
    }

    /// Collects the places of the bodies of everything that is held now.
    pub(super) async fn held_bodies(&self, conn: &Conn, unleased: &[ClaimName]) -> Result<HashSet<u64>, StoreError> {
        let mut bodies = HashSet::new();
        self.each_copy(conn, unleased, async |page: Vec<Copy>| {
            let elements = page.iter().filter_map(|copy| copy.element.as_ref());
            bodies.extend(elements.filter_map(|element| Some(place_of(&self.source.body_at(element)?))));
            Ok(())
        })
        .await?;
        Ok(bodies)
    }

    /// Reads page by page what is in claims, in retry and dead.
    async fn each_copy(
        &self,
        conn: &Conn,
        unleased: &[ClaimName],
        mut see: impl AsyncFnMut(Vec<Copy>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let claims = self.claim_keys(conn).await?.into_iter().map(|claim| (claim.name, claim.part, claim.key));
        let parts = |name: &ClaimName| [Part::Bare, Part::Entries].into_iter().zip(self.keys.of_claim(*name));
        let others = unleased.iter().flat_map(|name| parts(name).map(|(part, key)| (*name, part, key)));
        let keys = claims.chain(others).map(|(name, part, key)| (Place::Claim(name), part, key));
        let retry = (Place::Retry, Part::Entries, self.keys.retry.clone());
        for (place, part, key) in keys.chain([retry]) {
            let mut first = 0;
            loop {
                let page = members(conn, &key, Kind::Zset, first).await?.members;
                if page.is_empty() {
                    break;
                }
                first += page.len();
                let copies = page.into_iter().map(|(score, member)| {
                    let score = score.map_or(0, |score| score.ceil_ms());
                    let (element, bare) = match part {
                        Part::Bare => (Some(member.clone()), false),
                        Part::Entries => {
                            let entry = Element::entry(member.clone(), score);
                            let bare = entry.as_ref().is_some_and(|entry| entry.origin() == Origin::Ready);
                            (entry.map(|entry| entry.bytes()), bare)
                        }
                    };
                    Copy { place, key: key.clone(), member, score, element, bare }
                });
                see(copies.collect()).await?;
            }
        }
        let mut letters = self.dead_letters(conn, Order::Oldest).await?;
        loop {
            let page = letters.next(conn, usize::MAX).await?;
            if page.is_empty() {
                return Ok(());
            }
            let copies = page.into_iter().filter_map(|letter| {
                // What another program added has no element: `dead ls` shows it, and nothing depends on it.
                let element = letter.bytes("element").cloned();
                let bare = letter.text("origin") != "delayed";
                let key = self.keys.dead.clone();
                let member = Bytes::from(letter.stream_id);
                Some(Copy { place: Place::Dead, key, member, score: 0, element: Some(element?), bare })
            });
            see(copies.collect()).await?;
        }
    }

    /// Looks for those of these that are scheduled too.
    async fn look_in_schedules(&self, conn: &Conn, page: &[Copy], found: &mut Found<'_>) -> Result<(), StoreError> {
        let copies: Vec<_> = page.iter().filter_map(|copy| Some((copy, copy.unique()?))).collect();
        if copies.is_empty() {
            return Ok(());
        }
        for schedule in self.source.schedules() {
            let mut command = redis::cmd("ZMSCORE");
            command.arg(&schedule[..]);
            copies.iter().for_each(|(_, element)| {
                command.arg(&element[..]);
            });
            let scores: Vec<Value> = conn.query(&command).await?;
            for ((copy, element), score) in copies.iter().zip(scores) {
                if score != Value::Nil {
                    found.add(self.scheduled_too(&schedule, copy, element));
                }
            }
        }
        Ok(())
    }

    /// Returns an element that is held and scheduled. What is held goes on, because it knows of earlier attempts; of a
    /// dead letter the scheduled copy does.
    fn scheduled_too(&self, schedule: &Bytes, copy: &Copy, element: &Bytes) -> Suspect {
        let subject = format!("element {}: scheduled, and {}", self.name_of(element), copy.place);
        if copy.place == Place::Dead {
            return self.drop_copy(subject, (schedule, element), (&copy.key, &copy.member));
        }
        let kept = Repair::Kept("the source has no way to take an element out of its schedule");
        match self.source.repair().unschedule(element, &copy.key, &copy.member) {
            Some(check) => Suspect::new(Fault::TwoPlaces, subject, Repair::Script, check),
            None => Suspect::new(
                Fault::TwoPlaces,
                subject,
                kept,
                Check::new(&MEMBER, vec![schedule.clone()], vec![element.clone()]),
            ),
        }
    }

    /// Reads the copies a second time, and collects those of what was seen twice.
    async fn look_at_doubles(
        &self,
        conn: &Conn,
        doubles: &HashSet<u64>,
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        let mut groups: HashMap<Bytes, Vec<(Place, Bytes, Bytes)>> = HashMap::new();
        self.each_copy(conn, &found.unleased, async |page: Vec<Copy>| {
            for copy in page {
                if let Some(element) = copy.unique().filter(|element| doubles.contains(&xxh3_64(element))).cloned() {
                    let copies = groups.entry(element).or_default();
                    if copies.len() < 16 {
                        copies.push((copy.place, copy.key, copy.member));
                    }
                }
            }
            Ok(())
        })
        .await?;
        for (element, mut copies) in groups {
            copies.sort();
            let Some(((first, kept_key, kept), others)) = copies.split_first() else { continue };
            for (place, key, member) in others {
                let subject = format!("element {}: {first}, and {place}", self.name_of(&element));
                // One that is dead in two letters is one that died twice: a person redrove it.
                if let (Place::Dead, Place::Dead) = (first, place) {
                    continue;
                }
                let mut suspect = self.drop_copy(subject, (kept_key, kept), (key, member));
                if matches!(place, Place::Claim(_)) {
                    suspect.repair =
                        Repair::Kept("both are in flight: the leases decide; look again when these claims have ended");
                }
                found.add(suspect);
            }
        }
        Ok(())
    }

    fn drop_copy(&self, subject: String, kept: (&Bytes, &Bytes), dropped: (&Bytes, &Bytes)) -> Suspect {
        let kind: &'static [u8] = if *dropped.0 == self.keys.dead { b"x" } else { b"z" };
        let args = vec![kept.1.clone(), Bytes::from_static(kind), dropped.1.clone()];
        let check = Check::new(&COPY, vec![kept.0.clone(), dropped.0.clone()], args);
        Suspect::new(Fault::TwoPlaces, subject, Repair::Script, check)
    }

    /// Returns a member of a claim or of retry without a header of this version.
    fn unreadable(&self, copy: &Copy) -> Suspect {
        let check = || Check::new(&MEMBER, vec![copy.key.clone()], vec![copy.member.clone()]);
        let subject = |what: &str| format!("{what} of {} bytes: {}", copy.member.len(), copy.place);
        if Element::damaged(copy.member.clone(), 0).is_some() {
            let kept = Repair::Kept("a daemon stores it as a dead letter when it claims it, with all of its bytes");
            return Suspect::new(Fault::UnknownEntry, subject("damaged entry"), kept, check());
        }
        // Of a version that is not known: the first byte is the same in all of them.
        let named = self.source.search().read(MessageId([0; 8]), &copy.member, copy.member.len());
        let readable = copy.member.first() != Some(&0xdb) && named.shape != Shape::Junk;
        if copy.place != Place::Retry || !readable {
            let kept = Repair::Kept("a newer version may have written it, and can read it");
            return Suspect::new(Fault::UnknownEntry, subject("entry"), kept, check());
        }
        let entry = [&Header::new(copy.score).encode()[..], &copy.member].concat();
        let args = vec![copy.member.clone(), entry.into()];
        let check = Check::new(&HEADER, vec![copy.key.clone()], args);
        Suspect::new(
            Fault::EntryWithoutHeader,
            format!("element {}: retry", self.name_of(&copy.member)),
            Repair::Script,
            check,
        )
    }

    /// Returns the name of an element for an operator.
    pub(super) fn name_of(&self, element: &Bytes) -> String {
        let read = self.source.search().read(MessageId([0; 8]), element, element.len());
        read.id.map_or_else(|| "of no known format".to_owned(), |id| id.to_string())
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Claim(name) => write!(f, "in flight in claim {name}"),
            Place::Retry => f.write_str("waiting for a retry"),
            Place::Dead => f.write_str("a dead letter"),
        }
    }
}
