//! Notifies systemd: READY, STATUS, STOPPING, and WATCHDOG while `/livez` would answer 200.
//!
//! Runs on a thread of its own, like the probes, so that it still reports while the pipeline's runtime is stuck.
//! Without `NOTIFY_SOCKET` there is no thread. It depends on the status board only.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;

use delaybridge_telemetry::events::Events;
use delaybridge_telemetry::status::Status;

/// Maximum interval between two looks at the board; half of the watchdog's time if that is shorter.
const EVERY: Duration = Duration::from_secs(5);
/// Interval until the start is complete, because a person may be waiting.
const STARTING: Duration = Duration::from_millis(50);
/// Capacity of the queue of notifications while systemd does not read.
const ORDERS: usize = 16;
/// Time for closing sinks, Redis and the HTTP server after the drain.
const CLOSING: Duration = Duration::from_secs(5);

/// Sends notifications until it is stopped or dropped.
pub(super) struct Notifier(Option<Telling>);

struct Telling {
    orders: SyncSender<Order>,
    /// Closed when the thread has ended; nothing is ever sent.
    done: Receiver<()>,
}

/// A notification that is sent at once.
enum Order {
    Reloading,
    /// The reload has ended, successfully or not.
    Reloaded,
    /// The drain begins, with its longest duration.
    Stopping(Duration),
}

/// A handle that reports the begin and the end of reloads. Cheap to clone.
#[derive(Clone)]
pub(super) struct Words(Option<SyncSender<Order>>);

impl Words {
    /// Reports that a reload begins.
    pub(super) fn reloading(&self) {
        self.say(Order::Reloading);
    }

    /// Reports that the reload has ended, successfully or not.
    pub(super) fn reloaded(&self) {
        self.say(Order::Reloaded);
    }

    fn say(&self, order: Order) {
        if let Some(orders) = &self.0 {
            // Ignore the error: the queue is full only while systemd does not read; then it repeats the request or
            // gives up.
            let _ = orders.try_send(order);
        }
    }
}

impl Notifier {
    /// Starts the thread, if `NOTIFY_SOCKET` is set.
    pub(super) fn start(events: Events) -> io::Result<Notifier> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Notifier(None));
        }
        let status = events.status().clone();
        let watchdog = sd_notify::watchdog_enabled();
        let (orders, ordered) = sync_channel(ORDERS);
        // Nothing is ever sent: the end of the thread closes the channel.
        let (finished, done) = sync_channel(0);
        let mut reached = true;
        let send = move |states: &[NotifyState]| {
            let sent = sd_notify::notify(states);
            // Reported once until it works again.
            if let (Err(problem), true) = (&sent, reached) {
                events.service_manager_lost(&problem.to_string());
            }
            reached = sent.is_ok();
            reached
        };
        let run = move || {
            notify(&status, watchdog, &ordered, send);
            drop(finished);
        };
        thread::Builder::new().name("systemd".to_owned()).spawn(run)?;
        Ok(Notifier(Some(Telling { orders, done })))
    }

    /// Asks systemd for as much time as the configuration grants the drain, so that `TimeoutStopSec` need not be set.
    pub(super) fn stopping(&self, timeout: Duration) {
        if let Some(telling) = &self.0 {
            // Ignore the error: the queue is full only while systemd does not read.
            let _ = telling.orders.try_send(Order::Stopping(timeout));
        }
    }

    /// Returns a handle that reports reloads.
    pub(super) fn words(&self) -> Words {
        Words(self.0.as_ref().map(|telling| telling.orders.clone()))
    }

    /// Waits until everything is sent, because a drain may end before the thread has run; at most `within`, because
    /// systemd may not listen.
    pub(super) fn stop(self, within: Duration) {
        if let Some(Telling { orders, done }) = self.0 {
            drop(orders);
            // Ignore the result: closed and timed out both mean that there is nothing more to wait for.
            let _ = done.recv_timeout(within);
        }
    }
}

