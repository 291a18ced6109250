//! The exchange of notes with the daemons that [share looks](super::lookers).

use std::sync::Arc;
use std::time::Duration;

use super::lookers::{Heard, PeerFate, PeerNews};
use super::pollers::pause;
use crate::registry::QueueRegistry;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::StoreError;
use delaybridge_telemetry::events::Events;

/// Time between two notes.
const NOTES: Duration = Duration::from_secs(1);
/// The same after a refusal: a right or another key takes a person, and what a stranger has put there is not read each second.
const REFUSED: Duration = Duration::from_secs(60);

/// Writes notes and reads those of others, until the process stops.
pub async fn run(registry: Arc<QueueRegistry>) {
    let process = registry.process().clone();
    let lookers = registry.lookers();
    let server = registry.server();
    let (mut was_refused, mut is_known) = (false, false);
    while !pause(&process, if was_refused { REFUSED } else { NOTES }).await.is_stopping() {
        let Some(note) = lookers.note().filter(|_| server.is_up()) else { continue };
        match server.share_looks(&note).await {
            Ok(notes) => {
                let Heard { ended, news } = lookers.hear(Instant::now(), notes);
                for PeerNews { daemon, fate, left } in &news {
                    let tell = match fate {
                        PeerFate::Stopped => Events::peer_stopped,
                        PeerFate::Silent => Events::peer_is_silent,
                        PeerFate::Back => Events::peer_is_back,
                    };
                    tell(&process.events, server.name(), daemon, *left);
                }
                // Without an answer they are removed another time.
                let _ = server.forget_lookers(&ended).await;
                (was_refused, is_known) = (false, true);
            }
            Err(error) if is_for_a_person(&error) => {
                if !was_refused {
                    process.events.looks_are_not_shared(server.name(), &error.to_string());
                }
                was_refused = true;
            }
            // Nobody is heard: this daemon looks by itself.
            Err(_) => {}
        }
    }
    if is_known && server.is_up() {
        // The others look at once, and not after some silence.
        let _ = server.forget_lookers(std::slice::from_ref(lookers.own())).await;
    }
}

/// Returns whether notes are refused until a person changes something, and not only while Redis is full or away.
fn is_for_a_person(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused { code: "NOPERM" | "WRONGTYPE", .. } | StoreError::Malformed(_))
}
