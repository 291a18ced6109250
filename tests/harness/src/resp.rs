//! A scanner for the ends of commands and replies in a stream of Redis's protocol (versions 2 and 3).
//!
//! It skips bodies without storing them: an element of 100 MB passes in small chunks. Only the first bytes of the first
//! strings of a frame are stored, enough to identify a command and the script that it calls.

/// Number of stored strings of a frame.
const HEAD_STRINGS: usize = 3;
/// Maximum number of stored bytes of each.
const HEAD_BYTES: usize = 64;
/// Maximum length of a stored line; longer ones (error texts) are skipped.
const LINE_BYTES: usize = 32;

/// A complete command or reply that has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The type byte of the first element (`*`, `$`, `-`, `>` ...).
    pub kind: u8,
    /// The beginnings of the first strings.
    pub head: Vec<Vec<u8>>,
}

impl Frame {
    /// Whether it is an out-of-band message of version 3, which answers no command.
    pub fn is_push(&self) -> bool {
        self.kind == b'>'
    }

    /// Whether it is an error reply.
    pub fn is_error(&self) -> bool {
        self.kind == b'-' || self.kind == b'!'
    }

    /// The name of the command, in capitals.
    pub fn command(&self) -> String {
        self.head.first().map(|name| String::from_utf8_lossy(name).to_ascii_uppercase()).unwrap_or_default()
    }

    /// The SHA1 of an `EVALSHA`, in lower-case hexadecimal.
    pub fn script(&self) -> Option<String> {
        let sha = self.head.get(1).filter(|_| self.command().starts_with("EVALSHA"))?;
        Some(String::from_utf8_lossy(sha).to_ascii_lowercase())
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// A type byte with its line.
    Line,
    /// A body with this number of remaining bytes, including the line end.
    Body { left: u64 },
}

/// A scanner of a stream in arbitrary chunks.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    line: Vec<u8>,
    /// Number of remaining elements of each open aggregate.
    open: Vec<u64>,
    kind: Option<u8>,
    head: Vec<Vec<u8>>,
    /// Whether the current body is stored.
    keeping: bool,
    last: u8,
}

impl Scanner {
    /// A scanner at the beginning of a stream.
    pub fn new() -> Self {
        Scanner {
            state: State::Line,
            line: Vec::new(),
            open: Vec::new(),
            kind: None,
            head: Vec::new(),
            keeping: false,
            last: 0,
        }
    }

    /// The type byte of the current frame, if one has begun.
    pub fn under_way(&self) -> Option<u8> {
        self.kind
    }

