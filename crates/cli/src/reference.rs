//! `docs/cli.md` and `docs/cli/NAME.md`: the pages of the command line, generated from the arguments by a test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory};

use super::command::Cli;
use super::groups::GROUPS;

const NOTE: &str = "<!-- Written by a test from crates/cli; change it there. -->";

/// Every page with its path below `docs`: the index, and one page for each command.
fn pages() -> BTreeMap<String, String> {
    // A fixed width, and nothing of the environment in it: the pages are the same on every machine.
    let mut root = Cli::command().term_width(100);
    root.build();
    let commands: Vec<_> = subcommands(&root).cloned().collect();
    let of_a_command = commands.iter().map(|command| (format!("cli/{}.md", command.get_name()), page(command)));
    [("cli.md".to_owned(), index(&root, &commands))].into_iter().chain(of_a_command).collect()
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

fn index(root: &Command, commands: &[Command]) -> String {
    let mut index = format!(
        "# Command line\n\n{NOTE}\n\n\
         Every command has a page with what its `--help` prints. The options at the end of this page belong to every \
         command.\n\n\
         | | command | |\n|---|---|---|\n"
    );
    for (group, names) in GROUPS {
        let of_group = names.iter().filter_map(|name| commands.iter().find(|command| command.get_name() == *name));
        for (at, command) in of_group.enumerate() {
            let (name, about) = (command.get_name(), command.get_about().map(ToString::to_string).unwrap_or_default());
            let group = if at == 0 { group } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(index, "| {group} | [`{name}`](cli/{name}.md) | {} |", about.trim_end_matches('.'));
        }
    }
    // The table above replaces the list of commands.
    let root = root.clone().override_usage("delaybridge [OPTIONS] <COMMAND>").mut_subcommands(|sub| sub.hide(true));
    let _ = write!(index, "\n## `delaybridge`\n\n{}", help(root));
    index
}

fn page(command: &Command) -> String {
    let mut page = format!(
        "# `delaybridge {}`\n\n{NOTE}\n\n\
         The [options of every command](../cli.md#delaybridge) are `--config`, `--output`, `--redis-url`, `--username` and \
         `--password-file`.\n\n",
        command.get_name()
    );
    page.push_str(&help(without_common_options(command)));
    let path = format!("delaybridge {}", command.get_name());
    subcommands(command).for_each(|sub| section(&mut page, sub, &path));
    page
}

fn section(page: &mut String, command: &Command, path: &str) {
    let path = format!("{path} {}", command.get_name());
    let _ = write!(page, "\n## `{path}`\n\n{}", help(without_common_options(command)));
    subcommands(command).for_each(|sub| section(page, sub, &path));
}

/// The command without the options that the index lists.
fn without_common_options(command: &Command) -> Command {
    command.clone().mut_args(|arg| {
        let common = arg.is_global_set() || arg.get_id() == "help";
        arg.hide(common)
    })
}

fn help(command: Command) -> String {
    let help = command.mut_args(|arg| arg.hide_env_values(true)).render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", help.join("\n").trim_end())
}

#[test]
fn the_pages_are_what_the_arguments_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folder = docs.join("cli");
    std::fs::create_dir_all(&folder).unwrap();
    let pages = pages();
    let mut changed = Vec::new();
    for (name, page) in &pages {
        if std::fs::read_to_string(docs.join(name)).ok().as_ref() != Some(page) {
            std::fs::write(docs.join(name), page).unwrap();
            changed.push(name.clone());
        }
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = format!("cli/{}", entry.unwrap().file_name().to_string_lossy());
        if !pages.contains_key(&name) {
            std::fs::remove_file(docs.join(&name)).unwrap();
            changed.push(name);
        }
    }
    assert!(changed.is_empty(), "out of date in docs, now written anew: {changed:?}: look at them and commit them");
}
