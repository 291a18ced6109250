//! Dead letters: listed, shown, redriven and purged.

pub(crate) mod letter;

use serde::Serialize;

pub use self::letter::{Letter, Summary};
use super::error::{Attempt, Error};
use super::session::Queue;
use crate::source::ledger::{DeadLetter, Order, redis_now_ms};

/// Some dead letters of a queue.
#[derive(Debug, Clone, Serialize)]
pub struct DeadLetters {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// The letters, the latest first.
    pub dead_letters: Vec<Summary>,
}

/// One dead letter with everything that it keeps.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    /// The queue.
    pub queue: String,
    /// The letter.
    pub dead_letters: [Letter; 1],
}

/// Which letters are meant.
#[derive(Debug, Clone, Default)]
pub struct Which {
    /// Stream ids, or ids of elements.
    pub ids: Vec<String>,
    /// All current dead letters.
    pub all: bool,
}

/// What became of the letters that were redriven.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Redriven {
    /// The queue.
    pub queue: String,
    /// How many were redriven.
    pub redriven: usize,
    /// Letters that cannot be redriven.
    pub errors: Vec<LetterError>,
    /// Names that fit no letter.
    pub not_found: Vec<String>,
}

/// A letter that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LetterError {
    /// Its place in the stream.
    pub stream_id: String,
    /// What happened.
    pub message: String,
}

/// What became of the letters that were purged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Purged {
    /// The queue.
    pub queue: String,
    /// How many were removed.
    pub purged: usize,
    /// Names that fit no letter.
    pub not_found: Vec<String>,
}

/// Whether the text is a place in a stream (`1795251632252-0`), and so names a letter. An element's own text may look like one:
/// then the stream comes first.
pub fn is_place(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(ms, number)| digits(ms) && digits(number))
}

/// Lists at most `limit` letters, the latest first.
///
/// # Errors
///
/// When Redis cannot be asked.
pub async fn list(queue: &Queue, limit: usize) -> Result<DeadLetters, Error> {
    let what = format!("list the dead letters of `{}`", queue.id());
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let mut letters = queue.ledger.dead_letters(&queue.conn, Order::Newest).await.attempt(&what)?;
    let mut dead_letters = Vec::new();
    loop {
        let page = letters.next(&queue.conn, limit - dead_letters.len()).await.attempt(&what)?;
        if page.is_empty() {
            return Ok(DeadLetters { queue: queue.id().to_owned(), now_ms, dead_letters });
        }
        // The elements are not kept: a thousand letters may hold gigabytes.
        dead_letters.extend(page.iter().map(|letter| Summary::of(&queue.ledger, letter)));
    }
}

/// Shows everything that one letter keeps; of several with the same element's id, the latest.
///
/// # Errors
///
/// When there is none of this name, and when Redis cannot be asked.
pub async fn show(queue: &Queue, name: &str) -> Result<Shown, Error> {
    let which = Which { ids: vec![name.to_owned()], all: false };
    let mut latest = None;
    let not_found = each(queue, &which, async |page| {
        latest = page.into_iter().next_back();
        Ok(())
    })
    .await?;
    match latest {
        Some(letter) => Ok(Shown {
            queue: queue.id().to_owned(),
            dead_letters: [Letter::of(&queue.ledger, letter, queue.spec.codec, &queue.spec.classes)],
        }),
        None => Err(none_of(queue.id(), &not_found, "nothing was shown")),
    }
}

/// Makes elements of dead letters again, byte for byte, due now. What was redriven is not redriven twice.
///
/// # Errors
///
/// When Redis cannot be asked; the message says how many were redriven before.
pub async fn redrive(queue: &Queue, which: &Which) -> Result<Redriven, Error> {
    let mut answer = Redriven { queue: queue.id().to_owned(), ..Redriven::default() };
    let not_found = each(queue, which, async |page| {
        for letter in page {
            let member = match letter.reborn() {
                Ok(member) => member,
                Err(error) => {
                    answer.errors.push(LetterError { stream_id: letter.stream_id, message: error.to_string() });
                    continue;
                }
            };
            let what = format!(
                "redrive dead letter {} of `{}` ({} redriven before it; run the command again, nothing is redriven twice)",
                letter.stream_id, answer.queue, answer.redriven
            );
            // False: another client took it meanwhile.
            let moved = queue.ledger.redrive(&queue.conn, &letter, member).await.attempt(&what)?;
            answer.redriven += usize::from(moved);
        }
        Ok(())
    })
    .await?;
    answer.not_found = not_found;
    Ok(answer)
}

/// Removes dead letters for good.
///
/// # Errors
///
/// When Redis cannot be asked; the message says how many were removed before.
pub async fn purge(queue: &Queue, which: &Which) -> Result<Purged, Error> {
    let mut answer = Purged { queue: queue.id().to_owned(), ..Purged::default() };
    let not_found = each(queue, which, async |page| {
        let ids: Vec<_> = page.into_iter().map(|letter| letter.stream_id).collect();
        let what = format!("purge dead letters of `{}` ({} removed before)", answer.queue, answer.purged);
        answer.purged += queue.ledger.purge(&queue.conn, &ids).await.attempt(&what)?;
        Ok(())
    })
    .await?;
    answer.not_found = not_found;
    Ok(answer)
}

/// The end of an operation that was given names which fit no letter.
pub fn none_of(queue: &str, names: &[String], done: &str) -> Error {
    Error::not_found(format!(
        "find dead letters {} in `{queue}`: there are none; {done}; `delaybridge dead ls {queue}` lists those that are there",
        names.join(", ")
    ))
}

/// Hands every letter that is meant to `act`, the oldest first, a page at a time, and returns the names that fit none.
async fn each(
    queue: &Queue,
    which: &Which,
    mut act: impl AsyncFnMut(Vec<DeadLetter>) -> Result<(), Error>,
) -> Result<Vec<String>, Error> {
    let what = format!("read the dead letters of `{}`", queue.id());
    let (places, elements): (Vec<_>, Vec<_>) = which.ids.iter().partition(|id| is_place(id));
    let mut unmet = which.ids.clone();
    for place in places {
        if let Some(letter) = queue.ledger.dead_letter(&queue.conn, place).await.attempt(&what)? {
            unmet.retain(|name| name != place);
            act(vec![letter]).await?;
        }
    }
    if which.all || !elements.is_empty() {
        let each_page = queue.each_letter(&what, async |mut page| {
            page.retain(|letter| which.all || elements.iter().any(|id| letter.is(id)));
            unmet.retain(|name| !page.iter().any(|letter| letter.is(name)));
            if page.is_empty() { Ok(()) } else { act(page).await }
        });
        each_page.await?;
    }
    Ok(unmet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_id_is_no_element_id() {
        for (text, good) in [
            ("1795251632252-0", true),
            ("52414e444f4d3842", false),
            ("0f6b9a1e-58a3-4a52-9a9e-6c4bfb7d3a11", false),
            ("1795251632252", false),
            ("a-b", false),
            ("-", false),
        ] {
            assert_eq!(is_place(text), good, "{text}");
        }
    }
}
