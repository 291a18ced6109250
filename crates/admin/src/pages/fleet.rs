//! `GET /fleet`: every daemon with its version, its configuration and its work.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::layout::{View, encoded, page};
use super::show::{late, number, rate, when};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::fleet::{Fleet, FleetMember};
use delaybridge_ops::operations::ListFleet;
use delaybridge_ops::plural::{count, duration};

/// Returns the page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["still", "reload"])?;
    let found = admin.operate(ListFleet {}, Asker::of(&call)).await?;
    let own = admin.status.look().owner;
    let mut view = View::of("/fleet", &call.caller, admin.access.has_tokens());
    view.watch(&call.query);
    let body = html! {
        h1 { "Daemons" }
        p.muted {
            "The daemons with an admin listener and the same Redis. Each reports every 10 seconds. Rates and lateness are of the "
            "last minute."
        }
        p.forecast { (found.sums().words()) }
        @if found.configurations.len() > 1 {
            ul.notes { li.warn {
                strong { (found.configurations.len()) " configurations" } " run. Compare when each was read: a daemon that has read its "
                "own long before the others may need a reload. "
                @for (hash, daemons) in &found.configurations { code { (hash) } " by " (count(*daemons, "daemon")) ". " }
            } }
        }
        (daemons(&found, &own))
        @if !found.orders.is_empty() {
            h2 { "Queues in order" }
            ul.links {
                @for order in &found.orders {
                    li {
                        a href={ "queues/" (encoded(&order.queue)) } { (order.queue) } " by " code { (order.daemon) }
                        @if order.until_ms < found.now_ms { " " span.muted { "until " (when(order.until_ms, found.now_ms)) } }
                    }
                }
            }
        }
        @for error in &found.errors { p.problem { (error.queue) ": " (error.message) } }
    };
    Ok(page(StatusCode::OK, &view, "Daemons", &body))
}

fn daemons(found: &Fleet, own: &str) -> Markup {
    html! {
        div.scroll {
            table.cards {
                thead {
                    tr {
                        @for name in ["Daemon", "State", "Version", "Configuration"] { th scope="col" { (name) } }
                        @for name in ["Queues", "In flight", "Rate", "Late p99", "Up"] { th.n scope="col" { (name) } }
                    }
                }
                tbody {
                    @for member in &found.daemons { (one(member, found, own)) }
                    @if found.daemons.is_empty() { tr { td.empty colspan="9" { "No daemon has reported yet." } } }
                }
            }
        }
    }
}

fn one(member: &FleetMember, found: &Fleet, own: &str) -> Markup {
    let this = found.daemons.iter().find(|member| member.daemon == own);
    let configuration = this.map_or(&member.configuration, |this| &this.configuration);
    html! {
        tr {
            th scope="row" {
                (member.host) " " span.muted { (member.pid) }
                @if member.daemon == own { " " span.badge.info { "this one" } }
                span.to { code { (member.daemon) } " " (member.listen) }
            }
            td data-label="State" {
                @if member.gone { span.badge.bad { "gone" } " last report " (when(member.at_ms, found.now_ms)) }
                @else if member.ready { span.badge.good { "ready" } }
                @else { span.badge.warn { "not ready" } }
                @if member.held > 0 { div.fail { (count(member.held, "queue")) " held" } }
                @if member.sinks_in_trouble > 0 { div.fail { (count(member.sinks_in_trouble, "sink")) " in trouble" } }
            }
            td data-label="Version" { (member.version) }
            td data-label="Configuration" {
                code { (member.configuration) }
                @if *configuration != member.configuration { " " span.badge.warn { "not that of this one" } }
                @if let Some(seconds) = member.configured_seconds { span.to { "read " (duration(seconds * 1_000)) " ago" } }
            }
            td.n data-label="Queues" { (number(member.queues as u64)) }
            td.n data-label="In flight" { (number(member.in_flight)) }
            td.n data-label="Rate" {
                (rate(member.delivered_per_second))
                @if member.failed_per_second > 0.0 { span.fail { (rate(member.failed_per_second)) " failed" } }
            }
            td.n data-label="Late p99" { (late(member.lateness_p99_ms)) }
            td.n data-label="Up" { (duration(member.up_seconds.saturating_mul(1_000))) }
        }
    }
}
