//! The explanation of an element: a sentence, what is in its way, what would deliver it, what was tried.

use maud::{Markup, html};

use super::layout::{View, encoded};
use super::show::when;
use delaybridge_core::clock::utc;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::element::{Cure, ElementWhy, ObstacleKind, Whereabouts};

/// Returns the explanation, before all facts.
pub fn explanation(found: &ElementWhy, view: &View) -> Markup {
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
        @for remedy in &found.remedies {
            div.deeds {
                @if let Some(cure) = &remedy.cure { (button(cure, found, view)) }
                span.remedy { code { (remedy.command) } " " span.muted { (remedy.effect) } }
            }
        }
        @for note in &found.notes { p.muted { (note) } }
    }
}

/// Returns the remedy as a button, for who may.
fn button(cure: &Cure, found: &ElementWhy, view: &View) -> Markup {
    let form =
        |path: String, word: &str| html! { form method="post" action=(path) { button type="submit" { (word) } } };
    let queue = encoded(&found.queue);
    let operates = view.may(AccessRole::Operator, &found.queue);
    match cure {
        Cure::RunNow if operates => html! {
            form method="post" action={ (encoded(&found.id)) "/act" } {
                button name="deed" value="run-now" type="submit" { @if found.state == Whereabouts::Dead { "Redrive" } @else { "Run now" } }
            }
        },
        Cure::ResumeQueue if operates => form(format!("../../{queue}/resume"), "Resume the queue"),
        Cure::ResumeSink(sink) if view.may_all(AccessRole::Operator) => {
            form(format!("../../../sinks/{}/resume", encoded(sink)), "Resume the sink")
        }
        Cure::Reload if view.may_all(AccessRole::Admin) => form("../../../reload".to_owned(), "Reload"),
        _ => html! {},
    }
}

/// Returns the failed attempts that are known.
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

/// Returns the class of a note: what is in the way, and what only has its time.
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
