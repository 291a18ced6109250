//! SIGTERM and SIGINT stop the daemon, SIGHUP requests a reload, SIGUSR1 and SIGUSR2 only write a line.
//!
//! A stop is often asked for twice: GNU `timeout` signals the process and then its group, and a shell and a service manager
//! may each pass on what they got. So signals soon after the first are the same request, and only a later one cuts the drain.
//!
//! They are caught before anything else is done, and handled on a thread of their own, so that the later signal works even if
//! the runtime is stuck.

use std::ffi::c_int;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::exit_codes::LEFTOVERS;
use delaybridge_core::clock::Instant;
use delaybridge_core::log::{info, warn};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::{flag, iterator, low_level};
use tokio::sync::mpsc;

/// The signals of the daemon.
const CAUGHT: [c_int; 5] = [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2];
/// Time after the first SIGTERM or SIGINT in which another one is the same request.
const SAME: Duration = Duration::from_secs(2);
/// Time to count what is left. A lock may be held by a thread that is stuck.
const COUNT: Duration = Duration::from_secs(1);

/// The signals of the daemon, caught and not yet read.
pub struct CaughtSignals(iterator::Signals);

impl CaughtSignals {
    /// Catches the signals from now on. What comes before [`Signals::listen`] waits for it.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses the handlers.
    pub fn catch() -> io::Result<CaughtSignals> {
        Ok(CaughtSignals(iterator::Signals::new(CAUGHT)?))
    }

    /// Gives the signals their defaults again, for a command that is not the daemon. One that has come takes effect.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses the handlers.
    pub fn release(mut self) -> io::Result<()> {
        let always = Arc::new(true.into());
        for number in CAUGHT {
            flag::register_conditional_default(number, Arc::clone(&always))?;
        }
        self.0.pending().try_for_each(low_level::emulate_default_handler)
    }
}

/// The request of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// Drain and exit; with the name of the signal.
    Stop(&'static str),
    /// Read the configuration again.
    Reload,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Request(Signal),
    /// The stop that is under way was asked for once more.
    Same,
    /// The drain ends here.
    Cut,
    Ignored,
}

/// Returns the effect of a signal; `stopping` is the time since the first SIGTERM or SIGINT.
fn effect(number: c_int, stopping: Option<Duration>) -> Effect {
    match (number, stopping) {
        (SIGHUP, _) => Effect::Request(Signal::Reload),
        (SIGTERM | SIGINT, None) => Effect::Request(Signal::Stop(name(number))),
        (SIGTERM | SIGINT, Some(time)) if time < SAME => Effect::Same,
        (SIGTERM | SIGINT, Some(_)) => Effect::Cut,
        _ => Effect::Ignored,
    }
}

fn name(number: c_int) -> &'static str {
    low_level::signal_name(number).unwrap_or("a signal")
}

#[derive(Debug, Default)]
pub(super) struct InFlight {
    pub(super) elements: u64,
    /// The busy queues and sinks, shortened.
    pub(super) holders: String,
}

type Count = Box<dyn Fn() -> InFlight + Send + Sync>;

/// The queue of caught signals.
pub struct Signals {
    requests: mpsc::Receiver<Signal>,
    count: Arc<OnceLock<Count>>,
}

impl Signals {
    /// Returns whether a stop was asked for before the daemon runs, which takes the request.
    pub fn is_stopped(&mut self) -> bool {
        std::iter::from_fn(|| self.requests.try_recv().ok()).any(|signal| matches!(signal, Signal::Stop(_)))
    }

    /// Handles the signals that were caught, and those to come. Logging has been started.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses a thread.
    pub fn listen(mut caught: CaughtSignals) -> io::Result<Signals> {
        // A full channel holds repetitions of what is already pending.
        let (sender, requests) = mpsc::channel(8);
        let count: Arc<OnceLock<Count>> = Arc::default();
        let counted = count.clone();
        let run = move || {
            let mut first: Option<Instant> = None;
            for number in caught.0.forever() {
                match effect(number, first.map(Instant::elapsed)) {
                    Effect::Request(signal) => {
                        if let Signal::Stop(_) = signal {
                            first = Some(Instant::now());
                        }
                        // Ignore the error: the daemon no longer reads, because it ends.
                        let _ = sender.try_send(signal);
                    }
                    Effect::Same => info!(
                        signal = name(number),
                        "another signal to stop within {} s of the first: the drain goes on; a later one ends it at once",
                        SAME.as_secs()
                    ),
                    Effect::Ignored => info!(signal = name(number), "signal ignored: it has no meaning here"),
                    Effect::Cut => cut(number, counted.clone()),
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(run)?;
        Ok(Signals { requests, count })
    }

    /// Sets how to count the elements in flight, for the line of a drain that is cut.
    pub(super) fn count_with(&self, count: impl Fn() -> InFlight + Send + Sync + 'static) {
        // Ignore the error: it is set once.
        let _ = self.count.set(Box::new(count));
    }

    /// Waits for the next signal. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        match self.requests.recv().await {
            Some(signal) => signal,
            // The thread ends only with the process.
            None => std::future::pending().await,
        }
    }
}

/// Ends the process, with a line about what is left. That comes back when its leases expire.
fn cut(number: c_int, count: Arc<OnceLock<Count>>) -> ! {
    let (sender, counted) = sync_channel(1);
    let counting = std::thread::Builder::new().name("count".to_owned()).spawn(move || {
        // Ignore the error: the receiver has timed out.
        let _ = sender.send(count.get().map_or_else(InFlight::default, |count| count()));
    });
    let left = counting.ok().and_then(|_| counted.recv_timeout(COUNT).ok());
    let signal = name(number);
    let text = "another signal to stop: exiting now";
    match left {
        Some(InFlight { elements: 0, .. }) => warn!(signal, in_flight = 0, "{text}; nothing is in flight"),
        Some(InFlight { elements, holders }) => warn!(
            signal,
            in_flight = elements,
            holders,
            "{text}; what is in flight comes back when its leases expire, and may have been delivered"
        ),
        None => {
            warn!(signal, "{text}; what is in flight cannot be counted, and comes back when its leases expire")
        }
    }
    // Without the exit handlers of the process: see `end` in main.rs.
    low_level::exit(LEFTOVERS.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stop_that_comes_later_than_its_repetition_cuts_the_drain() {
        let check = |number, stopping: Option<u64>, expected| {
            let stopping = stopping.map(Duration::from_millis);
            assert_eq!(effect(number, stopping), expected, "{} after {stopping:?}", name(number));
        };
        check(SIGTERM, None, Effect::Request(Signal::Stop("SIGTERM")));
        check(SIGINT, None, Effect::Request(Signal::Stop("SIGINT")));
        for number in [SIGTERM, SIGINT] {
            check(number, Some(0), Effect::Same);
            check(number, Some(1_999), Effect::Same);
            check(number, Some(2_000), Effect::Cut);
            check(number, Some(60_000), Effect::Cut);
        }
        for stopping in [None, Some(0), Some(60_000)] {
            check(SIGHUP, stopping, Effect::Request(Signal::Reload));
            check(SIGUSR1, stopping, Effect::Ignored);
            check(SIGUSR2, stopping, Effect::Ignored);
        }
    }
}
