//! `top`: every queue live in a terminal.

mod screen;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::sync::mpsc;

use self::screen::{Screen, Wish};
use super::element::person;
use super::remote::DaemonArgs;
use super::{Failed, Global, load_queues};
use crate::operate::overview::{Overview, Sinks, Which, overview};
use crate::operate::pause::{PauseEnd, Reason, Target, pause, resume};
use crate::operate::remote::{self, Daemon};
use crate::operate::{Error, Session};

/// Watch every queue live in the terminal.
///
/// Over the admin API of a daemon (--daemon) it also shows lateness, rates, holds and sinks; over Redis, what is in Redis. The keys
/// are at the foot of the screen: sort, filter, open a queue, pause it and resume it.
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

/// How long a wait for a key lasts at most, so that the end is noticed.
const KEYS: Duration = Duration::from_millis(100);

/// A time between two looks: not so short that it is a load.
pub(super) fn every(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write 2s"))?;
    let fits = (Duration::from_millis(500)..=Duration::from_secs(3600)).contains(&time);
    if fits { Ok(time) } else { Err("at least 500ms, at most 1h".to_owned()) }
}

/// What is asked.
enum Place {
    Daemon(Daemon),
    Redis(Box<Session>),
}

impl Place {
    async fn look(&self) -> Result<(Overview, Option<Sinks>), Error> {
        match self {
            Place::Daemon(daemon) => {
                let (queues, sinks) = tokio::join!(remote::overview(daemon, ""), remote::sinks(daemon));
                Ok((queues?, Some(sinks?)))
            }
            Place::Redis(session) => {
                let which = Which { limit: session.config.queues.len().max(1), ..Which::default() };
                Ok((overview(session, &which).await?, None))
            }
        }
    }

    /// Does what a key asked for; what came of it, in words.
    async fn act(&self, wish: &Wish) -> String {
        let by = person(None);
        let reason = Reason { by: &by, why: "paused in delaybridge top", end: PauseEnd::Never };
        let (verb, done) = match (self, wish) {
            (Place::Daemon(daemon), Wish::Pause(queue)) => {
                ("pause", remote::pause(daemon, Target::Queue(queue), &reason).await)
            }
            (Place::Daemon(daemon), Wish::Resume(queue)) => {
                ("resume", remote::resume(daemon, Target::Queue(queue)).await)
            }
            (Place::Redis(session), Wish::Pause(queue)) => {
                ("pause", pause(session, Target::Queue(queue), &reason).await)
            }
            (Place::Redis(session), Wish::Resume(queue)) => ("resume", resume(session, Target::Queue(queue)).await),
            (_, Wish::Leave | Wish::Look) => return String::new(),
        };
        let queue = wish.queue().unwrap_or_default();
        match done {
            Ok(changes) => match changes.errors.first() {
                None => format!("{queue}: {verb} done"),
                Some(error) => format!("{verb} {queue}: {}", error.message),
            },
            Err(error) => error.message,
        }
    }
}

pub(super) async fn run(global: &Global, args: &TopArgs) -> Result<u8, Failed> {
    if !std::io::stdout().is_terminal() {
        return Err(Failed::usage(
            "top: standard output is no terminal; `delaybridge queues --watch` writes plain text",
        ));
    }
    let (place, name) = match args.daemon.daemon()? {
        Some(daemon) => {
            let name = daemon.address();
            (Place::Daemon(daemon), name)
        }
        None => (Place::Redis(Box::new(Session::open(load_queues(global)?).await?)), "Redis".to_owned()),
    };
    // The first look before the screen is taken: what is wrong is read in peace.
    let first = place.look().await?;
    let mut screen = Screen::new(name);
    screen.saw(Ok(first));
    let mut terminal =
        ratatui::try_init().map_err(|error| Failed::runtime(format!("take over the terminal: {error}")))?;
    let result = watch(&place, &mut screen, &mut terminal, args.every).await;
    ratatui::restore();
    result.map(|()| 0).map_err(|error| Failed::runtime(format!("draw on the terminal: {error}")))
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
                Ok(Some(event)) => drop(send.blocking_send(event)),
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
                screen.saw(place.look().await.map_err(|error| error.message));
                continue;
            }
        };
        let wish = match event {
            None => return Ok(()),
            Some(Event::Key(key)) if key.kind == KeyEventKind::Press => screen.key(key),
            Some(_) => None,
        };
        match wish {
            Some(Wish::Leave) => return Ok(()),
            Some(Wish::Look) => {}
            Some(wish) => {
                let told = place.act(&wish).await;
                screen.tell(told);
            }
            None => continue,
        }
        screen.saw(place.look().await.map_err(|error| error.message));
        looks.reset();
    }
}

#[cfg(test)]
mod tests;
