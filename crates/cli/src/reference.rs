//! `docs/cli.md` and `docs/cli/NAME.md`: the pages of the command line, generated from the arguments by a test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Args as _, Command, CommandFactory};

use super::command::Cli;
use super::groups::GROUPS;
use super::remote::DaemonArgs;

const NOTE: &str = "<!-- Generated from crates/cli. -->";

/// Returns every page with its path below `docs`: the index, and one page for each command.
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
         Every command has a page with what its `--help` prints.\n\n\
         | | command | |\n|---|---|---|\n"
    );
    for (group, names) in GROUPS {
        let of_group = names.iter().filter_map(|name| commands.iter().find(|command| command.get_name() == *name));
        for (at, command) in of_group.enumerate() {
            let name = command.get_name();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let group = if at == 0 { group } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(index, "| {group} | [`{name}`](cli/{name}.md) | {} |", about.trim_end_matches('.'));
        }
    }
    // The table above replaces the list of commands.
    let root = root.clone().override_usage("delaybridge [OPTIONS] <COMMAND>").mut_subcommands(|sub| sub.hide(true));
    let _ = write!(index, "\n## `delaybridge`\n\nThe options belong to every command.\n\n{}", help(root));
    let daemon = help(of_a_daemon().help_template("{options}"));
    let _ = write!(index, "\n## A daemon in place of Redis\n\nOptions of many commands.\n\n{daemon}");
    index
}

/// Returns a command with the options of those that may ask a daemon.
fn of_a_daemon() -> Command {
    DaemonArgs::augment_args(Command::new("delaybridge").disable_help_flag(true).term_width(100))
}

fn page(command: &Command) -> String {
    let mut daemon = of_a_daemon();
    daemon.build();
    let explained = daemon.get_arguments().map(|arg| (words(arg), "../cli.md#a-daemon-in-place-of-redis".to_owned()));
    let mut page = Page { text: String::new(), explained: explained.collect() };
    let name = command.get_name();
    let _ = write!(page.text, "# `delaybridge {name}`\n\n{NOTE}\n\n");
    page.explain(command, name, vec!["[of every command](../cli.md#delaybridge)".to_owned()]);
    page.sections(command, name);
    page.text
}

/// A page while it is written.
struct Page {
    text: String,
    /// The arguments that were explained, each with the link to that place.
    explained: BTreeMap<String, String>,
}

impl Page {
    fn sections(&mut self, command: &Command, path: &str) {
        for sub in subcommands(command) {
            let path = format!("{path} {}", sub.get_name());
            let _ = write!(self.text, "\n## `delaybridge {path}`\n\n");
            self.explain(sub, &path, Vec::new());
            self.sections(sub, &path);
        }
    }

    /// Writes what the command's `--help` prints, with links in place of options that were explained before.
    fn explain(&mut self, command: &Command, path: &str, mut further: Vec<String>) {
        let mut command = without_common_options(command);
        let usage = command.render_usage().to_string();
        let here = format!("#delaybridge-{}", path.replace(' ', "-"));
        let mut hidden = Vec::new();
        let mut before: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let place = self.explained.entry(words(arg)).or_insert_with(|| here.clone()).clone();
            match arg.get_long() {
                _ if place == here => {}
                Some(long) => before.entry(place).or_default().push((arg.get_id().clone(), format!("`--{long}`"))),
                // The usage names it.
                None => hidden.push(arg.get_id().clone()),
            }
        }
        // A link to one option would be longer than the option.
        for (place, options) in before.into_iter().filter(|(_, options)| options.len() > 1) {
            let names: Vec<_> = options.iter().map(|(_, name)| &**name).collect();
            further.push(format!("[{}]({place})", names.join(", ")));
            hidden.extend(options.into_iter().map(|(id, _)| id));
        }
        if !further.is_empty() {
            let _ = write!(self.text, "Further options: {}.\n\n", further.join(", "));
        }
        let command = command.mut_args(|arg| {
            let hide = arg.is_hide_set() || hidden.contains(arg.get_id());
            arg.hide(hide)
        });
        self.text.push_str(&help(command.override_usage(usage.trim_start_matches("Usage: ").to_owned())));
    }
}

/// Returns the words that explain an argument.
fn words(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    format!("{arg} {help} {values:?} {:?}", arg.get_default_values())
}

/// Returns the command without the options that the index lists.
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
    assert!(changed.is_empty(), "docs: {changed:?} was out of date and is rewritten: look at it and commit it");
}