/// Sends each change of the board until the channel of orders is closed. `send` returns whether a notification was
/// delivered.
fn notify(
    status: &Status,
    watchdog: Option<Duration>,
    ordered: &Receiver<Order>,
    mut send: impl FnMut(&[NotifyState]) -> bool,
) {
    let mut ready_told = false;
    let mut line_told = String::new();
    loop {
        let ready = status.startup().ok;
        let line = status.headline();
        let mut states = Vec::new();
        if ready && !ready_told {
            states.push(NotifyState::Ready);
        }
        if line != line_told {
            states.push(NotifyState::Status(&line));
        }
        if watchdog.is_some() && status.live().ok {
            states.push(NotifyState::Watchdog);
        }
        if states.is_empty() || send(&states) {
            (ready_told, line_told) = (ready, line);
        }
        match ordered.recv_timeout(pause(ready, watchdog)) {
            // The timestamp distinguishes this reload from an earlier one.
            Ok(Order::Reloading) => match NotifyState::monotonic_usec_now() {
                Ok(now) => _ = send(&[NotifyState::Reloading, now]),
                Err(_) => _ = send(&[NotifyState::Reloading]),
            },
            // Before the start is complete, READY is sent by the next look.
            Ok(Order::Reloaded) if ready_told => _ = send(&[NotifyState::Ready]),
            Ok(Order::Reloaded) => {}
            Ok(Order::Stopping(timeout)) => {
                let most = timeout.saturating_add(CLOSING).as_micros().try_into().unwrap_or(u32::MAX);
                send(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(most)]);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Returns the interval between looks: half of the watchdog's time, as sd_watchdog_enabled(3) recommends, or less.
fn pause(ready: bool, watchdog: Option<Duration>) -> Duration {
    let longest = if ready { EVERY } else { STARTING };
    watchdog.map_or(longest, |time| longest.min(time / 2))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::mpsc;

    use super::*;

    /// Reads datagrams until one satisfies `wanted`. They arrive every few milliseconds.
    fn wait_for(manager: &UnixDatagram, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut buffer = [0; 4096];
        for _ in 0..10_000 {
            let length = manager.recv(&mut buffer).unwrap_or_else(|e| panic!("wait for {what}: {e}"));
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if wanted(&text) {
                return text;
            }
        }
        panic!("{what} did not come");
    }

    #[test]
    fn the_watchdog_is_fed_for_as_long_as_every_heart_beats() {
        let (manager, daemon) = UnixDatagram::pair().unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (sender, ordered) = mpsc::sync_channel(1);
        let status = Status::new();
        let heart = status.heartbeat("claimer orders", Duration::from_millis(500));
        heart.rest();
        let board = status.clone();
        let teller = thread::spawn(move || {
            let send = |states: &[NotifyState]| {
                let text: String = states.iter().map(|state| format!("{state}\n")).collect();
                daemon.send(text.as_bytes()).is_ok()
            };
            notify(&board, Some(Duration::from_millis(40)), &ordered, send);
        });
        let fed = |text: &str| text.contains("WATCHDOG=1");

        let first = wait_for(&manager, "the first words", |_| true);
        assert_eq!(first, "STATUS=not connected to Redis yet\nWATCHDOG=1\n");
        status.started();
        wait_for(&manager, "READY", |text| text.contains("READY=1"));

        heart.beat();
        let stuck = wait_for(&manager, "a missed beat", |text| text.contains("claimer orders silent for"));
        assert!(!fed(&stuck), "{stuck}");
        // The status line changes every second, so there is something to read, but no datagram feeds the watchdog.
        let later = wait_for(&manager, "the next line", |_| true);
        assert!(!fed(&later), "{later}");
        heart.rest();
        let again = wait_for(&manager, "the watchdog to be fed again", fed);
        assert!(!again.contains("READY"), "said once: {again}");

        sender.send(Order::Reloading).unwrap();
        let reloading = wait_for(&manager, "RELOADING", |text| text.contains("RELOADING=1"));
        assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
        sender.send(Order::Reloaded).unwrap();
        wait_for(&manager, "the end of the reload", |text| text == "READY=1\n");

        sender.send(Order::Stopping(Duration::from_secs(25))).unwrap();
        let last = wait_for(&manager, "STOPPING", |text| text.contains("STOPPING=1"));
        assert_eq!(last, "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000\n");
        drop(sender);
        teller.join().unwrap();
    }

    #[test]
    fn it_looks_at_least_twice_within_the_watchdogs_time() {
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(pause(true, None), EVERY);
        assert_eq!(pause(true, seconds(60)), EVERY);
        assert_eq!(pause(true, seconds(4)), Duration::from_secs(2));
        assert_eq!(pause(false, seconds(4)), STARTING);
    }
}
