//! Steps of an operator, and their rules: rescheduling, cancelling, dead letters, redriving. They are in histories of
//! their own, so that the seeds of the others do not change.

use std::sync::Mutex;

use bytes::Bytes;
use delaybridge_ledger::claims::{Element, Header, Patch};
use delaybridge_ledger::{Acted, DeadLetter, Located, Place, Removal};
use delaybridge_link::{Clock, Score};
use delaybridge_source::redisson::Scripts;

use super::list::Treatment;
use super::rig::Rig;
use super::runner::{self, Trace};
use super::schedule;
use super::snapshot::{Scores, Snapshot, short};
use super::world::World;

/// Number of histories.
const SEEDS: u64 = 60;

/// An operator's call, which may be repeated at any later time.
#[derive(Clone, Debug)]
pub enum Order {
    At(Located, i64),
    Remove(Located),
    Kill(Located, Vec<(&'static str, Bytes)>),
    Redrive(DeadLetter, Bytes, Option<i64>),
}

fn score_of(number: f64) -> Score {
    Score::parse(&number.to_string()).expect("a number")
}

fn set<'a>(seen: &'a mut Snapshot, found: &Located) -> &'a mut Scores {
    if found.place == Place::Scheduled { &mut seen.z } else { &mut seen.retry }
}

/// The answer for an element that was found with this score; `None` if it can be moved.
fn refusal(seen: &mut Snapshot, found: &Located) -> Option<Acted> {
    match set(seen, found).get(&found.member) {
        None => Some(Acted::Gone),
        Some(score) if Some(score_of(*score)) != found.score => Some(Acted::Moved),
        Some(_) => None,
    }
}

/// The fields of a dead letter that a redrive needs.
fn letter(found: &Located, now: i64) -> Vec<(&'static str, Bytes)> {
    let element = match found.place {
        Place::Scheduled => Element::bare(found.member.clone(), now),
        _ => Element::entry(found.member.clone(), now).expect("an entry of this version"),
    };
    let text = |text: String| Bytes::from(text);
    vec![
        ("id", text("52414e444f4d3842".to_owned())),
        ("reason", text("killed".to_owned())),
        ("origin", text(element.origin().as_str().to_owned())),
        ("due_ms", text(now.to_string())),
        ("died_ms", text(now.to_string())),
        ("element", element.bytes()),
    ]
}

impl World<'_> {
    /// Runs one action of an operator, or repeats an earlier one.
    pub async fn operate(&mut self) {
        let order = match self.rng.u8(..4) {
            0 if !self.orders.is_empty() => self.rng.choice(&self.orders).cloned(),
            1 => self.redrive_some(),
            _ => self.move_some(),
        };
        let Some(order) = order else { return };
        self.orders.push(order.clone());
        self.carry_out(order).await;
    }

    fn move_some(&mut self) -> Option<Order> {
        let known = |member: &&Bytes| Header::decode(member).is_some();
        let (place, key, members) = if self.rng.bool() {
            (Place::Scheduled, self.keys.delayed.clone(), self.seen.z.keys().cloned().collect::<Vec<_>>())
        } else {
            let members = self.seen.retry.keys().filter(known).cloned().collect();
            (Place::Retry, self.keys.retry.clone(), members)
        };
        let member = self.rng.choice(members)?;
        let scores = if place == Place::Scheduled { &self.seen.z } else { &self.seen.retry };
        let mut score = scores[&member];
        // The displayed state is outdated.
        if self.rng.u8(..8) == 0 {
            score += 1.0;
        }
        let found = Located { place, key, member, score: Some(score_of(score)), claim: None };
        let now = self.now();
        Some(match self.rng.u8(..4) {
            0 => Order::Remove(found),
            1 => Order::Kill(found.clone(), letter(&found, now)),
            _ => Order::At(found, now + self.rng.i64(-2_000..20_000)),
        })
    }

    fn redrive_some(&mut self) -> Option<Order> {
        let killed = |(_, values): &&(String, Vec<Bytes>)| values.iter().any(|value| &value[..] == b"killed");
        let letters: Vec<_> = self.seen.dead.iter().filter(killed).cloned().collect();
        let (stream_id, values) = self.rng.choice(letters)?;
        let text = |name: &Bytes| String::from_utf8(name.to_vec()).expect("a name");
        let fields = values.chunks(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect();
        let letter = DeadLetter { stream_id, fields };
        let member = letter.reborn().expect("a letter of this test");
        let at = self.rng.bool().then(|| self.now() + self.rng.i64(0..20_000));
        Some(Order::Redrive(letter, member, at))
    }

    async fn carry_out(&mut self, order: Order) {
        let daemon = self.any_daemon();
        let mut expected = self.seen.clone();
        let now = self.now();
        let (what, wanted, taken) = self.predict_order(&order, &mut expected, now);
        let ledger = &self.daemons[daemon].redisson;
        let conn = &self.rig.conn;
        let acted = match &order {
            Order::At(found, at) => ledger.reschedule(conn, found, *at, None).await,
            Order::Remove(found) => ledger.remove(conn, found, &Removal::ForGood).await,
            Order::Kill(found, fields) => {
                ledger.remove(conn, found, &Removal::Dead { fields: fields.clone(), body: None }).await
            }
            Order::Redrive(letter, member, at) => {
                let moved = ledger.redrive(conn, letter, member.clone(), *at).await;
                moved.map(|moved| if moved { Acted::Done } else { Acted::Gone })
            }
        };
        let acted = acted.unwrap_or_else(|e| panic!("{what}: {e}"));
        self.note(format!("{what}: {acted:?}"));
        assert_eq!(acted, wanted, "{what}");
        match acted {
            Acted::Done => {
                let how = if taken.is_empty() { Treatment::None } else { Treatment::Claim { exact: true } };
                self.settled_as(&what, expected, &taken, how).await;
            }
            _ => self.unchanged(&what).await,
        }
    }

    /// The effect of an order, its answer, and the elements that leave L.
    fn predict_order(&self, order: &Order, after: &mut Snapshot, now: i64) -> (String, Acted, Vec<Bytes>) {
        match order {
            Order::At(found, at) => {
                let what = format!("an operator gives {} the time {at}", short(&found.member));
                let here = set(after, found).get(&found.member).copied();
                let wanted = match here {
                    Some(score) if score == *at as f64 => Acted::Already,
                    _ => refusal(after, found).unwrap_or(Acted::Done),
                };
                if wanted == Acted::Done {
                    set(after, found).insert(found.member.clone(), *at as f64);
                }
                (what, wanted, Vec::new())
            }
            Order::Remove(found) | Order::Kill(found, _) => {
                let what = format!("an operator takes {} out", short(&found.member));
                let wanted = refusal(after, found).unwrap_or(Acted::Done);
                let mut taken = Vec::new();
                if wanted == Acted::Done {
                    set(after, found).remove(&found.member);
                    if let Order::Kill(_, fields) = order {
                        let values = fields.iter().flat_map(|(name, value)| [Bytes::from(*name), value.clone()]);
                        after.dead.push((String::new(), values.collect()));
                    }
                    if found.place == Place::Scheduled {
                        taken.push(found.member.clone());
                    }
                }
                (what, wanted, taken)
            }
            Order::Redrive(letter, member, at) => {
                let what = format!("an operator redrives {}", letter.stream_id);
                let there = after.dead.iter().position(|(id, _)| *id == letter.stream_id);
                let place = there.filter(|_| !after.retry.contains_key(member));
                if let Some(place) = place {
                    after.dead.remove(place);
                    after.retry.insert(member.clone(), at.unwrap_or(now) as f64);
                }
                (what, place.map_or(Acted::Gone, |_| Acted::Done), Vec::new())
            }
        }
    }
}

