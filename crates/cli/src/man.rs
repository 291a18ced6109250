//! `man`: the manual pages, for packagers. Hidden: an operator reads them installed, or `--help`.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::{Man, roff};

use super::failed::Failed;

/// Write the manual pages into a directory, one for each command.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// An existing directory
    pub directory: PathBuf,
}

/// Writes the pages of `commands`.
pub(super) fn run(args: &ManArgs, commands: Command) -> Result<(), Failed> {
    // Nothing of the environment in them: the pages are the same on every machine.
    let mut root = commands.disable_help_subcommand(true).mut_args(|arg| arg.hide_env_values(true));
    root.build();
    write_pages(&root, &args.directory).map_err(|error| {
        Failed::runtime(format!("write manual pages into {}: {error}; is it there?", args.directory.display()))
    })
}

fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    let man = Man::new(command.clone());
    std::fs::write(directory.join(man.get_filename()), page(command, &man)?)?;
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| write_pages(sub, directory))
}

/// Returns the sections that clap_mangen would write, but examples keep their lines: it would fill them into one
/// paragraph.
fn page(command: &Command, man: &Man) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(after) = command.get_after_help() {
        let after = after.to_string();
        let mut examples = roff::Roff::new();
        examples.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in after.lines().filter(|line| !matches!(*line, "Example:" | "Examples:")) {
            examples.text([roff::roman(line)]);
        }
        examples.control("fi", []).to_writer(&mut page)?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command::Cli;

    #[test]
    fn every_command_that_help_shows_has_a_page_with_its_examples_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        run(&ManArgs { directory: directory.path().to_owned() }, Cli::command()).unwrap();
        let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap_or_default();
        for name in ["delaybridge.1", "delaybridge-run.1", "delaybridge-dead-redrive.1"] {
            assert!(page(name).starts_with(".ie"), "{name}: {}", page(name));
        }
        let offer = page("delaybridge-offer.1");
        assert!(
            offer.contains("\n  delaybridge offer order_timeout \\-\\-delay 0s \\-\\-file element.json\n"),
            "{offer}"
        );
        assert!(page("delaybridge.1").contains("delaybridge\\-check(1)"));
        assert_eq!(page("delaybridge-man.1"), "");

        let nowhere = run(&ManArgs { directory: directory.path().join("nowhere") }, Cli::command()).unwrap_err();
        assert!(nowhere.message.contains("nowhere") && nowhere.code == 1, "{nowhere}");
    }
}
