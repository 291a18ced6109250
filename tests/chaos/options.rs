//! The arguments of `make chaos`, from the variable `DELAYBRIDGE_CHAOS`.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::order::Order;
use crate::profile::Profile;
use crate::what::UPGRADE;

/// The variable with the arguments.
pub const VARIABLE: &str = "DELAYBRIDGE_CHAOS";

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The seed, which determines everything except the timing.
    pub seed: u64,
    /// The servers.
    pub profile: Profile,
    /// The duration of the faults.
    pub length: Duration,
    /// The numbers of the faults to play; `None` for all.
    pub only: Option<BTreeSet<usize>>,
    /// The kinds of faults to choose from; empty for all.
    pub kinds: Vec<String>,
    /// The order of all queues; `None` for the choice of the seed.
    pub order: Option<Order>,
    /// Whether claims wait for a replica; `None` for the choice of the seed.
    pub durable: Option<bool>,
    /// Whether destinations fail three requests of ten; `None` for the choice of the seed.
    pub fails: Option<bool>,
    /// Whether daemons look for what may be at its destination already, before they send it again.
    pub looks: bool,
    /// Whether queues have destinations with conditions, and an audit trail.
    pub trail: bool,
    /// Whether faults that need a file system of their own are included. Not every machine allows that.
    pub disks: bool,
    /// The duration of each freeze and death of a broker; `None` for a random one of up to five seconds.
    pub lasts: Option<Duration>,
    /// Whether to print the schedule only.
    pub plan: bool,
    /// Maximum time for replays of a failed run with fewer faults.
    pub shrink: Duration,
    /// The planted defect of the daemons.
    pub lie: Option<String>,
    /// Another binary, for the fault `upgrade`.
    pub old: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 1,
            profile: Profile::default(),
            length: Duration::from_secs(60),
            only: None,
            kinds: Vec::new(),
            order: None,
            durable: None,
            fails: None,
            looks: false,
            trail: false,
            disks: false,
            lasts: None,
            plan: false,
            shrink: Duration::from_secs(1_200),
            lie: None,
            old: None,
        }
    }
}

impl Options {
    /// Parses `--seed 7 --profile sentinel --minutes 10 --only 3,5 --faults kill,stop --order key --durable yes
    /// --fails no --duplicates look --trail yes --lasts SECONDS --plan --shrink MINUTES --lie NAME --old PATH`.
    pub fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options { disks: true, ..Options::default() };
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            if word == "--plan" {
                options.plan = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word}: a value is missing"))?;
            match word {
                "--seed" => options.seed = value.parse().map_err(|e| format!("--seed {value}: {e}"))?,
                "--profile" => options.profile = Profile::named(value)?,
                "--minutes" => options.length = minutes(word, value)?,
                "--shrink" => options.shrink = minutes(word, value)?,
                "--only" => {
                    let numbers = value.split(',').map(str::parse).collect::<Result<_, _>>();
                    options.only = Some(numbers.map_err(|e| format!("--only {value}: {e}"))?);
                }
                "--faults" => options.kinds = value.split(',').map(str::to_owned).collect(),
                "--order" => options.order = Some(Order::named(value)?),
                "--durable" => options.durable = Some(yes(word, value)?),
                "--fails" => options.fails = Some(yes(word, value)?),
                "--trail" => options.trail = yes(word, value)?,
                "--duplicates" => options.looks = looks(word, value)?,
                "--lasts" => options.lasts = Some(seconds(word, value)?),
                "--lie" => options.lie = Some(value.to_owned()),
                "--old" => options.old = Some(binary(value)?),
                _ => {
                    return Err(format!(
                        "{word}: unknown; there are --seed, --profile, --minutes, --only, --faults, --order, --durable, --fails, --duplicates, --trail, --lasts, --plan, --shrink, --lie, --old"
                    ));
                }
            }
        }
        if options.old.is_none() && options.kinds.iter().any(|kind| kind == UPGRADE) {
            return Err(format!("--faults {UPGRADE}: --old with another binary is missing"));
        }
        Ok(options)
    }
}

/// The absolute path of a binary, because it may be started from another folder.
fn binary(path: &str) -> Result<PathBuf, String> {
    let whole = std::fs::canonicalize(path).map_err(|e| format!("--old {path}: {e}"))?;
    let mode = std::fs::metadata(&whole).map_err(|e| format!("--old {path}: {e}"))?;
    if mode.is_file() && mode.permissions().mode() & 0o111 != 0 {
        Ok(whole)
    } else {
        Err(format!("--old {path}: no file that can be run"))
    }
}

fn yes(word: &str, value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{word} {value}: there are yes, no")),
    }
}

fn looks(word: &str, value: &str) -> Result<bool, String> {
    match value {
        "look" => Ok(true),
        "allow" => Ok(false),
        _ => Err(format!("{word} {value}: there are allow, look")),
    }
}

fn minutes(word: &str, value: &str) -> Result<Duration, String> {
    Ok(seconds(word, value)? * 60)
}

fn seconds(word: &str, value: &str) -> Result<Duration, String> {
    let seconds: f64 = value.parse().map_err(|e| format!("{word} {value}: {e}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|e| format!("{word} {value}: {e}"))
}

#[test]
fn arguments_are_read_and_wrong_ones_are_named() {
    let read = Options::parse("--old /bin/sh --faults upgrade").expect("a binary");
    assert!(read.old.is_some_and(|old| old.is_absolute()));
    let read = Options::parse("--seed 7 --minutes 0.5 --only 3,1 --faults kill,stop --plan").expect("good arguments");
    assert_eq!((read.seed, read.length, read.plan), (7, Duration::from_secs(30), true));
    assert_eq!((read.only, read.kinds.len()), (Some([1, 3].into()), 2));
    assert_eq!(Options::parse("--lasts 25").expect("good arguments").lasts, Some(Duration::from_secs(25)));
    let read = Options::parse("--order key --durable yes --fails no").expect("good arguments");
    assert_eq!((read.order, read.durable, read.fails), (Some(Order::Key), Some(true), Some(false)));
    for (text, expected) in [
        ("--order all", "there are none, queue, key"),
        ("--durable 1", "there are yes, no"),
        ("--duplicates never", "there are allow, look"),
        ("--trail 1", "there are yes, no"),
        ("--seed", "a value is missing"),
        ("--seed x", "--seed x"),
        ("--sead 7", "unknown"),
        ("--minutes -1", "-1"),
        ("--profile x", "sentinel"),
        ("--old /nowhere/delaybridge", "--old /nowhere/delaybridge: No such file"),
        ("--old src", "--old src: no file that can be run"),
        ("--faults kill,upgrade", "--old with another binary is missing"),
    ] {
        let error = Options::parse(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}
