//! Consumers: most finish their jobs, some release or bury them, take too long, forget them, or vanish in the middle.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::client::{Outcome, ask};
use super::produce::says_that_nothing_was_done;
use super::{Handed, Notes, PATIENCE, Verdict, Way};
use crate::offers::{Answer, Book, QUEUES, now_ms};
use crate::payload::{number, payload};
use crate::plan::Plan;
use crate::stage::Stage;
use crate::what::Side;

/// Number of times that a consumer sends its verdict without an answer.
const TIMES: usize = 3;

/// A consumer of all topics.
pub struct Consumer {
    stage: Arc<Stage>,
    seed: u64,
    lease: Duration,
    random: Rng,
    notes: Arc<Notes>,
    book: Arc<Book>,
    calm: bool,
}

impl Consumer {
    pub fn new(stage: &Arc<Stage>, plan: &Plan, number: u64, notes: &Arc<Notes>, book: &Arc<Book>) -> Self {
        let random = Rng::with_seed(plan.seed.wrapping_mul(113).wrapping_add(number));
        let stage = Arc::clone(stage);
        let notes = Arc::clone(notes);
        let book = Arc::clone(book);
        Consumer { stage, seed: plan.seed, lease: plan.settings.lease, random, notes, book, calm: false }
    }

    /// Takes jobs for ever. When it is killed, its connection is closed, and another consumer begins.
    pub async fn run(mut self, calm: watch::Receiver<bool>) {
        let mut deaths = self.stage.consumers.subscribe();
        loop {
            self.calm = *calm.borrow();
            deaths.mark_unchanged();
            // Killed by the schedule, or at a random time.
            let life = match self.random.u32(..20) {
                0 if !self.calm => Duration::from_millis(self.random.u64(0..600)),
                _ => Duration::from_secs(60),
            };
            // Order does not matter: the first to end ends the turn.
            tokio::select! {
                _ = timeout(life, self.turn()) => {},
                _ = deaths.changed() => {},
            }
        }
    }

    /// Takes some jobs of one topic, or of several.
    async fn turn(&mut self) {
        let first = self.random.usize(..QUEUES.len());
        let topics = if self.random.bool() { QUEUES[first].to_owned() } else { QUEUES.join(",") };
        let count = self.random.u32(1..=8);
        let wait = self.random.u64(0..1_500);
        let path = format!("/v1/topics/{topics}/pop?count={count}&wait_ms={wait}");
        let reply = match self.ask("POST", &path, PATIENCE + Duration::from_millis(wait)).await {
            Outcome::Reply(reply) if reply.status == 200 => reply,
            // Nothing was handed out, or nothing arrived; then the jobs come back after their time to run.
            _ => return sleep(Duration::from_millis(100)).await,
        };
        let got_ms = now_ms();
        let answer = reply.json();
        let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
        // All are recorded before the first is processed.
        let noted: Vec<usize> = jobs.iter().map(|job| self.notes.add(self.handed(job, got_ms))).collect();
        for place in noted {
            self.work(place).await;
        }
    }

    fn handed(&self, job: &Value, got_ms: i64) -> Handed {
        let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
        let body = text("body");
        let deadline_ms = job["deadline_ms"].as_i64().unwrap_or(0);
        let n = number(body.as_bytes());
        let offer = n.and_then(|n| self.book.get(n)).zip(n);
        Handed {
            topic: QUEUES.iter().position(|name| *name == text("topic")).unwrap_or(QUEUES.len()),
            n,
            id: text("id"),
            token: text("token"),
            attempt: job["attempt"].as_u64().and_then(|attempt| attempt.try_into().ok()).unwrap_or(0),
            reserved_ms: deadline_ms - job["ttr_ms"].as_i64().unwrap_or(0),
            deadline_ms,
            got_ms,
            whole: offer.is_some_and(|(offer, n)| payload(self.seed, n, offer.size) == body.as_bytes()),
            verdict: None,
        }
    }

