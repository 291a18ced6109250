//! Fields of a Protocol Buffers message by their numbers, as slices of the record.

use bytes::Bytes;

use super::field::Field;
use delaybridge_ledger::Junk;

/// Most fields of a message that is read.
const FIELDS: usize = 1_024;

/// Reads the fields of a message. Numbers of a fixed width are kept as their bytes.
pub(super) fn fields(record: &Bytes) -> Result<Vec<(Bytes, Field)>, Junk> {
    read(record).ok_or_else(|| Junk("not a message of Protocol Buffers".to_owned()))
}

fn read(record: &Bytes) -> Option<Vec<(Bytes, Field)>> {
    let mut at = 0;
    let mut fields = Vec::new();
    while at < record.len() {
        let key = varint(record, &mut at)?;
        let number = key >> 3;
        if number == 0 || fields.len() == FIELDS {
            return None;
        }
        let value = match key & 7 {
            0 => Field::Number(varint(record, &mut at)?.cast_signed().to_string()),
            1 => Field::Other(take(record, &mut at, 8)?),
            2 => {
                let length = usize::try_from(varint(record, &mut at)?).ok()?;
                Field::Bytes(take(record, &mut at, length)?)
            }
            5 => Field::Other(take(record, &mut at, 4)?),
            // Groups are out of use.
            _ => return None,
        };
        fields.push((Bytes::from(number.to_string()), value));
    }
    Some(fields)
}

fn take(record: &Bytes, at: &mut usize, count: usize) -> Option<Bytes> {
    let end = at.checked_add(count).filter(|end| *end <= record.len())?;
    let taken = record.slice(*at..end);
    *at = end;
    Some(taken)
}

fn varint(record: &Bytes, at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *record.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_number() {
        let record = Bytes::from_static(b"\x0a\x05email\x12\x04body\x18\x96\x01\x25abcd\x29abcdefgh");
        let fields = fields(&record).expect("a message");
        let named: Vec<_> = fields.iter().map(|(name, _)| std::str::from_utf8(name).unwrap()).collect();
        assert_eq!(named, ["1", "2", "3", "4", "5"]);
        assert_eq!(fields[1].1, Field::Bytes(Bytes::from_static(b"body")));
        assert_eq!(fields[2].1.number(), Some(150));
    }

    #[test]
    fn what_is_cut_or_no_message_is_refused() {
        for bad in
            [&b"\x0a\x05emai"[..], b"\x0a", b"\x0b", b"\x00", b"\x18\xff", &[0xff; 11], b"\x0a\xff\xff\xff\xff\x0f"]
        {
            assert!(fields(&Bytes::copy_from_slice(bad)).is_err(), "{bad:x?}");
        }
    }
}
