//! The commands that bring the delivery of an element nearer. Pure.

use super::answer::{Cure, Obstacle, ObstacleKind, Remedy, Whereabouts};
use super::facts::WhyFacts;

/// Returns the commands against these obstacles, the most effective first.
pub(super) fn remedies(facts: &WhyFacts<'_>, state: Whereabouts, waits_for: &[Obstacle]) -> Vec<Remedy> {
    let mut all = Vec::new();
    let queue = word(facts.queue);
    let id = word(facts.id);
    let mut add = |command: String, effect: &str, cure: Option<Cure>| {
        let remedy = Remedy { command, effect: effect.to_owned(), cure };
        if !all.contains(&remedy) {
            all.push(remedy);
        }
    };
    for obstacle in waits_for {
        match obstacle.kind {
            ObstacleKind::Redrive => {
                let letter = facts.detail.and_then(|detail| detail.stream_id.as_deref()).map_or(id.clone(), word);
                add(
                    format!("delaybridge dead redrive {queue} {letter}"),
                    "redrives it: it is due now",
                    Some(Cure::RunNow),
                );
            }
            ObstacleKind::NoDaemon => add("delaybridge run".to_owned(), "starts a daemon that serves the queue", None),
            ObstacleKind::Mode => {
                add(
                    "delaybridge reload".to_owned(),
                    "applies `mode: deliver` once the configuration has it",
                    Some(Cure::Reload),
                );
            }
            ObstacleKind::Hold | ObstacleKind::Sink | ObstacleKind::Destination => {
                add(
                    "delaybridge check --live".to_owned(),
                    "tests the sinks and says what is wrong; once they answer, delivery goes on by itself",
                    None,
                );
            }
            ObstacleKind::DueTime => {
                add(format!("delaybridge run-now {queue} {id}"), "makes it due now", Some(Cure::RunNow))
            }
            ObstacleKind::BackOff => {
                add(
                    format!("delaybridge run-now {queue} {id}"),
                    "has it tried now; its attempts stay counted",
                    Some(Cure::RunNow),
                );
            }
            ObstacleKind::Claim
            | ObstacleKind::Pause
            | ObstacleKind::Before
            | ObstacleKind::Order
            | ObstacleKind::MaxRate => {}
        }
    }
    if !matches!(state, Whereabouts::Dead | Whereabouts::Gone) {
        for pause in facts.paused {
            match &pause.sink {
                None => {
                    let command = format!("delaybridge resume {queue}");
                    add(command, "ends the pause of the queue, for all of its elements", Some(Cure::ResumeQueue));
                }
                Some(sink) => {
                    let what = format!("delaybridge resume --sink {}", word(sink));
                    add(
                        what,
                        "ends the pause of the sink, for all queues that deliver to it",
                        Some(Cure::ResumeSink(sink.clone())),
                    );
                }
            }
        }
    }
    all
}

/// Returns a word of a shell: in quotes where it is not plain.
fn word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-:/+@%=,".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        for (text, expected) in
            [("orders", "orders"), ("a b", "'a b'"), ("o'r", r"'o'\''r'"), ("$(x)", "'$(x)'"), ("", "''")]
        {
            assert_eq!(word(text), expected);
        }
    }
}
