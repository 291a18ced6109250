//! `completions`: what a shell needs to complete commands and options.

use std::io::{self, Write};

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use super::global::Global;

/// Print the completions of a shell.
///
/// The Debian package installs them for bash, zsh and fish.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

const AFTER: &str = "\
Examples:
  source <(delaybridge completions bash)
  delaybridge completions fish > ~/.config/fish/completions/delaybridge.fish";

/// Prints the completions of `commands`.
pub(super) fn run(args: &CompletionsArgs, commands: &Command, out: &mut dyn Write) -> io::Result<()> {
    // Into memory first: the generator panics where a closed pipe is an ordinary end.
    let mut script = Vec::new();
    generate(args.shell, &mut shown(commands), "delaybridge", &mut script);
    out.write_all(&script)
}

/// Returns the command line without its hidden commands, which the generators would offer. A command cannot be taken
/// out of a [`Command`], so this is built again from the visible commands.
fn shown(root: &Command) -> Command {
    let commands: Vec<_> = root.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    Global::augment_args(Command::new("delaybridge").version(env!("CARGO_PKG_VERSION"))).subcommands(commands)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command::Cli;

    #[test]
    fn each_shell_gets_what_help_shows_and_nothing_else() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut out = Vec::new();
            run(&CompletionsArgs { shell }, &Cli::command(), &mut out).unwrap();
            let script = String::from_utf8(out).unwrap();
            for word in ["restore", "redrive", "log-format", "config"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            assert!(!script.contains("manual pages"), "{shell}");
        }
    }
}
