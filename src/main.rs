//! The daemon's biography: arguments, configuration, telemetry, run, exit code.

use std::io::Write;
use std::sync::Arc;

use clap::FromArgMatches;
use delaybridge::app;
use delaybridge::app::{CaughtSignals, ConfigFile, Signals};
use delaybridge_cli as cli;
use delaybridge_cli::{Cli, Command, Failed, Global, RunArgs};
use delaybridge_telemetry as telemetry;
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Maximum number of worker threads. The time is spent in Redis and the sinks, so more threads only cost memory.
const MOST_THREADS: usize = 4;

fn main() {
    // First of all, because a signal that is not caught ends the process. Other commands leave their signals as they are.
    let caught = std::env::args_os().any(|argument| argument == "run").then(CaughtSignals::catch);
    // Invalid arguments end here, with exit code 2 and a usage line.
    let Cli { global, command } =
        Cli::from_arg_matches(&Cli::grouped().get_matches()).unwrap_or_else(|error| error.exit());
    let result = match command {
        Command::Run(args) => {
            caught.unwrap_or_else(CaughtSignals::catch).map_err(signals).and_then(|caught| run(&global, &args, caught))
        }
        command => {
            let released = caught.map_or(Ok(()), |caught| caught.and_then(CaughtSignals::release));
            released.map_err(signals).and_then(|()| execute(&global, command))
        }
    };
    end(result.unwrap_or_else(|failed| report(&failed)))
}

/// Ends the process without its exit handlers. Those of OpenSSL free what the threads of librdkafka still use while they
/// close their connections: now and then a clean stop ended with SIGABRT instead of its exit code.
fn end(code: u8) -> ! {
    // Ignore the error: the output is closed, and a command that has to know flushes by itself.
    let _ = std::io::stdout().flush();
    signal_hook::low_level::exit(i32::from(code))
}

fn run(global: &Global, args: &RunArgs, caught: CaughtSignals) -> Result<u8, Failed> {
    // Before anything that takes time: a signal may write a line.
    telemetry::logging::init(args.log_format.into(), args.log.as_deref())
        .map_err(|error| Failed { code: 2, message: error.to_string() })?;
    let mut signals = Signals::listen(caught).map_err(signals)?;
    let loaded = cli::load_for_run(global, || signals.is_stopped())?;
    cli::log_warnings(&loaded.warnings);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let runtime = started(Builder::new_multi_thread().worker_threads(threads).enable_all().build())?;
    let read = {
        let global = global.clone();
        Arc::new(move || cli::read(&global))
    };
    let file = ConfigFile { path: global.config.clone(), read };
    let ended = runtime.block_on(app::run(loaded, file, signals));
    // Does not wait for blocking calls, such as a name lookup that hangs.
    runtime.shutdown_background();
    ended.map_err(|error| Failed { code: 1, message: format!("{error:#}") })
}

fn execute(global: &Global, command: Command) -> Result<u8, Failed> {
    let runtime = started(Builder::new_current_thread().enable_all().build())?;
    // Not locked: `check --live` probes the sink stdout, which writes from a thread of its own.
    let mut out = std::io::stdout();
    let ended = runtime.block_on(cli::execute(global, command, &mut out));
    runtime.shutdown_background();
    ended
}

fn signals(error: std::io::Error) -> Failed {
    Failed { code: 1, message: format!("catch signals: {error}") }
}

fn started(runtime: std::io::Result<Runtime>) -> Result<Runtime, Failed> {
    runtime.map_err(|error| Failed { code: 1, message: format!("start the runtime: {error}; are threads limited?") })
}

/// Prints the error. The message is empty if the output is closed.
fn report(failed: &Failed) -> u8 {
    if !failed.message.is_empty() {
        telemetry::logging::write_error(&failed.message);
    }
    failed.code
}
