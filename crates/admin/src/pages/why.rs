//! The explanation of an element: a sentence, what is in its way, what would deliver it, what was tried.

use maud::{Markup, html};

use super::layout::encoded;
use super::show::when;
use delaybridge_core::clock::utc;
use delaybridge_ops::element::{ElementWhy, ObstacleKind, Whereabouts};

/// The explanation, before all facts.
pub fn explanation(found: &ElementWhy) -> Markup {
    html! {
        p.forecast { (found.summary) }
        @if found.state == Whereabouts::Gone {
            ul.attempts { @for event in &found.events { li { (when(event.at_ms, found.now_ms)) " " (event.fate) " " (event.sink.as_deref().unwrap_or_default()) } } }
        }
        @if !found.waits_for.is_empty() {
            ul.notes {
                @for obstacle in &found.waits_for {
                    li class=(class(obstacle.kind)) { strong { "Waits for " (obstacle.kind.words()) } ": " (obstacle.detail)
                        @if let Some(id) = &obstacle.element { " " a href=(encoded(id)) { "Why is that one there?" } }
                    }
                }
            }
        }
        @for remedy in &found.remedies { p { code { (remedy.command) } " " span.muted { (remedy.effect) } } }
        @for note in &found.notes { p.muted { (note) } }
    }
}

/// The failed attempts that are known.
pub fn attempts(found: &ElementWhy) -> Markup {
    html! {
        @if !found.attempts_seen.is_empty() {
            h2 { "Failed attempts " span.muted { (found.attempts) " of " (found.max_attempts) " counted: an outage of a sink costs none" } }
            div.scroll {
                table.cards {
                    thead { tr { th scope="col" { "Time" } th scope="col" { "Ago" } th scope="col" { "Sink" } th scope="col" { "Class" } th scope="col" { "Code" } } }
                    tbody {
                        @for seen in &found.attempts_seen {
                            tr {
                                th scope="row" { (utc(seen.at_ms)) }
                                td data-label="Ago" { (when(seen.at_ms, found.now_ms)) }
                                td data-label="Sink" { @if seen.sink.is_empty() { "–" } @else { (seen.sink) } }
                                td data-label="Class" { (seen.class) }
                                td data-label="Code" { code { (seen.code) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The class of a note: what is in the way, and what only has its time.
fn class(kind: ObstacleKind) -> &'static str {
    match kind {
        ObstacleKind::Redrive | ObstacleKind::NoDaemon | ObstacleKind::Hold | ObstacleKind::Sink => "bad",
        ObstacleKind::Mode | ObstacleKind::Pause | ObstacleKind::Destination => "warn",
        ObstacleKind::DueTime
        | ObstacleKind::BackOff
        | ObstacleKind::Claim
        | ObstacleKind::Before
        | ObstacleKind::Order
        | ObstacleKind::MaxRate => "info",
    }
}
