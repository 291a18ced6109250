//! `GET /queues/{queue}/dead/export`: the dead letters that fit as a file, in the lines of `delaybridge dead export`.
//!
//! A page of them is in memory at a time, and the next one is read when the browser has taken the one before.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use hyper::header::HeaderValue;
use hyper::{StatusCode, header};

use super::dead::asked;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use delaybridge_core::clock::{calendar_seconds, utc};
use delaybridge_http_server::call::Call;
use delaybridge_http_server::feed::{BrokenOff, Feed};
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_http_server::room::who;
use delaybridge_http_server::turns::Turn;
use delaybridge_ops::dead::FILTER_NAMES;
use delaybridge_ops::operation::{Operation, Scene};
use delaybridge_ops::operations::{ExportDead, ExportPage};
use delaybridge_telemetry::peer::Peer;

const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// Returns the file.
pub async fn download(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&FILTER_NAMES)?;
    let filter = asked(&admin, &call)?;
    let queue = call.part("queue").to_owned();
    let scene = admin.scene(&Asker::of(&call));
    let turn = admin.exports.take(&who(call.peer, &call.caller), 1, "export dead letters").await?;
    let request = ExportDead { queue, after: None, filter };
    // What cannot be read from the start is a page that says so, and no file.
    let first = admin.operate(request.clone(), Asker::of(&call)).await?;
    let name = file_name(&request.queue, &utc((calendar_seconds() * 1_000.0) as i64));
    let Call { peer, caller, .. } = call;
    let export = Export { admin, peer, caller, scene, request, first: Some(first), at_end: false, _turn: turn };
    let parts = stream::unfold(export, |mut export| async { Some((export.next().await?, export)) });
    Ok(Reply::empty(StatusCode::OK)
        .header(header::CONTENT_TYPE, LINES)
        .header(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))
        .followed_by(Feed::fallible(parts)))
}

/// `dead-orders-20261121T090032Z.jsonl`; what a file system might not take is `_` in it.
fn file_name(queue: &str, time: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let queue: String = queue.chars().take(100).map(safe).collect();
    format!("dead-{queue}-{}.jsonl", time.replace(['-', ':'], ""))
}

/// One export on its way to a browser.
struct Export {
    admin: Arc<Admin>,
    peer: Peer,
    caller: AdminCaller,
    scene: Scene,
    request: ExportDead,
    /// The first page, until it is sent.
    first: Option<ExportPage>,
    at_end: bool,
    _turn: Turn,
}

impl Export {
    /// Returns the next lines; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        loop {
            let page = match self.first.take() {
                Some(first) => first,
                None if self.at_end => return None,
                None => match self.read().await {
                    Some(page) => page,
                    None => {
                        self.at_end = true;
                        return Some(Err(BrokenOff));
                    }
                },
            };
            self.at_end = page.next.is_none();
            let lines = page.lines();
            self.request.after = page.next;
            // No letter of a page need fit.
            if !lines.is_empty() {
                return Some(Ok(lines.into()));
            }
        }
    }

    /// Returns the next page; `None` if it cannot be read, or the daemon ends.
    async fn read(&self) -> Option<ExportPage> {
        let asker = who(self.peer, &self.caller);
        let _turn = self.admin.looks.take(&asker, 1, "export dead letters").await.ok()?;
        // Order: the end of the daemon goes first. Reading may be left at any time.
        tokio::select! {
            biased;
            () = self.admin.stopping.cancelled() => None,
            page = self.request.run(&self.scene) => page.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_queue_and_the_time_in_its_name() {
        let name = |queue: &str| file_name(queue, "2026-11-21T09:00:32Z");
        assert_eq!(name("order_timeout"), "dead-order_timeout-20261121T090032Z.jsonl");
        assert_eq!(name("a/../\"b\r\n:ü"), "dead-a_..__b____-20261121T090032Z.jsonl");
    }
}
