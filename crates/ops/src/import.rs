//! The import of a file: its lines become letters some at a time, in their order; what is no letter is put aside.

use std::io::{BufRead, Read};

use bytes::Bytes;

use super::dead::{Broken, BrokenFile, Imported, PAST_IT, Pace};
use super::error::Error;
use super::operation::{LINES, Operation, Place};
use super::operations::{ImportDead, LineOutcome};
use super::progress::{Pacer, Progress, ProgressWatch};

/// The longest line: an element of 512 MiB in base64, and its fields.
const LONGEST: u64 = 750 << 20;
/// Bytes of lines, after which a batch ends.
const BATCH_BYTES: usize = 1 << 20;

/// Makes letters of the lines behind the first `skip`. A line that is none is put aside; without such a place it ends the import, and
/// says where; what is before it is there. A dry run counts it.
///
/// # Errors
///
/// For such a line, and when Redis or the daemon cannot be asked; the message says how to go on.
pub async fn import(
    place: &Place,
    queue: &str,
    lines: &mut (dyn BufRead + Send),
    skip: u64,
    pace: Pace,
    mut aside: Option<BrokenFile>,
    watch: &mut dyn ProgressWatch,
) -> Result<Imported, Error> {
    let mut done = Imported { queue: queue.to_owned(), dry_run: pace.dry_run, ..Imported::default() };
    let run = fastrand::u64(..);
    let mut rate = Pacer::new(pace.rate);
    let most = pace.rate.map_or(LINES, |rate| (rate as usize).clamp(1, LINES));
    let go_on = |lines: u64| format!("; to go on behind what is done, run it again with --skip {lines}");
    let at = |line: u64| format!("import dead letters to `{queue}`, line {line}");
    loop {
        watch.at(Progress { done: done.lines, of: None, acted: done.imported });
        if watch.is_stopped() {
            done.stopped = true;
            break;
        }
        let first = done.lines + 1;
        let stops = aside.is_none() && !pace.dry_run;
        let (read, failure) = some_lines(lines, if first <= skip { 1 } else { most });
        if !read.is_empty() && first <= skip {
            done.lines += 1;
        } else if !read.is_empty() {
            for _ in read.iter().filter(|_| !pace.dry_run) {
                rate.turn().await;
            }
            let queue = queue.to_owned();
            let dry_run = pace.dry_run;
            let mut rest = Some(ImportDead { queue, run, first, dry_run, stops, lines: read });
            while let Some(request) = rest {
                let part = request.portion();
                let report = place.call(&part).await.map_err(|error| Error {
                    message: format!("{}: {}{}", at(part.first), error.message, go_on(done.lines)),
                    ..error
                })?;
                rest = request.rest(&report);
                for (outcome, line) in report.lines.into_iter().zip(&part.lines) {
                    match outcome {
                        LineOutcome::Empty => {}
                        LineOutcome::Known => done.known += 1,
                        LineOutcome::Imported => done.imported += 1,
                        LineOutcome::ImportedAgain => {
                            done.imported += 1;
                            done.left += 1;
                        }
                        LineOutcome::Broken(problem) if stops => {
                            let at = at(done.lines + 1);
                            return Err(Error::invalid(format!("{at}: {problem}{}; {PAST_IT}", go_on(done.lines))));
                        }
                        LineOutcome::Broken(problem) => {
                            let broken = Broken { place: format!("line {}", done.lines + 1), problem };
                            done.put_aside(aside.as_mut(), broken, line)?;
                        }
                    }
                    done.lines += 1;
                }
                if let Some(problem) = report.problem {
                    return Err(Error::failed(format!("{}: {problem}{}", at(done.lines + 1), go_on(done.lines))));
                }
            }
        }
        match failure {
            None => {}
            Some(EndOfLines::End) => break,
            Some(EndOfLines::Failed(error)) => {
                return Err(Error {
                    message: format!("{}: {}{}", at(done.lines + 1), error.message, go_on(done.lines)),
                    ..error
                });
            }
        }
    }
    Ok(done)
}

/// The reason why no line follows.
enum EndOfLines {
    End,
    Failed(Error),
}

/// Reads at most so many lines.
fn some_lines(lines: &mut (dyn BufRead + Send), most: usize) -> (Vec<Bytes>, Option<EndOfLines>) {
    let mut read = Vec::new();
    let mut bytes = 0;
    while read.len() < most && bytes < BATCH_BYTES {
        let mut line = Vec::new();
        match (&mut *lines).take(LONGEST).read_until(b'\n', &mut line) {
            Err(error) => return (read, Some(EndOfLines::Failed(Error::failed(error.to_string())))),
            Ok(0) => return (read, Some(EndOfLines::End)),
            Ok(length) if length as u64 == LONGEST => {
                let error = Error::invalid("the line is longer than 750 MiB");
                return (read, Some(EndOfLines::Failed(error)));
            }
            Ok(length) => bytes += length,
        }
        read.push(line.into());
    }
    (read, None)
}
