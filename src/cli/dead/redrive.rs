//! `dead redrive`: another life for dead letters, byte for byte.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::super::session::{Session, attempted};
use super::super::{Failed, Global, Output, show};
use super::{Which, each, not_found};

/// Give dead letters another life.
///
/// The element goes back as it was, due now, with its id and due time and no attempts counted. Sinks that had confirmed
/// it do not receive it again. Where `max_lateness` is set, remember that it is late.
///
/// dead -> retry, due now -> claimed by the daemon
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct RedriveArgs {
    /// Which letters.
    #[command(flatten)]
    pub which: Which,
}

const AFTER: &str = "\
Examples:
  delaybridge dead redrive order_timeout 1795251632252-0
  delaybridge dead redrive order_timeout 52414e444f4d3842 1b2c3d4e5f607182
  delaybridge dead redrive order_timeout --all

Run again after a failure: what has been redriven is not redriven twice.";

pub(super) async fn run(global: &Global, args: &RedriveArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let which = &args.which;
    let (session, queue) = Session::on_queue(global, &which.queue).await?;
    let (mut done, mut refused) = (0, Vec::new());
    let unmet = each(&session, &queue, which, async |page| {
        for letter in page {
            let member = match letter.reborn() {
                Ok(member) => member,
                Err(error) => {
                    refused.push(error.to_string());
                    continue;
                }
            };
            let what = format!(
                "redrive dead letter {} of `{}` ({} redriven before it; run the command again, nothing is redriven twice)",
                letter.stream_id,
                which.queue,
                done
            );
            // False: somebody else took it meanwhile.
            if queue.redisson.redrive(&session.conn, &letter.stream_id, member).await.map_err(attempted(&what))? {
                done += 1;
            }
        }
        Ok(())
    })
    .await?;
    match global.output {
        Output::Json => {
            writeln!(out, "{}", json!({ "queue": which.queue, "redriven": done, "refused": refused.len() }))?
        }
        Output::Text => writeln!(out, "{} of {} redriven", show::count(done, "dead letter"), which.queue)?,
    }
    if !refused.is_empty() {
        return Err(Failed::runtime(refused.join("\n")));
    }
    match unmet.as_slice() {
        [] => Ok(0),
        unmet => Err(not_found(&which.queue, unmet, &format!("{done} redriven"))),
    }
}
