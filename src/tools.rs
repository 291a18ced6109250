//! `delaybridge-tools`: the commands of `delaybridge` that have nothing in common with the daemon. `delaybridge` runs it with its own
//! arguments.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use delaybridge_conformance::{ConformanceArgs, LISTING, Listing, Report, run};
use serde::Serialize;

/// Commands for authors of producers.
#[derive(Debug, Parser)]
#[command(name = "delaybridge-tools", version, arg_required_else_help = true)]
struct Tools {
    /// Format of results: text, or json (one object)
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Output::Text, hide_possible_values = true)]
    output: Output,
    /// The Redis for the checks
    #[arg(long, global = true, value_name = "URL")]
    redis_url: Option<String>,
    // Options of every command of `delaybridge`: it passes its arguments on as they are.
    #[arg(long, global = true, hide = true)]
    config: Option<PathBuf>,
    #[arg(long, global = true, hide = true)]
    username: Option<String>,
    #[arg(long, global = true, hide = true)]
    password_file: Option<PathBuf>,
    #[command(subcommand)]
    command: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    Conformance(ConformanceArgs),
}

/// The format of results.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// The exit code and the message of a command that did not do what it was asked.
struct Failed(u8, String);

impl From<io::Error> for Failed {
    /// Returns an error of the output; a pipe that was closed early (`head`) is no failure.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failed(0, String::new()),
            _ => Failed(1, format!("write the result: {error}")),
        }
    }
}

fn main() -> ExitCode {
    let tools = Tools::parse();
    let Tool::Conformance(args) = &tools.command;
    let code = conformance(&tools, args).unwrap_or_else(|Failed(code, message)| {
        if !message.is_empty() {
            // Ignore the error: standard error is closed, and there is no other output.
            let _ = writeln!(io::stderr(), "error: conformance: {message}");
        }
        code
    });
    ExitCode::from(code)
}

fn conformance(tools: &Tools, args: &ConformanceArgs) -> Result<u8, Failed> {
    if args.list {
        answer(tools.output, &LISTING, Listing::text)?;
        return Ok(0);
    }
    let Some(redis_url) = tools.redis_url.clone() else {
        let message = "which Redis? Give one for tests with --redis-url; that of the configuration is not taken";
        return Err(Failed(2, message.to_owned()));
    };
    if tools.username.is_some() || tools.password_file.is_some() {
        let message = "write the login into --redis-url; the producer under test needs it too";
        return Err(Failed(2, message.to_owned()));
    }
    let report = run(&args.options(redis_url)).map_err(|error| Failed(1, error.to_string()))?;
    answer(tools.output, &report, Report::text)?;
    Ok(u8::from(!report.conforms))
}

fn answer<T: Serialize>(output: Output, result: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Text => out.write_all(text(result).as_bytes())?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, result)?;
            writeln!(out)?;
        }
    }
    out.flush()
}
