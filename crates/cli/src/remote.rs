//! The options of commands that may ask a running daemon in place of Redis.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::answer::answer_of;
use super::errors::explain;
use super::failed::Failed;
use super::global::Global;
use super::input::{ids_of_stdin, input};
use super::load::load_queues;
use super::person::{actor, person};
use super::progress::ProgressLine;
use delaybridge_ops::operation::{Operation, Place, Remote, Scene};
use delaybridge_ops::progress::{ProgressWatch, Unwatched};
use delaybridge_ops::remote::Daemon;
use delaybridge_ops::{Error, ErrorKind, NamedDaemon};

// No doc comment: it would take the place of that of the command.
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// Admin API of the daemon to ask instead of Redis: http://HOST:PORT, or unix:PATH. No configuration is read
    #[arg(long = "daemon", value_name = "URL", env = "DELAYBRIDGE_DAEMON")]
    pub url: Option<String>,
    /// File with the token for it, or for that of the configuration (http.admin)
    #[arg(long, value_name = "FILE", env = "DELAYBRIDGE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
}

// No doc comment: --help takes what a command does from the operation.
#[derive(Debug, Args)]
pub struct OperationArgs<O: Args> {
    #[command(flatten)]
    request: O,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Defines the subcommands of operations.
macro_rules! subcommands_of {
    ($commands:ident: $($operation:ident)* $(; $($local:ident)*)?) => {
        /// An operation of operators as a command.
        #[derive(Debug, clap::Subcommand)]
        #[allow(clippy::enum_variant_names, reason = "the names are those of the operations")]
        pub enum $commands {
            $(
                #[command(name = $crate::remote::command_name::<delaybridge_ops::operations::$operation>())]
                $operation($crate::remote::OperationArgs<delaybridge_ops::operations::$operation>),
            )*
            $($(
                #[command(name = $crate::remote::command_name::<delaybridge_ops::operations::$local>())]
                $local(delaybridge_ops::operations::$local),
            )*)?
        }

        impl $commands {
            pub(super) async fn run(
                self,
                global: &$crate::global::Global,
                out: &mut (dyn std::io::Write + Send),
            ) -> Result<u8, $crate::failed::Failed> {
                match self {
                    $($commands::$operation(asked) => $crate::remote::carry_out(global, asked, out).await,)*
                    $($($commands::$local(asked) => $crate::remote::carry_out_here(global, &asked, out).await,)*)?
                }
            }
        }
    };
}
pub(super) use subcommands_of;

/// Returns the name of an operation behind that of its group.
pub(super) fn command_name<O: Operation>() -> &'static str {
    O::NAME.rsplit(' ').next().unwrap_or(O::NAME)
}

/// Carries out an operation where the arguments say, and prints its answer.
pub(super) async fn carry_out<O: Remote>(
    global: &Global,
    asked: OperationArgs<O>,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    let OperationArgs { mut request, daemon } = asked;
    request.name_person(person(None));
    request.confirm(std::io::stdin().is_terminal())?;
    let place = daemon.place(global)?;
    if request.names().is_some_and(|names| *names == ["-"]) {
        let found = call_for_names(&place, &mut request).await?;
        return print_answer(global, place.without_daemon(), &request, &found, out);
    }
    carry_out_at(global, &place, &request, out).await
}

/// Carries out an operation for the names on standard input, so many at a time as may be in memory.
async fn call_for_names<O: Remote>(place: &Place, request: &mut O) -> Result<O::Answer, Failed> {
    let mut watch = ProgressLine::start(O::NAME);
    let mut lines = 0;
    let mut all = None;
    loop {
        let some = ids_of_stdin(&mut lines)?;
        match all {
            Some(mut all) if some.is_empty() || watch.is_stopped() => {
                O::end(&mut all, watch.is_stopped());
                return Ok(all);
            }
            _ => {}
        }
        if let Some(names) = request.names() {
            *names = some;
        }
        let answer = place.call_whole(request, &mut watch).await?;
        all = Some(match all {
            None => answer,
            Some(mut all) => {
                O::add_rest(&mut all, answer);
                all
            }
        });
    }
}

/// Carries out an operation at a place, and prints its answer.
pub(super) async fn carry_out_at<O: Remote>(
    global: &Global,
    place: &Place,
    request: &O,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    let found = if O::LONG {
        place.call_watched(request, ProgressLine::start(O::NAME)).await?
    } else {
        place.call_whole(request, &mut Unwatched).await?
    };
    print_answer(global, place.without_daemon(), request, &found, out)
}

/// Carries out an operation that runs on Redis alone, and prints its answer.
pub(super) async fn carry_out_here<O: Operation>(
    global: &Global,
    request: &O,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    request.confirm(std::io::stdin().is_terminal())?;
    let scene = Scene::of_command(load_queues(global)?, actor(), NamedDaemon::default());
    let read = |what: &str, file: Option<&Path>| {
        input(what, file).map_err(|failed| Error { kind: ErrorKind::Invalid, message: failed.message })
    };
    let scene = scene.with_input(read);
    let scene = if O::LONG { scene.with_watch(ProgressLine::start(O::NAME)) } else { scene };
    let found = scene.carry_out(request).await?;
    // The line of the progress goes before the answer comes.
    drop(scene);
    print_answer(global, None, request, &found, out)
}

/// Prints an answer, and returns the exit code.
fn print_answer<O: Operation>(
    global: &Global,
    without_daemon: Option<String>,
    request: &O,
    found: &O::Answer,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    answer_of(global, out, without_daemon, found, |found| request.text(found, explain))?;
    O::missed(found).map_or(Ok(O::exit_code(found)), |problem| Err(Failed::runtime(problem)))
}

impl DaemonArgs {
    /// Returns the place where operations run: the daemon, if one was named, else here.
    pub(super) fn place(&self, global: &Global) -> Result<Place, Failed> {
        Ok(match &self.url {
            Some(url) => Place::Daemon(Daemon::at(url, self.token_file.as_deref())?),
            None => {
                let config = load_queues(global)?;
                let daemon = NamedDaemon::of(&config, self.token_file.as_deref())?;
                Place::Here(Scene::of_command(config, actor(), daemon))
            }
        })
    }
}
