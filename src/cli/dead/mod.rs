//! `dead`: what could not be delivered, one file a subcommand.

mod ls;
mod purge;
mod redrive;
mod show;

use std::io::Write;

use clap::{Args, Subcommand};

use super::session::{Queue, Session, attempted};
use super::{Failed, Global};
use crate::message::MessageId;
use crate::source::redisson::{DeadLetter, Order};

/// Look at dead letters, give them another life, or remove them.
///
/// A dead letter keeps the element's bytes as they came, and why it died. Nothing leaves the stream by itself.
///
/// in flight -> dead -> redrive: retry, due now | purge: gone
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum DeadCommand {
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Redrive(redrive::RedriveArgs),
    Purge(purge::PurgeArgs),
}

const AFTER: &str = "\
Examples:
  delaybridge dead ls order_timeout
  delaybridge dead show order_timeout 1795251632252-0
  delaybridge dead redrive order_timeout --all";

/// Which letters of a queue are meant.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Which {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Stream ids (1795251632252-0) or element ids (16 hexadecimal digits)
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all", value_parser = letter)]
    pub ids: Vec<String>,
    /// All letters that are there now
    #[arg(long)]
    pub all: bool,
}

/// The name of a letter, if it can be one.
fn letter(text: &str) -> Result<String, String> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let place = text.split_once('-').is_some_and(|(ms, number)| digits(ms) && digits(number));
    match place || text.parse::<MessageId>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("write a stream id (1795251632252-0) or an element's id (16 hexadecimal digits)".to_owned()),
    }
}

pub(super) async fn run(global: &Global, command: &DeadCommand, out: &mut dyn Write) -> Result<u8, Failed> {
    match command {
        DeadCommand::Ls(args) => ls::run(global, args, out).await,
        DeadCommand::Show(args) => show::run(global, args, out).await,
        DeadCommand::Redrive(args) => redrive::run(global, args, out).await,
        DeadCommand::Purge(args) => purge::run(global, args, out).await,
    }
}

/// Hands every letter that is meant to `act`, oldest first, a page at a time, and answers which names fit none.
async fn each<'a>(
    session: &Session,
    queue: &Queue,
    which: &'a Which,
    mut act: impl AsyncFnMut(Vec<DeadLetter>) -> Result<(), Failed>,
) -> Result<Vec<&'a str>, Failed> {
    let what = format!("read the dead letters of `{}`", which.queue);
    let (places, elements): (Vec<_>, Vec<_>) = which.ids.iter().partition(|id| id.contains('-'));
    let mut unmet: Vec<&str> = which.ids.iter().map(String::as_str).collect();
    for place in places {
        if let Some(letter) = queue.redisson.dead_letter(&session.conn, place).await.map_err(attempted(&what))? {
            unmet.retain(|name| name != place);
            act(vec![letter]).await?;
        }
    }
    if which.all || !elements.is_empty() {
        let mut letters = queue.redisson.dead_letters(&session.conn, Order::Oldest).await.map_err(attempted(&what))?;
        loop {
            let page = letters.next(&session.conn, usize::MAX).await.map_err(attempted(&what))?;
            if page.is_empty() {
                break;
            }
            let meant = |letter: &DeadLetter| which.all || elements.iter().any(|id| letter.is(id));
            let page: Vec<_> = page.into_iter().filter(meant).collect();
            unmet.retain(|name| !page.iter().any(|letter| letter.is(name)));
            if !page.is_empty() {
                act(page).await?;
            }
        }
    }
    Ok(unmet)
}

/// The end of a command that was given names which fit no letter.
fn not_found(queue: &str, unmet: &[&str], done: &str) -> Failed {
    Failed::runtime(format!(
        "find dead letters {} in `{queue}`: there are none; {done}; `delaybridge dead ls {queue}` lists those that are there",
        unmet.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_goes_by_a_stream_id_or_an_element_id() {
        for (text, good) in [
            ("1795251632252-0", true),
            ("52414e444f4d3842", true),
            ("52414e444f4d38", false),
            ("1795251632252", false),
            ("a-b", false),
            ("-", false),
        ] {
            assert_eq!(letter(text).is_ok(), good, "{text}");
        }
    }
}
