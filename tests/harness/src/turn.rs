//! Turns of tests that load the whole machine, so that each measures only itself. A test ends its turn when it only
//! waits.

use tokio::sync::{Mutex, MutexGuard};

/// Waits for the turn of a test that loads the machine; other tests run meanwhile.
pub async fn heavy() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}