    async fn work(&mut self, place: usize) {
        let ttr = self.lease;
        let chance = if self.calm { 0 } else { self.random.u32(..100) };
        match chance {
            0..70 => self.say(place, Way::Finish).await,
            70..76 => {
                let delay_ms = self.random.i64(0..1_500);
                let counted = self.random.bool();
                self.say(place, Way::Release(delay_ms, counted)).await;
            }
            76..78 => self.say(place, Way::Bury).await,
            78..84 => {
                sleep(ttr / 3).await;
                self.touch(place).await;
                sleep(ttr * 4 / 5).await;
                self.say(place, Way::Finish).await;
            }
            // Too late, or just in time.
            84..94 => {
                sleep(ttr.mul_f64(0.9 + self.random.f64() / 3.0)).await;
                self.say(place, Way::Finish).await;
            }
            _ => {}
        }
    }

    async fn touch(&mut self, place: usize) {
        let (id, token) = self.key(place);
        let path = format!("/v1/jobs/{id}/touch?token={token}");
        let Outcome::Reply(reply) = self.ask("PUT", &path, PATIENCE).await else { return };
        if let (200, Some(deadline_ms)) = (reply.status, reply.json()["deadline_ms"].as_i64()) {
            self.notes.change(place, |handed| handed.deadline_ms = deadline_ms);
        }
    }

    /// Sends a verdict, repeatedly if no answer comes.
    async fn say(&mut self, place: usize, way: Way) {
        let (id, token) = self.key(place);
        let path = match way {
            Way::Finish => format!("/v1/jobs/{id}/finish?token={token}"),
            Way::Release(delay_ms, counted) => {
                format!("/v1/jobs/{id}/release?token={token}&delay_ms={delay_ms}&count_attempt={counted}")
            }
            Way::Bury => format!("/v1/jobs/{id}/bury?token={token}&reason=chaos"),
        };
        let sent_ms = now_ms();
        let mut sent_before = false;
        self.note(place, way, sent_ms, Answer::Unknown);
        for _ in 0..TIMES {
            let answer = match self.ask("PUT", &path, PATIENCE).await {
                Outcome::Reply(reply) if matches!(reply.status, 200 | 204) => Some(Answer::Yes),
                // An earlier one of these requests may have done it.
                Outcome::Reply(reply) if matches!(reply.status, 404 | 409) && sent_before => Some(Answer::Unknown),
                Outcome::Reply(reply) if matches!(reply.status, 404 | 409) => Some(Answer::No),
                Outcome::NotSent => None,
                Outcome::Reply(reply) if says_that_nothing_was_done(&reply) => None,
                Outcome::Reply(reply) if reply.problem() != "outcome-unknown" => {
                    panic!("{path}: {} {}", reply.status, String::from_utf8_lossy(&reply.body))
                }
                _ => {
                    sent_before = true;
                    None
                }
            };
            if let Some(answer) = answer {
                return self.note(place, way, sent_ms, answer);
            }
            sleep(Duration::from_millis(150)).await;
        }
        self.note(place, way, sent_ms, if sent_before { Answer::Unknown } else { Answer::No });
    }

    fn note(&self, place: usize, way: Way, sent_ms: i64, answer: Answer) {
        let verdict = Verdict { way, sent_ms, answered_ms: now_ms(), answer };
        self.notes.change(place, |handed| handed.verdict = Some(verdict));
    }

    fn key(&self, place: usize) -> (String, String) {
        let mut key = Default::default();
        self.notes.change(place, |handed| key = (handed.id.clone(), handed.token.clone()));
        key
    }

    async fn ask(&mut self, method: &str, path: &str, patience: Duration) -> Outcome {
        let seat = &self.stage.seats[self.random.usize(..self.stage.seats.len())];
        ask(seat.link(Side::Target).port(), method, path, b"", patience).await
    }
}
