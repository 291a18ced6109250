//! Finds the frames in what is sent to the broker. Pure.

use super::expected::Expected;
use super::frames::HEAD;

/// Bytes of the protocol header, with which a connection begins.
const PROTOCOL_HEADER: usize = 8;
/// Bytes of a payload that are looked at: a tag behind the number of its method, with its flags.
const BEGIN: usize = 13;

#[derive(Debug)]
pub(super) struct SentFrames {
    /// The head of the current frame, and the first bytes of its payload.
    begin: [u8; HEAD + BEGIN],
    known: usize,
    /// Bytes to come that are skipped.
    passing: usize,
}

impl SentFrames {
    pub(super) fn new() -> SentFrames {
        SentFrames { begin: [0; HEAD + BEGIN], known: 0, passing: PROTOCOL_HEADER }
    }

    /// Takes in bytes that were sent, and passes on each frame that is over with them.
    pub(super) fn take(&mut self, mut bytes: &[u8], expected: &mut Expected) {
        while !bytes.is_empty() {
            if self.passing > 0 {
                let count = self.passing.min(bytes.len());
                self.passing -= count;
                bytes = &bytes[count..];
                if self.passing == 0 && self.known > 0 {
                    let begin = &self.begin[HEAD..self.known];
                    let channel = u16::from_be_bytes([self.begin[1], self.begin[2]]);
                    expected.sent(self.begin[0], channel, self.size() as u64, begin);
                    self.known = 0;
                }
                continue;
            }
            let wanted = if self.known < HEAD { HEAD } else { HEAD + self.size().min(BEGIN) };
            let count = (wanted - self.known).min(bytes.len());
            self.begin[self.known..self.known + count].copy_from_slice(&bytes[..count]);
            self.known += count;
            bytes = &bytes[count..];
            if self.known >= HEAD && self.known == HEAD + self.size().min(BEGIN) {
                // With the byte behind the frame.
                self.passing = HEAD + self.size() - self.known + 1;
            }
        }
    }

    /// Returns the size of the payload, once the head is there.
    fn size(&self) -> usize {
        u32::from_be_bytes([self.begin[3], self.begin[4], self.begin[5], self.begin[6]]) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::expected::{BODY, Fate, HEADER, METHOD};
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[kind, 0, 1][..], &(payload.len() as u32).to_be_bytes(), payload, &[0xce]].concat()
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let header = |size: u8| frame(HEADER, &[&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, size][..], &[0; 300]].concat());
        let all = [
            b"AMQP\0\0\x09\x01".to_vec(),
            frame(METHOD, &[0, 20, 0, 10, 0]),
            frame(METHOD, &[0, 85, 0, 10, 0]),
            frame(8, b""),
            frame(METHOD, &[&[0, 60, 0, 40][..], &[7; 40]].concat()),
            header(3),
            frame(BODY, b"abc"),
            frame(METHOD, &[0, 60, 0, 40]),
            header(0),
        ]
        .concat();
        for at_once in [1, 2, 7, 8, 13, 20, 1 << 20] {
            let mut sent = SentFrames::new();
            let mut expected = Expected::default();
            all.chunks(at_once).for_each(|bytes| sent.take(bytes, &mut expected));
            let fates = [1_u8, 2, 3].map(|tag| expected.method(1, [60, 80], &[0, 0, 0, 0, 0, 0, 0, tag, 0]).unwrap());
            assert_eq!(fates, [Fate::Pass, Fate::Pass, Fate::Drop], "{at_once} bytes at a time");
        }
    }
}
