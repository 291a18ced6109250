//! Log macros whose targets are independent of crates: `delaybridge::link::supervisor` for the module
//! `delaybridge_link::supervisor`, so that log filters name parts of the program.

#[doc(hidden)]
pub use tracing;

pub use crate::{debug, error, info, warn};

/// The path of a module as the target of its log lines.
#[doc(hidden)]
#[macro_export]
macro_rules! target {
    () => {{
        const BYTES: [u8; module_path!().len() + 1] = $crate::log::target_bytes(module_path!());
        $crate::log::target_text(&BYTES)
    }};
}

/// Logs a line that helps to find a fault.
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => { $crate::log::tracing::debug!(target: $crate::target!(), $($line)+) };
}

/// Logs a line that an operator expects.
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => { $crate::log::tracing::info!(target: $crate::target!(), $($line)+) };
}

/// Logs a line that an operator should look at.
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => { $crate::log::tracing::warn!(target: $crate::target!(), $($line)+) };
}

/// Logs a line that an operator must act on.
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => { $crate::log::tracing::error!(target: $crate::target!(), $($line)+) };
}

/// Returns the path with `::` instead of its first `_`, which is one byte longer.
#[doc(hidden)]
pub const fn target_bytes<const LENGTH: usize>(path: &str) -> [u8; LENGTH] {
    let path = path.as_bytes();
    let mut target = [b':'; LENGTH];
    let mut at = 0;
    let mut behind = 0;
    while at < path.len() {
        if path[at] == b'_' && behind == 0 {
            behind = 1;
        } else {
            target[at + behind] = path[at];
        }
        at += 1;
    }
    target
}

/// Returns the bytes as text.
#[doc(hidden)]
pub const fn target_text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a path of Rust is UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_target_names_the_part_of_the_program() {
        assert_eq!(crate::target!(), "delaybridge::core::log::tests");
        assert_eq!(&super::target_bytes::<28>("delaybridge_jobs::dead_jobs"), b"delaybridge::jobs::dead_jobs");
    }
}
