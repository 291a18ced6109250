//! Tests that load the whole machine take turns, so that each measures itself and not its neighbour. A test gives its turn
//! back where only waiting is left.

use tokio::sync::{Mutex, MutexGuard};

/// Waits for the turn of a test that loads the machine; the others run beside it.
pub async fn heavy() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}
