//! The commands in groups, for those who look for one: by names where nothing was asked for, and with a line each in `--help`.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::command::Cli;

/// The groups, each with its commands in the order in which they are listed.
pub(super) const GROUPS: [(&str, &[&str]); 5] = [
    ("Look", &["queues", "top", "peek", "find", "search", "why", "forecast", "fleet", "audit"]),
    ("Change", &["offer", "run-now", "reschedule", "cancel", "kill", "pause", "resume", "dead"]),
    (
        "Set up",
        &[
            "run", "check", "test", "reload", "config", "acl", "discover", "migrate", "fsck", "recover", "restore",
            "bench",
        ],
    ),
    ("Job queue", &["jobs"]),
    ("Reference", &["decode", "schema", "conformance", "completions"]),
];

/// The help of the program: its groups in place of one list.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{options}{after-help}";
/// Columns of the names of groups and of commands.
const COLUMN: usize = 13;

impl Cli {
    /// Returns the command line, with its commands in groups.
    pub fn grouped() -> Command {
        let command = Cli::command();
        let names = names();
        let lines = lines(&command);
        let command = command
            .override_usage("delaybridge [OPTIONS] <COMMAND>")
            .help_template(TEMPLATE)
            .before_help(names)
            .before_long_help(lines)
            .after_help("delaybridge --help has a line about each, delaybridge COMMAND --help all.");
        // Shown in their groups alone.
        GROUPS
            .iter()
            .flat_map(|(_, commands)| *commands)
            .fold(command, |command, name| command.mut_subcommand(name, |one| one.hide(true)))
    }
}

/// Returns the names of the commands, a line for each group.
fn names() -> String {
    let mut text = String::new();
    for (group, commands) in GROUPS {
        for (at, some) in wrapped(commands).iter().enumerate() {
            let head = if at == 0 { group } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {head:<COLUMN$}{some}");
        }
    }
    text
}

/// Returns the names in lines that fit a narrow screen.
fn wrapped(commands: &[&str]) -> Vec<String> {
    let mut lines = vec![String::new()];
    for name in commands {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        match line.is_empty() {
            true => line.push_str(name),
            false if line.len() + name.len() < 60 => {
                line.push(' ');
                line.push_str(name);
            }
            false => lines.push((*name).to_owned()),
        }
    }
    lines
}

/// Returns the commands with a line each, in their groups.
fn lines(command: &Command) -> String {
    let mut text = String::new();
    for (group, commands) in GROUPS {
        let _ = writeln!(text, "{group}:");
        for name in commands {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(text, "  {name:<COLUMN$}{}", about.unwrap_or_default().trim_end_matches('.'));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name);
        let mut shown: Vec<&str> = shown.collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, commands)| *commands).copied().collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
    }

    #[test]
    fn without_arguments_it_prints_one_screen() {
        let short = Cli::grouped().term_width(80).render_help().to_string();
        assert!(short.lines().count() <= 24, "{} lines: {short}", short.lines().count());
        assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
        for words in
            ["Look         queues top", "Job queue    jobs\n", "Usage: delaybridge [OPTIONS] <COMMAND>", "--config"]
        {
            assert!(short.contains(words), "{words}: {short}");
        }
        let long = Cli::grouped().term_width(100).render_long_help().to_string();
        for words in ["Change:\n  offer        Offer an element, as Redisson does\n", "Exit codes:", "--password-file"]
        {
            assert!(long.contains(words), "{words}: {long}");
        }
    }
}
