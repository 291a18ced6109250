//! `top`: every queue live in a terminal.

mod screen;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::sync::mpsc;

use self::screen::{KeyAction, Screen};
use super::failed::Failed;
use super::global::Global;
use super::person::person;
use super::remote::DaemonArgs;
use delaybridge_ops::operation::Place;
use delaybridge_ops::operations::{Pause, Resume};
use delaybridge_ops::queues::overview;

/// Watch every queue live in the terminal.
///
/// Lateness, rates, holds and sinks are those of the daemon that the configuration names (http.admin), or of --daemon; where none
/// answers for these queues, the first line says why, and shown is what is in Redis. The keys are at the foot of the screen: sort,
/// filter, open a queue, pause it and resume it.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct TopArgs {
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Time between two looks
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = every)]
    pub every: Duration,
}

const AFTER: &str = "\
Examples:
  delaybridge top --daemon http://127.0.0.1:9465 --token-file /run/secrets/admin
  delaybridge top --config delaybridge.yaml

Exit codes: 0 left by a key, 1 failed, 2 wrong arguments or configuration";

/// The longest wait for a key, so that the end is noticed.
const KEYS: Duration = Duration::from_millis(100);

/// Returns a time between two looks: not so short that it is a load.
pub(super) fn every(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write 2s"))?;
    let fits = (Duration::from_millis(500)..=Duration::from_secs(3600)).contains(&time);
    if fits { Ok(time) } else { Err("at least 500ms, at most 1h".to_owned()) }
}

/// Carries out what a key asked for, and returns the outcome in words.
async fn act(place: &Place, action: &KeyAction) -> String {
    let (verb, queue, done) = match action {
        KeyAction::Pause(queue) => {
            let why = "paused in delaybridge top".to_owned();
            let request = Pause { queue: Some(queue.clone()), why, by: Some(person(None)), ..Pause::default() };
            ("pause", queue, place.call(&request).await)
        }
        KeyAction::Resume(queue) => {
            ("resume", queue, place.call(&Resume { queue: Some(queue.clone()), sink: None }).await)
        }
        KeyAction::Leave | KeyAction::Refresh => return String::new(),
    };
    match done {
        Ok(changes) => match changes.errors.first() {
            None => format!("{queue}: {verb} done"),
            Some(error) => format!("{verb} {queue}: {}", error.message),
        },
        Err(error) => error.message,
    }
}

pub(super) async fn run(global: &Global, args: &TopArgs) -> Result<u8, Failed> {
    if !std::io::stdout().is_terminal() {
        return Err(Failed::usage(
            "top: standard output is no terminal; `delaybridge queues --watch` writes plain text",
        ));
    }
    let place = args.daemon.place(global)?;
    // Before the screen is taken over, so that an error stays readable.
    let mut screen = Screen::new(place.address());
    let first = overview(&place, &screen.wanted()).await?;
    screen.saw(Ok(first), place.without_daemon());
    let mut terminal =
        ratatui::try_init().map_err(|error| Failed::runtime(format!("take over the terminal: {error}")))?;
    let result = watch(&place, &mut screen, &mut terminal, args.every).await;
    ratatui::restore();
    result.map(|()| 0).map_err(|error| Failed::runtime(format!("draw on the terminal: {error}")))
}

/// Looks once more.
async fn look(place: &Place, screen: &mut Screen) {
    let found = overview(place, &screen.wanted()).await.map_err(|error| error.message);
    screen.saw(found, place.without_daemon());
}

async fn watch(
    place: &Place,
    screen: &mut Screen,
    terminal: &mut ratatui::DefaultTerminal,
    every: Duration,
) -> std::io::Result<()> {
    let (send, mut keys) = mpsc::channel(64);
    // Reading keys blocks. The thread ends with the channel.
    std::thread::spawn(move || {
        while !send.is_closed() {
            match event::poll(KEYS).and_then(|there| if there { event::read().map(Some) } else { Ok(None) }) {
                Ok(Some(event)) => {
                    let _ = send.blocking_send(event);
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    });
    // The first is there already.
    let mut looks = tokio::time::interval(every);
    looks.tick().await;
    loop {
        terminal.draw(|frame| view::draw(frame, screen))?;
        // Order: a key goes first. What is not read yet stays in the channel.
        let event = tokio::select! {
            biased;
            event = keys.recv() => event,
            _ = looks.tick() => {
                look(place, screen).await;
                continue;
            }
        };
        let action = match event {
            None => return Ok(()),
            Some(Event::Key(key)) if key.kind == KeyEventKind::Press => screen.key(key),
            Some(_) => None,
        };
        match action {
            Some(KeyAction::Leave) => return Ok(()),
            Some(KeyAction::Refresh) => {}
            Some(action) => screen.tell(act(place, &action).await),
            None => continue,
        }
        look(place, screen).await;
        looks.reset();
    }
}

#[cfg(test)]
mod tests;
