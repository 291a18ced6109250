//! Where an operation runs: here, on Redis, or in a daemon.

use super::fields::RequestFields;
use super::{AskDaemon, Operation, Remote, Scene};
use crate::error::{Error, ErrorKind};
use crate::jobs::topic_named;
use crate::progress::{Pacer, ProgressWatch, Unwatched};
use crate::queue_state::place;
use crate::remote::Daemon;
use delaybridge_model::Config;

/// The place where an operation runs.
pub enum Place {
    /// This process, on Redis.
    Here(Scene),
    /// A daemon, over its admin API.
    Daemon(Daemon),
}

impl Place {
    /// Carries out an operation, and keeps what it changed.
    ///
    /// # Errors
    ///
    /// Those of the operation; and when the daemon does not answer.
    pub async fn call<O: Remote>(&self, request: &O) -> Result<O::Answer, Error> {
        match self {
            Place::Here(scene) => here(scene, request, beside(scene, request), request.run(scene)).await,
            Place::Daemon(daemon) => ask(daemon, request).await,
        }
    }

    /// Carries out an operation with as many requests as it takes, unless the person who waits ends it.
    pub async fn call_whole<O: Remote>(&self, request: &O, watch: &mut dyn ProgressWatch) -> Result<O::Answer, Error> {
        match self {
            Place::Here(scene) => {
                let run = whole(request, watch, |part: O| async move { part.run(scene).await });
                here(scene, request, beside(scene, request), run).await
            }
            Place::Daemon(daemon) => match request.nothing() {
                Some(answer) => Ok(answer),
                None => whole(request, watch, |part: O| async move { ask(daemon, &part).await }).await,
            },
        }
    }

    /// The same for a person who waits, and sees how far it is in one go as well as in portions.
    pub async fn call_watched<O: Remote>(
        &self,
        request: &O,
        watch: impl ProgressWatch + 'static,
    ) -> Result<O::Answer, Error> {
        let Place::Here(scene) = self else { return self.call_whole(request, &mut { watch }).await };
        scene.show(watch);
        let answer = self.call_whole(request, &mut &*scene).await;
        // The line of the progress goes before the answer comes.
        scene.show(Unwatched);
        answer
    }

    /// Connects, where one connection serves many calls, so that a failure is reported first.
    pub async fn connect(&self) -> Result<(), Error> {
        match self {
            Place::Here(scene) => scene.session().await.map(drop),
            Place::Daemon(_) => Ok(()),
        }
    }

    /// Returns the name of the server that is asked, for a person.
    pub fn address(&self) -> String {
        match self {
            Place::Here(_) => "Redis".to_owned(),
            Place::Daemon(daemon) => daemon.address(),
        }
    }

    /// Why the daemon that the configuration names added nothing to the last answer; none where it did, and where none is named.
    pub fn without_daemon(&self) -> Option<String> {
        match self {
            Place::Here(scene) => scene.named_daemon()?.problem(),
            Place::Daemon(_) => None,
        }
    }
}

/// Carries out an operation in portions, unless `watch` ends it; `step` carries out one.
pub async fn whole<O: Operation, F: Future<Output = Result<O::Answer, Error>>>(
    request: &O,
    watch: &mut dyn ProgressWatch,
    mut step: impl FnMut(O) -> F,
) -> Result<O::Answer, Error> {
    let mut rate = Pacer::new(request.rate());
    // Its first turn is at once. The next part waits for all of this one, so that no second has more than the rate.
    rate.turn().await;
    let mut paced = 0;
    let mut all = step(request.portion()).await?;
    let mut rest = request.rest(&all);
    while let Some(next) = &rest {
        let progress = request.progress(&all);
        watch.at(progress);
        while paced < progress.acted && !watch.is_stopped() {
            rate.turn().await;
            paced += 1;
        }
        if watch.is_stopped() {
            break;
        }
        let answer =
            step(next.portion()).await.map_err(|error| match request.change().filter(|_| progress.acted > 0) {
                Some(_) => Error {
                    message: format!(
                        "{} (after {} in the parts before; run it again to go on)",
                        error.message, progress.acted
                    ),
                    ..error
                },
                None => error,
            })?;
        rest = next.rest(&answer);
        O::add_rest(&mut all, answer);
    }
    O::end(&mut all, rest.is_some());
    Ok(all)
}

async fn ask<O: Remote>(daemon: &Daemon, request: &O) -> Result<O::Answer, Error> {
    let (method, path, body) = RequestFields::request(request)?;
    if O::HAS_LINES { daemon.ask_again(method, &path, body).await } else { daemon.ask(method, &path, body).await }
}

/// Returns the answer of the daemon that the configuration names, if it knows more than Redis and serves this very
/// queue.
async fn beside<O: Remote>(scene: &Scene, request: &O) -> Result<Option<O::Answer>, Error> {
    let (Some(named), Some(id)) = (scene.named_daemon(), request.queue()) else { return Ok(None) };
    if O::DAEMON == AskDaemon::Never {
        return Ok(None);
    }
    let place = place(&scene.queue(id).await?);
    Ok(match O::DAEMON {
        AskDaemon::WithToken => named.ask_with_token(id, &place, |daemon| ask(daemon, request)).await,
        _ => named.ask(id, &place, |daemon| ask(daemon, request)).await,
    })
}

