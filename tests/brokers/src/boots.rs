//! A limit on servers that boot at the same time, over all test programs of the machine. Each keeps a processor busy for
//! seconds; if ten boot at once on two processors, all of them exceed their time-outs.

use std::fs::File;
use std::path::Path;
use std::thread;

use crate::ports::{lock_file, lock_folder};
use crate::process::LOOK;

/// A permit to boot, until it is dropped.
///
/// It is the lock of one of as many files as may boot at once, which the kernel ends with the process that has it.
pub(crate) struct Boot {
    _permit: File,
}

impl Boot {
    /// Waits for a permit. A restarted server needs none: its test waits for it.
    pub(crate) fn wait() -> Boot {
        let processors = thread::available_parallelism().map_or(2, usize::from);
        Boot::of(&lock_folder("boots"), processors.max(2))
    }

    /// Waits for one of so many permits.
    fn of(folder: &Path, most: usize) -> Boot {
        loop {
            for number in 0..most {
                let file = lock_file(&folder.join(number.to_string()));
                if file.try_lock().is_ok() {
                    return Boot { _permit: file };
                }
            }
            thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    #[test]
    fn one_more_waits_until_another_is_done() {
        let folder = tempfile::tempdir().expect("make a folder");
        let mut all: Vec<Boot> = (0..3).map(|_| Boot::of(folder.path(), 3)).collect();
        let (done, waits) = sync_channel(1);
        let path = folder.path().to_owned();
        let more = thread::spawn(move || {
            let boot = Boot::of(&path, 3);
            done.send(()).expect("the test waits for it");
            drop(boot);
        });
        assert!(waits.recv_timeout(Duration::from_millis(50)).is_err(), "it boots beside all the others");
        all.pop();
        waits.recv().expect("it boots");
        more.join().expect("it ends");
    }
}
