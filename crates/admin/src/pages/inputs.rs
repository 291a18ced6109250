//! The inputs whose jobs no queue delivers, on the overview and on the page of their topic.

use maud::{Markup, html};

use super::layout::encoded;
use delaybridge_ops::overview::TopicInput;
use delaybridge_ops::plural::duration;

/// Returns the inputs, for the overview; nothing without any.
pub fn section(inputs: &[TopicInput]) -> Markup {
    html! {
        @if !inputs.is_empty() {
            section aria-labelledby="inputs" {
                h2 #inputs { "Inputs " span.muted { "whose jobs clients take" } }
                div.scroll {
                    table.sinks {
                        thead {
                            tr { @for name in ["Input", "Topic", "State", "Since the start of this daemon"] { th scope="col" { (name) } } }
                        }
                        tbody { @for input in inputs { (row(input)) } }
                    }
                }
            }
        }
    }
}

fn row(input: &TopicInput) -> Markup {
    let TopicInput { name, topic, input } = input;
    let class = match input.state.as_str() {
        "up" => "good",
        "down" | "waiting" => "bad",
        "holding" => "warn",
        _ => "info",
    };
    html! {
        tr {
            th scope="row" { (name) }
            td data-label="Topic" { a href={ "topics/" (encoded(topic)) } { (topic) } }
            td.why data-label="State" {
                span class={ "badge " (class) } { (input.state) }
                " " span.muted { "for " (duration(input.seconds.saturating_mul(1_000))) }
                @if let Some(reason) = &input.reason { " " (reason) }
            }
            td data-label="Since the start of this daemon" { (input.numbers()) }
        }
    }
}

/// Returns the inputs of one topic, for its page.
pub fn of_topic(inputs: &[TopicInput], topic: &str) -> Markup {
    html! {
        @for TopicInput { name, input, .. } in inputs.iter().filter(|input| input.topic == topic) {
            p class=[input.is_in_trouble().then_some("bad")] {
                strong { "Input " (name) } ": " (input.words()) ". Since the start of this daemon: " (input.numbers()) "."
            }
        }
    }
}