impl Scene {
    /// Carries out an operation that runs on Redis alone, and keeps what it changed.
    pub async fn carry_out<O: Operation>(&self, request: &O) -> Result<O::Answer, Error> {
        here(self, request, async { Ok(None) }, request.run(self)).await
    }
}

/// Carries out an operation by `run`: checked before, and kept behind it. The answer of a daemon that knows more takes its place.
async fn here<O: Operation>(
    scene: &Scene,
    request: &O,
    beside: impl Future<Output = Result<Option<O::Answer>, Error>>,
    run: impl Future<Output = Result<O::Answer, Error>>,
) -> Result<O::Answer, Error> {
    if let Err(error) = request.check(scene.config()) {
        let queue = request.queue().filter(|_| request.change().is_none());
        return Err(of_topic(scene.config(), queue, error).await);
    }
    if let Some(answer) = beside.await? {
        return Ok(answer);
    }
    let answer = run.await;
    let refused = answer.as_ref().is_err_and(|error| matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unknown));
    if let Some(subject) = request.change().filter(|_| !refused) {
        let result = answer.as_ref().map(|answer| (O::result(answer), O::failed(answer)));
        let outcome = match &result {
            Ok((_, Some(problem))) => Err(problem.as_str()),
            Ok((result, None)) => Ok(result.as_str()),
            Err(error) => Err(error.message.as_str()),
        };
        if let Some(session) = scene.opened() {
            subject.keep_and_tell(session, &scene.by(request.person()), outcome).await;
        }
    }
    answer
}

/// Returns the error for a queue that the configuration does not have, where it is the name of a topic.
async fn of_topic(config: &Config, queue: Option<&str>, error: Error) -> Error {
    let (ErrorKind::Unknown, Some(name)) = (error.kind, queue) else { return error };
    let Ok(Some(_)) = topic_named(config, name).await else { return error };
    Error::unknown(format!(
        "{}; `{name}` is a topic of the job queue: name the queue that delivers it, or see `delaybridge jobs`",
        error.message
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead::{Letters, SweepPlace};
    use crate::operations::{Redrive, Redriven};
    use crate::progress::Progress;

    /// Ends an operation after so many looks at its progress.
    struct StopAfter(usize, Vec<Progress>);

    impl ProgressWatch for StopAfter {
        fn at(&mut self, step: Progress) {
            self.1.push(step);
        }

        fn is_stopped(&self) -> bool {
            self.1.len() >= self.0
        }
    }

    /// Redrives 100 letters, ten in a part; returns the outcome, the places at which parts began, and the time.
    async fn swept(looks: usize, fails_at: usize) -> (Result<Redriven, Error>, Vec<Option<String>>, StopAfter, u128) {
        let letters = Letters { queue: "q".to_owned(), all: true, rate: Some(10.0), ..Letters::default() };
        let mut begun = Vec::new();
        let mut watch = StopAfter(looks, Vec::new());
        let start = tokio::time::Instant::now();
        let step = |part: Redrive| {
            assert_eq!((part.letters.limit, part.letters.rate), (Some(10), None));
            begun.push(part.letters.after);
            let next = (begun.len() < 10).then(|| format!("{}-0..99-0", begun.len()));
            let place = Some(SweepPlace { next, examined: 20, total: 200 });
            let failed = begun.len() == fails_at;
            let done = Redriven { matched: 10, redriven: 10, part: place, ..Redriven::default() };
            async move { if failed { Err(Error::failed("no answer")) } else { Ok(done) } }
        };
        let outcome = whole(&Redrive { letters }, &mut watch, step).await;
        (outcome, begun, watch, start.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_goes_on_part_by_part_at_its_rate() {
        let (done, begun, watch, took) = swept(usize::MAX, usize::MAX).await;
        let done = done.unwrap();
        assert_eq!((done.redriven, done.stopped, done.part), (100, false, None));
        assert_eq!((begun.len(), begun[1].as_deref()), (10, Some("1-0..99-0")));
        assert_eq!(watch.1[2], Progress { done: 60, of: Some(200), acted: 30 });
        // There is no wait after the last part.
        assert_eq!(took, 9_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_ends_a_sweep_between_two_parts_and_a_failure_says_what_was_done() {
        let (done, begun, ..) = swept(3, usize::MAX).await;
        let done = done.unwrap();
        assert_eq!((done.redriven, done.stopped, begun.len()), (30, true, 3));
        let error = swept(usize::MAX, 4).await.0.unwrap_err().message;
        assert_eq!(error, "no answer (after 30 in the parts before; run it again to go on)");
        assert_eq!(swept(usize::MAX, 1).await.0.unwrap_err().message, "no answer");
    }
}
