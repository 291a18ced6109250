//! The figures, each beside its limit.

use std::io::Write;

use serde_json::json;

use super::limits::Times;
use super::{Found, Trial};
use crate::cli::table::{Align, Table};
use crate::cli::{Failed, Output};

pub(super) fn write(output: Output, trial: &Trial<'_>, found: &Found, out: &mut dyn Write) -> Result<(), Failed> {
    match output {
        Output::Json => writeln!(out, "{:#}", document(trial, found))?,
        Output::Text => write!(out, "{}", text(trial, found))?,
    }
    Ok(())
}

fn document(trial: &Trial<'_>, found: &Found) -> serde_json::Value {
    let Found { round_trip, filled, deep, late } = found;
    let times = |times: &Times| json!({ "p50": times.ms(0.5), "p99": times.ms(0.99), "max": times.ms(1.0) });
    json!({
        "redis": trial.conn.address(),
        "redis_version": trial.conn.info().version.to_string(),
        "pending": trial.args.depth,
        "payload_bytes": trial.args.payload_bytes,
        "ping_ms": times(round_trip),
        "zadd_per_second": filled.zadd_per_second,
        "claimed_and_settled": deep.count,
        "claim_and_settle_per_second": deep.per_second,
        "claim_ms": times(&deep.claims),
        "settle_ms": times(&deep.settlings),
        "late": late.count,
        "late_per_second": trial.args.rate,
        "late_ms": times(&late.times),
    })
}

fn text(trial: &Trial<'_>, found: &Found) -> String {
    let Found { round_trip, filled, deep, late } = found;
    let times = |times: &Times| {
        format!("p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms", times.ms(0.5), times.ms(0.99), times.ms(1.0))
    };
    let beside_ping = |times: &Times| format!("{:.0} round trips", times.ms(0.5) / round_trip.ms(0.5).max(0.001));
    let mut table = Table::new(&[("MEASURED", Align::Left), ("FOUND", Align::Left), ("BESIDE ITS LIMIT", Align::Left)]);
    let mut row = |measured: &str, found: String, limit: String| table.row([measured.to_owned(), found, limit]);
    row("round trip (PING)", times(round_trip), "the limit".to_owned());
    row("ZADD alone, 500 a command", format!("{:.0}/s", filled.zadd_per_second), "the limit".to_owned());
    let share = deep.per_second / filled.zadd_per_second * 100.0;
    row("claim and settle", format!("{:.0}/s", deep.per_second), format!("{share:.0} % of ZADD alone"));
    row("  claim of up to 500", times(&deep.claims), beside_ping(&deep.claims));
    row("  settle of up to 500", times(&deep.settlings), beside_ping(&deep.settlings));
    row(&format!("lateness at {}/s", trial.args.rate), times(&late.times), beside_ping(&late.times));
    format!(
        "Redis {} {}: {} pending of {} B, due times in another order than the offers; {} claimed and settled, {} more one by \
         one as they fell due, nothing delivered\n\n{}",
        trial.conn.info().version,
        trial.conn.address(),
        trial.args.depth,
        trial.args.payload_bytes,
        deep.count,
        late.count,
        table.render()
    )
}
