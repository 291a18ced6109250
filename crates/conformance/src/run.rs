//! One run: all checks, one after the other.

use crate::bench::{Bench, Check, Opening, Stop};
use crate::checks::{CHECKS, FAILOVER};
use crate::child::Broken;
use crate::element::Layout;
use crate::options::Options;
use crate::report::{Line, Report, Verdict};
use crate::statements::STATEMENTS;

/// The run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Redis cannot be used.
    #[error("{0}")]
    Redis(String),
    /// The command does not speak the protocol.
    #[error("{0}")]
    Broken(Broken),
    /// The command does not open a queue.
    #[error("open a queue in the producer: {0}")]
    Open(String),
}

/// Checks that broke the protocol, one after the other, after which no more is asked.
const ENOUGH: usize = 3;

/// Makes a run. It blocks until the end.
///
/// # Errors
///
/// [`Error`], if the command does not speak the protocol at all, or Redis cannot be used. What a statement forbids is no
/// error; it is in the report.
pub fn run(options: &Options) -> Result<Report, Error> {
    let connect = |error: redis::RedisError| Error::Redis(format!("connect to Redis: {error}; is the URL right?"));
    let mut bench = Bench::new(options).map_err(connect)?;
    let outcome = run_checks(&mut bench, options);
    let cleaned = bench.clean_up();
    let report = outcome?;
    cleaned.map_err(|error| {
        Error::Redis(format!("remove the keys of this run: {error}; their names contain `{}`", bench.token))
    })?;
    Ok(report)
}

fn run_checks(bench: &mut Bench, options: &Options) -> Result<Report, Error> {
    // A producer that cannot open a queue fails once, not in each check.
    let first = bench.queue("%").and_then(|queue| bench.open(&queue, Opening::default()));
    first.map_err(|stop| match stop {
        Stop::Broken(broken) => Error::Broken(broken),
        Stop::Redis(why) => Error::Redis(why),
        Stop::Unexpected(why) | Stop::NotChecked(why) => Error::Open(why),
        Stop::NotOffered => Error::Open("`open` was answered with unsupported".to_owned()),
    })?;
    let mut broken_in_a_row = 0;
    for check in CHECKS.iter().filter(|check| options.asks_for_any(check.about)) {
        if broken_in_a_row == ENOUGH {
            let why = format!("{ENOUGH} checks in a row broke the protocol");
            bench.otherwise(check.about, &Verdict::NotChecked { why });
            continue;
        }
        broken_in_a_row = if one(bench, check) { 0 } else { broken_in_a_row + 1 };
    }
    if let Err(broken) = bench.end() {
        return Err(Error::Broken(broken));
    }
    let said = bench.said().cloned();
    if options.failover && options.asks_for_any(FAILOVER.about) {
        fail_over(bench, options)?;
    } else {
        let why = "it needs --failover".to_owned();
        bench.otherwise(FAILOVER.about, &Verdict::NotChecked { why });
    }
    let asked = STATEMENTS.iter().filter(|statement| options.asks_for(statement.number));
    let statements = asked.map(|statement| Line {
        statement: statement.number,
        says: statement.says,
        verdict: bench.verdict(statement.number),
    });
    let statements: Vec<_> = statements.collect();
    let (name, layout) = said.map_or((String::new(), Layout::Current), |said| (said.name, said.layout));
    Ok(Report {
        producer: name,
        layout: match layout {
            Layout::Current => "current".to_owned(),
            Layout::Old => "old".to_owned(),
        },
        seed: bench.seed,
        conforms: !statements.iter().any(|line| matches!(line.verdict, Verdict::Fail { .. })),
        statements,
    })
}

/// Runs the failover on a bench of its own: it is on other servers.
fn fail_over(bench: &mut Bench, options: &Options) -> Result<(), Error> {
    let connect = |error: redis::RedisError| Error::Redis(format!("connect to Redis: {error}"));
    let mut apart = Bench::new(options).map_err(connect)?;
    one(&mut apart, &FAILOVER);
    for number in FAILOVER.about {
        bench.otherwise(&[number], &apart.verdict(number));
    }
    Ok(())
}

/// Runs one check; false if it broke the protocol.
fn one(bench: &mut Bench, check: &Check) -> bool {
    let Err(stop) = (check.run)(bench) else { return true };
    let in_check = |why: &dyn std::fmt::Display| format!("{}: {why}", check.name);
    let (verdict, kept) = match &stop {
        Stop::NotOffered => (Verdict::NotOffered, true),
        Stop::NotChecked(why) => (Verdict::NotChecked { why: why.clone() }, true),
        Stop::Redis(why) => (Verdict::NotChecked { why: in_check(why) }, true),
        Stop::Unexpected(why) => (Verdict::Fail { seen: in_check(why) }, true),
        Stop::Broken(broken) => (Verdict::Fail { seen: in_check(broken) }, false),
    };
    if matches!(verdict, Verdict::Fail { .. }) && !check.about.is_empty() {
        // What was found out before this stays; what was not is open because of it.
        bench.blame(check.about, &verdict);
    } else {
        bench.otherwise(check.about, &verdict);
    }
    if !kept {
        bench.drop_producer();
    }
    kept
}
