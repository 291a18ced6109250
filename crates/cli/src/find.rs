//! `find`: elements by a field of their payload.

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::progress::ProgressLine;
use super::remote::DaemonArgs;
use super::show;
use super::table::TextTable;
use delaybridge_ops::dead::FieldIs;
use delaybridge_ops::element::Whereabouts;
use delaybridge_ops::plural;
use delaybridge_ops::search::{Hits, Search};

/// Find elements by a field of their payload.
///
/// Reads the elements of the queue, decodes each with the queue's codec, and compares the field: those that are scheduled, wait for
/// a retry, are in flight, on the ready list, and dead. It reads at most --limit elements, and says so if that was not all. Nothing
/// is changed. An element that moves meanwhile can be missed.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct FindArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// A field of the decoded payload and its text: orderId=7, customer.name=Ann; given several times, all of them
    #[arg(long, value_name = "PATH=VALUE", required = true)]
    pub field: Vec<FieldIs>,
    /// Elements to look at, at most
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub limit: u64,
    /// Elements to show, at most
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub matches: usize,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

const AFTER: &str = "\
Examples:
  delaybridge find order_timeout --field orderId=7
  delaybridge find order_timeout --field customer.id=7 --matches 1 --limit 5000000

Exit codes: 0 done, also if there is none, 1 failed, 2 wrong arguments or configuration";

/// Characters of a payload in a row.
const PREVIEW: usize = 80;

pub(super) async fn run(global: &Global, args: &FindArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let operator = args.daemon.operator(global)?;
    let ask = Search { fields: args.field.clone(), limit: args.limit, matches: args.matches, after: None };
    let mut watch = ProgressLine::start("find");
    let hits = operator.search(&args.queue, &ask, &mut watch).await?;
    drop(watch);
    answer(global, out, &hits, text)?;
    Ok(0)
}

fn text(hits: &Hits) -> String {
    let mut table = TextTable::new("ID|STATE|DUE||>ATTEMPTS|PAYLOAD");
    let none = || "-".to_owned();
    for element in &hits.elements {
        let state = Whereabouts::of(element.state, element.due_ms, hits.now_ms).words();
        table.row([
            element.id.as_ref().map_or_else(none, ToString::to_string),
            state.to_owned(),
            element.due_ms.map_or_else(none, show::absolute),
            element.due_ms.map_or_else(String::new, |ms| show::relative(ms, hits.now_ms)),
            element.attempts.to_string(),
            element.content.preview(PREVIEW),
        ]);
    }
    let table = if hits.elements.is_empty() { String::new() } else { table.render() + "\n" };
    let found = plural::count(hits.elements.len(), "element");
    let rest = match hits.incomplete {
        true => format!(
            "; {} of {} were not looked at: --limit and --matches bound the search",
            hits.total.saturating_sub(hits.examined),
            plural::count(hits.total, "element")
        ),
        false => String::new(),
    };
    format!("{table}{found} found in {} looked at{rest}\n", plural::count(hits.examined, "element"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_looked_at_is_said() {
        let hits = Hits { queue: "q".to_owned(), total: 30, examined: 10, incomplete: true, ..Hits::default() };
        assert_eq!(
            text(&hits),
            "0 elements found in 10 elements looked at; 20 of 30 elements were not looked at: --limit and --matches bound the \
             search\n"
        );
        assert!(text(&Hits { incomplete: false, examined: 30, ..hits }).ends_with("in 30 elements looked at\n"));
    }
}
