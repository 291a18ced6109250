//! `docs/cli.md`, written from the arguments themselves, so that it cannot drift.

use std::fmt::Write as _;

use clap::CommandFactory;

use super::Cli;

/// The reference page of the command line.
pub fn reference() -> String {
    let mut page = String::from(
        "# Command line\n\n<!-- Written by a test from src/cli; change it there. -->\n\n\
         What `--help` prints, for every command.\n\n",
    );
    // A fixed width, and nothing of the environment in it: the page is the same on every machine.
    let mut root = Cli::command().term_width(100).mut_args(|arg| arg.hide_env_values(true));
    root.build();
    section(&mut page, &root, "delaybridge");
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn section(page: &mut String, command: &clap::Command, path: &str) {
    let help = command.clone().render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    // Writing to a String cannot fail.
    let _ = write!(page, "## `{path}`\n\n```text\n{}\n```\n\n", help.join("\n").trim_end());
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        section(page, sub, &format!("{path} {}", sub.get_name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_arguments_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli.md");
        let page = reference();
        if std::fs::read_to_string(path).ok().as_deref() != Some(page.as_str()) {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
            std::fs::write(path, page).unwrap();
            panic!("docs/cli.md was out of date and has been rewritten: look at it and commit it");
        }
    }
}