#[test]
fn an_operator_s_orders_keep_every_element_in_one_state() {
    let run = async |rig: &mut Rig, seed, trace: Trace, loud| schedule::operated(rig, None, seed, trace, loud).await;
    runner::all_seeds(Rig::start, SEEDS, run);
}

/// Bugs that these histories detect.
const BUGS: &[(&str, &[Patch<'static>])] = &[
    (
        "an element is moved that is not what was seen",
        &[("reschedule", "if tonumber(score) ~= tonumber(ARGV[2]) then return 'c' end", "")],
    ),
    (
        "an element comes back that is gone",
        &[
            ("reschedule", "'XX', ARGV[3]", "ARGV[3]"),
            ("reschedule", "if not score then return 'n' end", "score = score or ARGV[2]"),
        ],
    ),
    ("a new time on a full Redis has no opening write", &[("reschedule", "open(Z)\n", "")]),
    (
        "an element is removed that is not what was seen",
        &[("remove", "if ARGV[2] ~= '' and tonumber(score) ~= tonumber(ARGV[2]) then return 'c' end", "")],
    ),
    (
        "a killed element stays",
        &[("remove", "redis.call('ZREM', Z, member)", "if n == 0 then redis.call('ZREM', Z, member) end")],
    ),
    (
        "a killed element is no letter",
        &[("remove", "if n > 0 then redis.call('XADD'", "if n > 99 then redis.call('XADD'")],
    ),
    ("a letter is made once more", &[("remove", "if not score then return 'n' end", "score = score or ARGV[2]")]),
    ("a removed element stays in L", &[("remove", "if ARGV[3] == 's' then drop(element) end", "")]),
    ("a removal on a full Redis has no opening write", &[("remove", "open(Z)\n", "")]),
    (
        "a redriven letter stays",
        &[(
            "redrive",
            "if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then",
            "if not redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1] then",
        )],
    ),
    ("a redriven letter is due at once", &[("redrive", "ARGV[3] == '' and now or ARGV[3]", "now")]),
];

#[test]
fn every_bug_in_an_operator_s_scripts_is_noticed() {
    let next = Mutex::new(BUGS.iter());
    let missed = Mutex::new(Vec::new());
    let take = || next.lock().expect("no one panics with it").next();
    runner::on_threads(3, async || {
        let mut rig = Rig::with_all_rights().await;
        while let Some((bug, patches)) = take() {
            let scripts = Box::leak(Box::new(Scripts::patched(Clock::Test, patches)));
            let mut noticed = false;
            for seed in 0..SEEDS {
                let history = schedule::operated(&mut rig, Some(scripts), seed, Trace::default(), false);
                noticed = runner::panic_of(history).await.is_some();
                if noticed {
                    break;
                }
            }
            if !noticed {
                missed.lock().expect("no one panics with it").push(bug);
            }
        }
    });
    let missed = missed.into_inner().expect("no one panicked with it");
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
