//! SIGTERM and SIGINT stop the daemon, SIGHUP requests a reload, and a second SIGTERM or SIGINT exits at once.
//!
//! They are handled on a thread of their own, so that the second signal works even if the runtime is stuck.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::sync::mpsc;

/// The request of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// Drain and exit; with the name of the signal.
    Stop(&'static str),
    /// Read the configuration again.
    Reload,
}

/// The queue of caught signals.
pub(super) struct Signals(mpsc::Receiver<Signal>);

impl Signals {
    /// Installs the handlers.
    pub(super) fn listen() -> io::Result<Signals> {
        let mut caught = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        // A full channel holds repetitions of what is already pending.
        let (sender, receiver) = mpsc::channel(8);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut stopping = false;
            for number in caught.forever() {
                let signal = match number {
                    SIGHUP => Signal::Reload,
                    _ if std::mem::replace(&mut stopping, true) => {
                        // Elements in flight come back when their leases expire.
                        tracing::warn!("second signal: exiting now");
                        std::process::exit(super::LEFTOVERS.into());
                    }
                    SIGTERM => Signal::Stop("SIGTERM"),
                    _ => Signal::Stop("SIGINT"),
                };
                if sender.try_send(signal).is_err() && sender.is_closed() {
                    return;
                }
            }
        })?;
        Ok(Signals(receiver))
    }

    /// Waits for the next signal. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            // The thread ends only with the receiver.
            None => std::future::pending().await,
        }
    }
}
