//! The binary format of definitions in Redis; numbers are little endian. The body is stored beside it.
//!
//! ```text
//! version 1 | revision 8 | paused 1 | time to run 4, or 0 | tries 4, or 0 | 1 if it has a time to live | that 8 | n 1 | m 2
//!     | content type n | rule m: word for missed firings, line feed, expression, line feed, time zone, and a line feed and the
//!     priority if there is one
//! ```

use std::time::Duration;

use super::cron::CronSchedule;
use super::{MissedFirings, Recurring};
use crate::add::MAX_PRIORITY;
use delaybridge_settings::words::Words;

/// The version that this program writes.
const VERSION: u8 = 1;
/// Length of the part that only scripts write.
const HEAD: usize = 10;
const FIXED: usize = 30;

pub(super) struct ReadDefinition {
    pub(super) revision: u64,
    pub(super) paused: bool,
    pub(super) recurring: Recurring,
}

/// Returns the definition behind the head.
pub(super) fn tail(recurring: &Recurring) -> Vec<u8> {
    let Recurring { schedule, missed, ttr, tries, ttl, priority, content_type } = recurring;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut rule = format!("{}\n{}\n{}", missed.as_str(), schedule.expression(), schedule.zone());
    if *priority > 0 {
        rule.push_str(&format!("\n{priority}"));
    }
    let ttr = ttr.map_or(0, |ttr| u32::try_from(ttr.as_millis()).unwrap_or(u32::MAX));
    let mut bytes = Vec::with_capacity(FIXED - HEAD + content_type.len() + rule.len());
    bytes.extend(ttr.to_le_bytes());
    bytes.extend(tries.unwrap_or(0).to_le_bytes());
    bytes.push(u8::from(ttl.is_some()));
    bytes.extend(ttl.map_or(0, millis).to_le_bytes());
    // Both lengths were checked.
    bytes.push(u8::try_from(content_type.len()).unwrap_or(u8::MAX));
    bytes.extend(u16::try_from(rule.len()).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend(content_type.as_bytes());
    bytes.extend(rule.as_bytes());
    bytes
}

/// Reads a definition; `None` for one that was cut off, or is of another version, or has a rule that means nothing here.
pub(super) fn read(bytes: &[u8]) -> Option<ReadDefinition> {
    if bytes.len() < FIXED || bytes[0] != VERSION {
        return None;
    }
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let n = usize::from(bytes[27]);
    let m = usize::from(u16::from_le_bytes([bytes[28], bytes[29]]));
    let content_type = std::str::from_utf8(bytes.get(FIXED..FIXED + n)?).ok()?;
    let mut rule = std::str::from_utf8(bytes.get(FIXED + n..FIXED + n + m)?).ok()?.split('\n');
    let missed = rule.next()?;
    let expression = rule.next()?;
    let zone = rule.next()?;
    let priority = rule.next().map_or(Ok(0), str::parse).ok().filter(|priority| *priority <= MAX_PRIORITY)?;
    let missed = MissedFirings::VALUES.iter().find(|(word, _)| *word == missed).map(|(_, value)| *value)?;
    let some = |n: u32| Some(n).filter(|n| *n > 0);
    Some(ReadDefinition {
        revision: u64_at(1)?,
        paused: bytes[9] != 0,
        recurring: Recurring {
            schedule: CronSchedule::stored(expression, zone).ok()?,
            missed,
            ttr: some(u32_at(10)?).map(|ttr| Duration::from_millis(u64::from(ttr))),
            tries: some(u32_at(14)?),
            ttl: (bytes[18] != 0).then(|| u64_at(19).map(Duration::from_millis)).flatten(),
            priority,
            content_type: content_type.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_reads_back_and_what_is_cut_short_or_of_another_version_is_refused() {
        for (ttr, tries, ttl, priority, content_type) in [
            (None, None, None, 0, ""),
            (Some(Duration::from_millis(5)), Some(3), Some(Duration::ZERO), 9, "text/plain"),
            (None, Some(1_000_000), Some(Duration::from_secs(1 << 28)), 1, "a\nb"),
        ] {
            let schedule = CronSchedule::new("*/5 2 * * MON", "Europe/Berlin").unwrap();
            let content_type = content_type.to_owned();
            let missed = MissedFirings::All;
            let recurring = Recurring { schedule, missed, ttr, tries, ttl, priority, content_type };
            let mut whole = vec![VERSION, 7, 0, 0, 0, 0, 0, 0, 0, 1];
            whole.extend(tail(&recurring));
            let read_back = read(&whole).unwrap();
            assert_eq!((read_back.revision, read_back.paused, &read_back.recurring), (7, true, &recurring));
            for end in 0..whole.len() {
                assert!(read(&whole[..end]).is_none(), "{end}");
            }
            whole[0] = 2;
            assert!(read(&whole).is_none());
        }
    }
}
