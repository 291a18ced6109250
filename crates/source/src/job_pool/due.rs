//! Another due time in the record of a job, for programs whose jobs say themselves when they are due. Pure.

use bytes::Bytes;

use super::layout::Layout;
use super::record::{Field, Format, Record};

/// A larger record is not written anew: it would be sent back as a whole.
const LARGEST: usize = 1 << 20;
/// Places in a record where the old number is tried.
const PLACES: usize = 64;

impl Layout {
    /// Writes this due time into a record and changes nothing else; `None` for jobs that do not say when they are due.
    ///
    /// # Errors
    ///
    /// In words, for a record in which that cannot be written.
    pub fn due_anew(&self, record: &Bytes, due_ms: i64) -> Result<Option<Bytes>, &'static str> {
        let Some((name, unit)) = &self.wanted.due else { return Ok(None) };
        if record.len() > LARGEST {
            return Err("its record says when it is due, and is larger than 1 MiB");
        }
        let unknown = "its record says when it is due, in a way that cannot be written";
        let before = Record::read(self.record, record).map_err(|_| unknown)?;
        let field = before.field(name).ok_or(unknown)?;
        let old = field.number().ok_or(unknown)?;
        let new = unit.whole(due_ms).to_string().parse::<i64>().map_err(|_| unknown)?;
        if old == new {
            return Ok(Some(record.clone()));
        }
        let as_text = matches!(field, Field::Bytes(_));
        let wanted = if as_text { before.with(name, &new.to_string()) } else { before.with_number(name, new) };
        let found = written(self.record, old, new).into_iter().find_map(|(from, to)| {
            let places = record.windows(from.len()).enumerate().filter(|(_, at)| *at == from).take(PLACES);
            // The same number may be somewhere else in the record. Right is the place where nothing but this field changes.
            places
                .map(|(at, _)| Bytes::from([&record[..at], &to, &record[at + from.len()..]].concat()))
                .find(|changed| Record::read(self.record, changed).is_ok_and(|after| after == wanted))
        });
        found.map(Some).ok_or(unknown)
    }
}

/// Returns the ways in which a record of this format can have the old number, each with the new one in the same way.
fn written(format: Format, old: i64, new: i64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let long = |head: &[u8], n: i64| [head, &n.to_be_bytes()].concat();
    let int = |head: &[u8], n: i64| u32::try_from(n).ok().map(|n| [head, &n.to_be_bytes()].concat());
    let pair = |from: Option<Vec<u8>>, to: Vec<u8>| from.map(|from| (from, to));
    match format {
        Format::Json => vec![(old.to_string().into_bytes(), new.to_string().into_bytes())],
        Format::Java => vec![(long(&[], old), long(&[], new))],
        Format::Msgpack => [
            pair(Some(long(&[0xd3], old)), long(&[0xd3], new)),
            pair(Some(long(&[0xcf], old)), long(&[0xcf], new)),
            // A number that is too large for four bytes by now gets eight.
            pair(int(&[0xce], old), int(&[0xce], new).unwrap_or_else(|| long(&[0xcf], new))),
            pair(int(&[0xd2], old), long(&[0xd3], new)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Format::Raw | Format::Ttr | Format::Protobuf => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{IdIn, Names, Place, Wanted};
    use super::*;
    use delaybridge_ledger::score::Unit;

    /// Creates the layout in which ouqiang/delay-queue keeps its jobs.
    fn layout() -> Layout {
        Layout {
            id: IdIn::Member,
            place: Place::Value("{id}".to_owned()),
            names: Names::Plain,
            record: Format::Msgpack,
            wanted: Wanted { due: Some(("3".to_owned(), Unit::Seconds)), ..Wanted::default() },
            status: None,
        }
    }

    #[test]
    fn only_the_due_time_of_a_job_changes() {
        // As Go's client writes it: {topic, id, delay, ttr, body}, numbers with eight bytes.
        let layout = layout();
        let name = layout.wanted.due.clone().expect("its jobs say when they are due").0;
        let number = |n: i64| [&[0xd3][..], &n.to_be_bytes()].concat();
        let text = |text: &str| [&[0xa0 | text.len() as u8][..], text.as_bytes()].concat();
        let job = |due: i64| {
            let fields =
                [text("ttr"), number(1_700_000_000), text(&name), number(due), text("body"), text("1700000000")];
            Bytes::from([&[0x83][..], &fields.concat()].concat())
        };
        let changed = layout.due_anew(&job(1_700_000_000), 1_800_000_000_999).unwrap().expect("another record");
        assert_eq!(changed, job(1_800_000_000));
        assert_eq!(layout.due_anew(&changed, 1_800_000_000_000).unwrap(), Some(changed.clone()));
        let read = Record::read(layout.record, &changed).unwrap();
        assert_eq!(read.field(&name), Some(Field::Number("1800000000".to_owned())));
        assert!(layout.due_anew(&Bytes::from_static(b"junk"), 1).is_err());
    }
}
