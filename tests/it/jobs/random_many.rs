//! Further calls of a random history: changes of waiting jobs, and verdicts on several jobs.

use std::time::Duration;

use delaybridge_jobs::{Due, Emptied, JobChange, JobError, LocalId, Release, Settled, Token};

use super::model::{ChangeVerdict, Verdict};
use super::random::{History, is_refused, job_id, local, verdict};
use super::rig::topic;

impl History<'_> {
    pub(super) async fn change(&mut self) {
        let ids: Vec<_> = self.model.jobs.keys().cloned().collect();
        let id = self.random.choice(&ids).cloned().unwrap_or_else(|| "nobody".to_owned());
        let now = self.model.now;
        let (due, at) = match self.random.u32(..4) {
            0 => (None, None),
            1 => (Some(Due::After(Duration::ZERO)), Some(now)),
            2 => {
                let delay = self.random.u64(..6_000);
                (Some(Due::After(Duration::from_millis(delay))), Some(now + delay as i64))
            }
            _ => {
                let at = now + self.random.i64(-3_000..20_000);
                (Some(Due::At(at)), Some(at))
            }
        };
        let priority = self.random.bool().then(|| self.random.u8(..10));
        let body = (due.is_none() && priority.is_none() || self.random.bool())
            .then(|| format!("changed {}", self.random.u32(..)));
        let was = self.model.due().into_iter().find(|(_, other)| *other == id).map_or(now, |(at, _)| at);
        // Sometimes what the client has seen is not true any more.
        let if_due_ms = self.random.bool().then(|| was + i64::from(self.random.u32(..4) == 0));
        let change = JobChange { due, priority, content_type: None, body: body.clone().map(Into::into), if_due_ms };
        let result = self.client().change(&job_id(&id), &change).await;
        let Some(result) = self.answered(result) else { return };
        self.note(format!("change {id} {change:?} -> {result:?}"));
        let got = |result: &Result<delaybridge_jobs::ChangeOutcome, JobError>| match result {
            Ok(done) => ChangeVerdict::Done(done.due_ms, done.changed),
            Err(JobError::NotFound) => ChangeVerdict::NotFound,
            Err(JobError::NotWaiting { .. }) => ChangeVerdict::NotWaiting,
            Err(JobError::OtherDue { due_ms }) => ChangeVerdict::OtherDue(*due_ms),
            Err(JobError::Invalid(_)) => ChangeVerdict::TooLate,
            Err(error) => panic!("{error}"),
        };
        let expected = self.model.change(&id, at, priority, body.as_deref(), if_due_ms);
        assert_eq!(got(&result), expected, "{:?}", self.trace);
        // The reply was lost: a repeated call finds the job as wanted.
        if let ChangeVerdict::Done(due_ms, _) = expected
            && self.random.bool()
        {
            let again = self.client().change(&job_id(&id), &change).await;
            assert!(
                is_refused(&again) || got(&again) == ChangeVerdict::Done(due_ms, false),
                "{again:?} {:?}",
                self.trace
            );
        }
    }

    /// Removes some of the waiting jobs.
    pub(super) async fn empty(&mut self) {
        let most = self.random.usize(1..8);
        let result = self.client().empty(&topic(), most as u64).await;
        let Some(result) = self.answered(result) else { return };
        let Emptied { removed, left } = result.expect("empty");
        self.note(format!("empty {most} -> {removed}, {left} left"));
        assert_eq!((removed, left), self.model.empty(most), "{:?}", self.trace);
    }

    /// Removes the topic, unless a consumer has a job of it.
    pub(super) async fn destroy(&mut self) {
        let force = self.random.u32(..4) == 0;
        let result = self.client().destroy(&topic(), force).await;
        self.note(format!("destroy, force {force} -> {result:?}"));
        let removed = match result {
            Ok(removed) => Some(removed),
            Err(JobError::InUse { reserved, forwarding: 0, .. }) => {
                assert_eq!(reserved, self.model.reserved().len() as u64, "{:?}", self.trace);
                None
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(removed, self.model.destroy(force), "{:?}", self.trace);
    }

    /// Finishes, touches or releases several jobs that consumers have, or had; some of them twice.
    pub(super) async fn settle_many(&mut self) {
        let count = self.random.usize(1..6);
        let held: Vec<(String, Token)> = (0..count).filter_map(|_| self.holder()).collect();
        let jobs: Vec<(LocalId, Token)> = held.iter().map(|(id, token)| (local(id), *token)).collect();
        if jobs.is_empty() {
            return;
        }
        let client = self.client();
        let now = self.model.now;
        match self.random.u32(..3) {
            0 => {
                let Some(done) = self.answered(client.finish_all(&topic(), &jobs).await) else { return };
                let done = done.expect("finish");
                self.note(format!("finish {held:?} -> {done:?}"));
                for ((id, token), done) in held.iter().zip(&done) {
                    assert_eq!(verdict(done), self.model.finish(id, token.as_str()), "{:?}", self.trace);
                }
            }
            1 => {
                let ttr = self.random.bool().then(|| self.random.u64(1..6_000));
                let touched = client.touch_all(&topic(), &jobs, ttr.map(Duration::from_millis)).await;
                let Some(touched) = self.answered(touched) else { return };
                let touched = touched.expect("touch");
                self.note(format!("touch {held:?} -> {touched:?}"));
                for ((id, token), touched) in held.iter().zip(&touched) {
                    match self.model.touch(id, token.as_str(), ttr.map(|ttr| ttr as i64)) {
                        Ok(until) => assert_eq!(*touched.as_ref().expect("touch"), until, "{:?}", self.trace),
                        Err(refused) => assert_eq!(verdict(touched), refused, "{:?}", self.trace),
                    }
                }
            }
            _ => {
                let delay = self.random.u64(..3_000);
                let after = Duration::from_millis(delay);
                let done = client.release_all(&topic(), &jobs, after, Release::Counted, "why").await;
                let Some(done) = self.answered(done) else { return };
                let done = done.expect("release");
                self.note(format!("release {held:?} {delay} -> {done:?}"));
                let held = held.iter().map(|(id, token)| (id.as_str(), token.as_str()));
                let expected = self.model.release_all(held, Some(delay as i64), true);
                let got = done.iter().map(|done| match done {
                    Ok((Settled::Done, due)) => {
                        assert_eq!(*due, now + delay as i64, "{:?}", self.trace);
                        Verdict::Done
                    }
                    Ok((Settled::Dead, _)) => Verdict::Dead,
                    Ok((Settled::Expired, _)) => Verdict::Expired,
                    Err(_) => verdict(done),
                });
                assert_eq!(got.collect::<Vec<_>>(), expected, "{:?}", self.trace);
            }
        }
    }
}
