//! Messages that no client library writes or reads: names that are no text, tables within tables without end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The time-out of one answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Methods of the protocol: class and number.
const START: [u16; 2] = [10, 10];
const TUNE: [u16; 2] = [10, 30];
const OPENED: [u16; 2] = [10, 41];
const CHANNEL_OPENED: [u16; 2] = [20, 11];
const CONFIRMS: [u16; 2] = [85, 11];
const CONFIRMED: [u16; 2] = [60, 80];
const GOT: [u16; 2] = [60, 71];
const EMPTY: [u16; 2] = [60, 72];

/// A message as its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawMessage {
    /// The exchange.
    pub exchange: Vec<u8>,
    /// The routing key.
    pub routing_key: Vec<u8>,
    /// The flags of the properties, and their values in order.
    pub properties: Vec<u8>,
    /// The body, of one frame.
    pub body: Vec<u8>,
}

impl RawMessage {
    /// A message with nothing but these headers: name, and value with the letter of its type.
    pub fn with_headers(headers: &[(&[u8], &[u8])], body: &str) -> RawMessage {
        let entries: Vec<u8> =
            headers.iter().flat_map(|(name, value)| [short(name), value.to_vec()].concat()).collect();
        RawMessage::with_property(13, &long(&entries), body)
    }

    /// A message with one property: the bit of its flag, and its value.
    pub fn with_property(flag: u16, value: &[u8], body: &str) -> RawMessage {
        let properties = [&(1_u16 << flag).to_be_bytes(), value].concat();
        RawMessage { properties, body: body.into(), ..RawMessage::default() }
    }

    /// The same to another address.
    #[must_use]
    pub fn to(self, exchange: &str, routing_key: &[u8]) -> RawMessage {
        RawMessage { exchange: exchange.into(), routing_key: routing_key.to_vec(), ..self }
    }
}

/// A text with its length in one byte.
pub fn short(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).expect("255 bytes at most")], text].concat()
}

/// Bytes with their length in four.
pub fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// A connection to a node as guest, with one channel.
pub struct RawClient {
    stream: TcpStream,
}

impl RawClient {
    /// Logs in.
    pub fn connect(port: u16) -> Result<RawClient, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        let mut client = RawClient { stream };
        client.stream.write_all(b"AMQP\0\0\x09\x01").map_err(|error| error.to_string())?;
        client.answer(&[START])?;
        let login = [long(b""), short(b"PLAIN"), long(b"\0guest\0guest"), short(b"en_US")].concat();
        client.method(0, [10, 11], &login)?;
        let (_, mut tune) = client.answer(&[TUNE])?;
        // Without heartbeats.
        tune.truncate(6);
        client.method(0, [10, 31], &[&tune[..], &[0, 0]].concat())?;
        client.method(0, [10, 40], &[short(b"/"), short(b""), vec![0]].concat())?;
        client.answer(&[OPENED])?;
        client.method(1, [20, 10], &short(b""))?;
        client.answer(&[CHANNEL_OPENED])?;
        client.method(1, [85, 10], &[0])?;
        client.answer(&[CONFIRMS])?;
        Ok(client)
    }

    /// Publishes a message, and waits until the broker has it.
    pub fn publish(&mut self, message: &RawMessage) -> Result<(), String> {
        let RawMessage { exchange, routing_key, properties, body } = message;
        self.method(1, [60, 40], &[vec![0, 0], short(exchange), short(routing_key), vec![0]].concat())?;
        let header = [&[0, 60, 0, 0][..], &(body.len() as u64).to_be_bytes(), properties].concat();
        self.frame(2, 1, &header)?;
        self.frame(3, 1, body)?;
        self.answer(&[CONFIRMED]).map(drop)
    }

    /// Takes the first message of a queue; `None` from an empty one.
    pub fn take(&mut self, queue: &str) -> Result<Option<RawMessage>, String> {
        self.method(1, [60, 70], &[vec![0, 0], short(queue.as_bytes()), vec![1]].concat())?;
        let (got, arguments) = self.answer(&[GOT, EMPTY])?;
        if got == EMPTY {
            return Ok(None);
        }
        // Behind the delivery tag and a flag.
        let (exchange, rest) = split(&arguments[9..]);
        let (routing_key, _) = split(rest);
        let (_, header) = self.read()?;
        let size = u64::from_be_bytes(header[4..12].try_into().map_err(|_| "no header")?);
        let mut body = Vec::new();
        while (body.len() as u64) < size {
            body.extend(self.read()?.1);
        }
        let exchange = exchange.to_vec();
        let routing_key = routing_key.to_vec();
        Ok(Some(RawMessage { exchange, routing_key, properties: header[12..].to_vec(), body }))
    }

    fn method(&mut self, channel: u16, [class, number]: [u16; 2], arguments: &[u8]) -> Result<(), String> {
        self.frame(1, channel, &[&class.to_be_bytes(), &number.to_be_bytes(), arguments].concat())
    }

    fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) -> Result<(), String> {
        let frame = [&[kind], &channel.to_be_bytes()[..], &long(payload), &[0xce]].concat();
        self.stream.write_all(&frame).map_err(|error| error.to_string())
    }

    /// The next method that is one of these, with its arguments.
    fn answer(&mut self, expected: &[[u16; 2]]) -> Result<([u16; 2], Vec<u8>), String> {
        loop {
            let (kind, payload) = self.read()?;
            if kind != 1 {
                continue;
            }
            let method = [u16::from_be_bytes([payload[0], payload[1]]), u16::from_be_bytes([payload[2], payload[3]])];
            if expected.contains(&method) {
                return Ok((method, payload[4..].to_vec()));
            }
            return Err(format!("{method:?}: {}", String::from_utf8_lossy(&payload[4..])));
        }
    }

    /// The next frame that is no heartbeat: its type and its contents.
    fn read(&mut self) -> Result<(u8, Vec<u8>), String> {
        loop {
            let mut head = [0; 7];
            self.stream.read_exact(&mut head).map_err(|error| format!("read a frame: {error}"))?;
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            let mut payload = vec![0; size + 1];
            self.stream.read_exact(&mut payload).map_err(|error| format!("read a frame: {error}"))?;
            payload.truncate(size);
            if head[0] != 8 {
                return Ok((head[0], payload));
            }
        }
    }
}

/// A short text, and what follows it.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes[1..].split_at(usize::from(bytes[0]))
}