    /// Takes the next chunk; `ended` is called for every frame that ends in it, with the offset just after its end.
    pub fn feed(&mut self, piece: &[u8], mut ended: impl FnMut(usize, Frame)) {
        let mut at = 0;
        while at < piece.len() {
            let element_done = match self.state {
                State::Line => {
                    let byte = piece[at];
                    at += 1;
                    self.line_byte(byte)
                }
                State::Body { left } => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len() - at);
                    self.keep(&piece[at..at + take], left);
                    at += take;
                    let left = left - take as u64;
                    self.state = if left == 0 { State::Line } else { State::Body { left } };
                    left == 0
                }
            };
            if element_done && self.close_aggregates() {
                let kind = self.kind.take().unwrap_or(0);
                ended(at, Frame { kind, head: std::mem::take(&mut self.head) });
            }
        }
    }

    /// Takes one byte of a header line; returns whether the line was a complete element.
    fn line_byte(&mut self, byte: u8) -> bool {
        let complete = byte == b'\n' && self.last == b'\r';
        self.last = byte;
        if self.line.len() < LINE_BYTES {
            self.line.push(byte);
        }
        if self.kind.is_none() {
            self.kind = Some(byte);
        }
        if !complete {
            return false;
        }
        self.last = 0;
        let line = std::mem::take(&mut self.line);
        let number: i64 =
            std::str::from_utf8(&line[1..]).ok().and_then(|text| text.trim_end().parse().ok()).unwrap_or(-1);
        let count = u64::try_from(number).unwrap_or(0);
        match line[0] {
            b'$' | b'=' | b'!' => {
                if number < 0 {
                    return true;
                }
                self.keeping = self.head.len() < HEAD_STRINGS;
                if self.keeping {
                    self.head.push(Vec::new());
                }
                self.state = State::Body { left: count + 2 };
                false
            }
            b'*' | b'~' | b'>' => self.open(count),
            b'%' => self.open(2 * count),
            // Attributes precede the element that they describe: together they are one.
            b'|' => self.open(2 * count + 1),
            _ => true,
        }
    }

    fn open(&mut self, elements: u64) -> bool {
        if elements == 0 {
            return true;
        }
        self.open.push(elements);
        false
    }

    fn keep(&mut self, bytes: &[u8], left: u64) {
        let Some(string) = self.head.last_mut().filter(|_| self.keeping) else { return };
        // The line end is not part of the string.
        let of_string = usize::try_from(left - 2.min(left)).unwrap_or(usize::MAX).min(bytes.len());
        let room = HEAD_BYTES.saturating_sub(string.len());
        string.extend_from_slice(&bytes[..of_string.min(room)]);
    }

    /// Records the end of an element; returns whether it ended the frame.
    fn close_aggregates(&mut self) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &str, frames: &[(&str, char)]) {
        for piece in 1..=stream.len() {
            let mut scanner = Scanner::new();
            let mut found = Vec::new();
            let mut base = 0;
            let mut start = 0;
            for part in stream.as_bytes().chunks(piece) {
                scanner.feed(part, |end, frame| {
                    found.push((stream[start..base + end].to_owned(), frame.kind as char));
                    start = base + end;
                });
                base += part.len();
            }
            let found: Vec<(&str, char)> = found.iter().map(|(text, kind)| (text.as_str(), *kind)).collect();
            assert_eq!(found, frames, "in pieces of {piece}");
        }
    }

    #[test]
    fn frames_end_where_they_should_in_pieces_of_any_size() {
        check("+OK\r\n:1\r\n", &[("+OK\r\n", '+'), (":1\r\n", ':')]);
        check("$3\r\na\r\n\r\n$-1\r\n$0\r\n\r\n", &[("$3\r\na\r\n\r\n", '$'), ("$-1\r\n", '$'), ("$0\r\n\r\n", '$')]);
        check("*2\r\n*2\r\n:1\r\n:2\r\n*0\r\n*-1\r\n", &[("*2\r\n*2\r\n:1\r\n:2\r\n*0\r\n", '*'), ("*-1\r\n", '*')]);
        check("%1\r\n+a\r\n*1\r\n_\r\n#t\r\n", &[("%1\r\n+a\r\n*1\r\n_\r\n", '%'), ("#t\r\n", '#')]);
        check(">2\r\n+message\r\n$1\r\nx\r\n+PONG\r\n", &[(">2\r\n+message\r\n$1\r\nx\r\n", '>'), ("+PONG\r\n", '+')]);
        check(
            "|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n,1.5\r\n",
            &[("|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n", '|'), (",1.5\r\n", ',')],
        );
        check(
            "-ERR a text longer than what is kept of a line\r\n",
            &[("-ERR a text longer than what is kept of a line\r\n", '-')],
        );
    }

    #[test]
    fn a_command_names_the_script_that_it_calls() {
        let mut scanner = Scanner::new();
        let mut scripts = Vec::new();
        let sha = "A3A86B949561B56E14C274AD54368AFEFF259BC8";
        let stream = format!(
            "*4\r\n$7\r\nevalsha\r\n$40\r\n{sha}\r\n$1\r\n0\r\n$100\r\n{}\r\n*1\r\n$4\r\nPING\r\n",
            "x".repeat(100)
        );
        for byte in stream.as_bytes() {
            scanner.feed(&[*byte], |_, frame| scripts.push((frame.command(), frame.script())));
        }
        assert_eq!(scripts, [("EVALSHA".to_owned(), Some(sha.to_lowercase())), ("PING".to_owned(), None)]);
    }
}
