//! The model: jobs are added, with and without a unique key.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{AddVerdict, Job, Model, Place};

impl Model {
    pub(super) fn holder(&self, key: &str) -> Option<String> {
        let (until, finished, id) = self.keys.get(key)?;
        (*until > self.now && (!finished || self.jobs.contains_key(id))).then(|| id.clone())
    }

    /// Removes unique keys whose time is over, the oldest first.
    pub(super) fn free(&mut self, most: usize) {
        let mut over: Vec<_> = self.keys.iter().filter(|(_, (until, ..))| *until <= self.now).collect();
        over.sort_by_key(|(key, (until, ..))| (*until, key.as_str()));
        let over: Vec<String> = over.into_iter().take(most).map(|(key, _)| key.clone()).collect();
        self.keys.retain(|key, _| !over.contains(key));
    }

    /// Whether a job waits past the end of its time to live.
    pub(super) fn is_over(&self, id: &str) -> bool {
        let over = |job: &Job| matches!(job.place, Place::Due(_)) && job.expiry.is_some_and(|ends| ends <= self.now);
        self.jobs.get(id).is_some_and(over)
    }

    /// Adds jobs; returns the outcome of each, or `None` if the topic is full. Jobs past their time to live are removed first if they are in the way.
    pub fn add(&mut self, jobs: &[(String, Job)]) -> Option<Vec<AddVerdict>> {
        let stale = |(id, job): &(String, Job)| {
            let holder = job.unique.as_ref().and_then(|(key, ..)| self.holder(key));
            self.is_over(id) || !self.is_known(id, job) && holder.is_some_and(|holder| self.is_over(&holder))
        };
        if jobs.iter().any(stale) {
            self.tick(usize::MAX);
        }
        let added = self.add_swept(jobs);
        if added.is_some() || !self.jobs.values().any(|job| job.expiry.is_some_and(|ends| ends <= self.now)) {
            return added;
        }
        self.tick(usize::MAX);
        self.add_swept(jobs)
    }

    /// Whether there is a job with this id, or was one whose id is remembered.
    fn is_known(&self, id: &str, job: &Job) -> bool {
        self.jobs.contains_key(id) || job.own && self.gone.get(id).is_some_and(|until| *until > self.now)
    }

    fn add_swept(&mut self, jobs: &[(String, Job)]) -> Option<Vec<AddVerdict>> {
        let mut seen = BTreeSet::new();
        let mut keys: BTreeMap<&String, (i64, bool, String)> = BTreeMap::new();
        let mut verdicts = Vec::new();
        for (id, job) in jobs {
            let known = self.is_known(id, job) || seen.contains(id);
            let key = job.unique.as_ref();
            let holder =
                key.and_then(|(key, ..)| keys.get(key).map(|(.., id)| id.clone()).or_else(|| self.holder(key)));
            verdicts.push(match holder {
                _ if known => AddVerdict::There,
                Some(holder) => AddVerdict::Held(holder),
                None => {
                    seen.insert(id.clone());
                    keys.extend(key.map(|(key, lasts, finished)| (key, (self.now + lasts, *finished, id.clone()))));
                    AddVerdict::Created
                }
            });
        }
        let count = seen.len();
        let there = self.jobs.values().filter(|job| !matches!(job.place, Place::Dead(_))).count();
        if count > 0 && there + count > self.max_jobs {
            return None;
        }
        if !keys.is_empty() {
            self.free(2 * keys.len());
        }
        self.free_keys.retain(|key| !keys.contains_key(key));
        self.keys.extend(keys.into_iter().map(|(key, held)| (key.clone(), held)));
        for ((id, job), verdict) in jobs.iter().zip(&verdicts) {
            if *verdict == AddVerdict::Created {
                self.jobs.insert(id.clone(), job.clone());
                self.added += 1;
            }
        }
        Some(verdicts)
    }
}
