//! Fields of a MessagePack map, as slices of the record: a body that is no UTF-8 keeps its bytes.

use bytes::Bytes;

use super::field::Field;
use delaybridge_ledger::Junk;

/// Most levels below the map.
const DEPTH: usize = 64;
/// Most fields of a map that is read.
const FIELDS: usize = 1_024;

/// Reads the fields of a map; those with keys that are neither text nor numbers have no name and are left out.
pub(super) fn fields(record: &Bytes) -> Result<Vec<(Bytes, Field)>, Junk> {
    read(record).ok_or_else(|| Junk("not a map of MessagePack".to_owned()))
}

fn read(record: &Bytes) -> Option<Vec<(Bytes, Field)>> {
    let mut reader = Reader { bytes: record, at: 0 };
    let count = match reader.u8()? {
        head @ 0x80..=0x8f => usize::from(head & 0x0f),
        0xde => reader.length(2)?,
        0xdf => reader.length(4)?,
        _ => return None,
    };
    if count > FIELDS {
        return None;
    }
    let mut fields = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.value()?;
        let value = reader.value()?;
        if !matches!(name, Field::Other(_)) {
            fields.push((name.into_bytes(), value));
        }
    }
    (reader.at == record.len()).then_some(fields)
}

struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<Bytes> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len())?;
        let taken = self.bytes.slice(self.at..end);
        self.at = end;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// Reads a number of this many bytes.
    fn unsigned(&mut self, size: usize) -> Option<u64> {
        Some(self.take(size)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, size: usize) -> Option<usize> {
        self.unsigned(size).and_then(|length| usize::try_from(length).ok())
    }

    fn signed(&mut self, size: usize) -> Option<i64> {
        let shift = 64 - 8 * size as u32;
        Some((self.unsigned(size)? << shift).cast_signed() >> shift)
    }

    /// Reads a value. One with values in it is skipped, and kept as it is written.
    fn value(&mut self) -> Option<Field> {
        let start = self.at;
        let number = |number: String| Some(Field::Number(number));
        match self.u8()? {
            head @ 0x00..=0x7f => number(head.to_string()),
            head @ 0xe0..=0xff => number(head.cast_signed().to_string()),
            head @ 0xcc..=0xcf => number(self.unsigned(1 << (head - 0xcc))?.to_string()),
            head @ 0xd0..=0xd3 => number(self.signed(1 << (head - 0xd0))?.to_string()),
            head @ 0xa0..=0xbf => self.take(usize::from(head & 0x1f)).map(Field::Bytes),
            head @ (0xc4..=0xc6 | 0xd9..=0xdb) => {
                let size = if head < 0xd9 { head - 0xc4 } else { head - 0xd9 };
                let length = self.length(1 << size)?;
                self.take(length).map(Field::Bytes)
            }
            _ => {
                self.at = start;
                self.skip()?;
                Some(Field::Other(self.bytes.slice(start..self.at)))
            }
        }
    }

    /// Goes past one value, whatever it is. Not recursive: values that are still to come are counted, each level apart.
    fn skip(&mut self) -> Option<()> {
        let mut open = vec![1usize];
        while let Some(left) = open.last_mut() {
            if *left == 0 {
                open.pop();
                continue;
            }
            *left -= 1;
            let inner = match self.u8()? {
                head @ 0x80..=0x8f => 2 * usize::from(head & 0x0f),
                head @ 0x90..=0x9f => usize::from(head & 0x0f),
                0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
                0xc1 => return None,
                head @ 0xa0..=0xbf => self.pass(usize::from(head & 0x1f))?,
                head @ 0xc4..=0xc6 => {
                    let length = self.length(1 << (head - 0xc4))?;
                    self.pass(length)?
                }
                // An extension has a type in front of its bytes.
                head @ 0xc7..=0xc9 => {
                    let length = self.length(1 << (head - 0xc7))?.checked_add(1)?;
                    self.pass(length)?
                }
                0xca => self.pass(4)?,
                0xcb => self.pass(8)?,
                head @ 0xcc..=0xcf => self.pass(1 << (head - 0xcc))?,
                head @ 0xd0..=0xd3 => self.pass(1 << (head - 0xd0))?,
                head @ 0xd4..=0xd8 => self.pass(1 + (1 << (head - 0xd4)))?,
                head @ 0xd9..=0xdb => {
                    let length = self.length(1 << (head - 0xd9))?;
                    self.pass(length)?
                }
                head @ (0xdc | 0xdd) => self.length(2 << (head - 0xdc))?,
                head @ (0xde | 0xdf) => self.length(2 << (head - 0xde))?.checked_mul(2)?,
            };
            if inner > 0 {
                if open.len() > DEPTH {
                    return None;
                }
                open.push(inner);
            }
        }
        Some(())
    }

    fn pass(&mut self, count: usize) -> Option<usize> {
        self.take(count).map(|_| 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(record: &[u8], name: &str) -> Option<Field> {
        let fields = fields(&Bytes::copy_from_slice(record)).expect("a map");
        fields.into_iter().find(|(known, _)| known == name.as_bytes()).map(|(_, value)| value)
    }

    #[test]
    fn fields_are_found_by_name_behind_values_of_any_kind() {
        let record = b"\x86\xa11\xa5order\xa12\x93\x01\xc0\x81\xa1k\xcb\0\0\0\0\0\0\0\0\xa13\xce\x6b\x02\x94\xd0\
            \xa14\xd1\xff\xfe\xa1x\xc7\x02\x05ab\xa15\xc4\x02\xff\xfe";
        assert_eq!(field(record, "1"), Some(Field::Bytes(Bytes::from_static(b"order"))));
        assert!(matches!(field(record, "2"), Some(Field::Other(raw)) if raw.len() == 15));
        assert_eq!(field(record, "3").and_then(|field| field.number()), Some(1_795_331_280));
        assert_eq!(field(record, "4").and_then(|field| field.number()), Some(-2));
        assert_eq!(field(record, "5"), Some(Field::Bytes(Bytes::from_static(b"\xff\xfe"))));
    }

    #[test]
    fn what_is_cut_or_lies_about_its_length_is_refused() {
        let good = b"\x82\xa11\xa5order\xa12\x92\x01\x02";
        for end in 0..good.len() {
            assert!(fields(&Bytes::copy_from_slice(&good[..end])).is_err(), "cut to {end}");
        }
        let deep = [&b"\x81\xa11"[..], &[0x91; 100], b"\x01"].concat();
        for bad in
            [&b"\x81\xa11\xdd\xff\xff\xff\xff"[..], b"\xdf\xff\xff\xff\xff", b"\x81\xa11\xc1", b"\x80\x01", &deep]
        {
            assert!(fields(&Bytes::copy_from_slice(bad)).is_err());
        }
    }
}
