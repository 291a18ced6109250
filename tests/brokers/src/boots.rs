//! A limit on servers that boot at the same time. Each keeps a processor busy for seconds; if ten boot at once on two
//! processors, all of them exceed their time-outs.

use std::sync::{Condvar, Mutex, PoisonError};

/// Maximum number of servers that boot at once.
const AT_ONCE: usize = 3;

static BOOTING: Mutex<usize> = Mutex::new(0);
static DONE: Condvar = Condvar::new();

/// A permit to boot, until it is dropped.
pub(crate) struct Boot(());

impl Boot {
    /// Waits for a permit. A restarted server needs none: its test waits for it.
    pub(crate) fn wait() -> Boot {
        let booting = BOOTING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = DONE.wait_while(booting, |booting| *booting >= AT_ONCE);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Boot(())
    }
}

impl Drop for Boot {
    fn drop(&mut self) {
        *BOOTING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        DONE.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn one_more_waits_until_another_is_done() {
        let mut all: Vec<Boot> = (0..AT_ONCE).map(|_| Boot::wait()).collect();
        let (done, waits) = sync_channel(1);
        let more = thread::spawn(move || {
            let boot = Boot::wait();
            done.send(()).expect("the test waits for it");
            drop(boot);
        });
        assert!(waits.recv_timeout(Duration::from_millis(50)).is_err(), "it boots beside all the others");
        all.pop();
        waits.recv().expect("it boots");
        more.join().expect("it ends");
    }
}
