//! Ctrl-C and SIGTERM for commands that end between two steps, and the exit code that a shell expects of them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown, register_usize};

/// The signals, with the codes of a process that they end: 128 and their numbers.
const SIGNALS: [(i32, u8); 2] = [(SIGINT, 130), (SIGTERM, 143)];

/// The code of the last signal; 0 before the first.
static CODE: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Returns a flag that the first signal sets. The second one ends the process.
///
/// # Errors
///
/// When signals cannot be caught: the first one ends the process.
pub(super) fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stopped = Arc::<AtomicBool>::default();
    for (signal, code) in SIGNALS {
        // In this order: the first signal finds the flag down and only raises it.
        register_conditional_shutdown(signal, code.into(), stopped.clone())?;
        register_usize(signal, CODE.clone(), code.into())?;
        register(signal, stopped.clone())?;
    }
    Ok(stopped)
}

/// Returns the exit code after a signal that a command has caught; `None` if there was none.
pub(super) fn exit_code() -> Option<u8> {
    u8::try_from(CODE.load(Ordering::Relaxed)).ok().filter(|code| *code > 0)
}
