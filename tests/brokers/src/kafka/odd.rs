//! Records that no client library can write: headers whose names are no text.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Writes one record to partition 0 of a topic, as the protocol has it: Produce, version 3, with a batch of magic 2.
pub fn write_record(bootstrap: &str, topic: &str, headers: &[(&[u8], &[u8])], body: &[u8]) {
    let mut record = vec![0];
    varint(&mut record, 0);
    varint(&mut record, 0);
    varint(&mut record, -1);
    bytes(&mut record, body);
    varint(&mut record, headers.len() as i64);
    for (name, value) in headers {
        bytes(&mut record, name);
        bytes(&mut record, value);
    }
    let mut summed = Vec::new();
    summed.extend(0_i16.to_be_bytes());
    summed.extend(0_i32.to_be_bytes());
    summed.extend([0; 16]);
    summed.extend((-1_i64).to_be_bytes());
    summed.extend((-1_i16).to_be_bytes());
    summed.extend((-1_i32).to_be_bytes());
    summed.extend(1_i32.to_be_bytes());
    varint(&mut summed, record.len() as i64);
    summed.extend(&record);
    let mut batch = 0_i64.to_be_bytes().to_vec();
    batch.extend((summed.len() as i32 + 9).to_be_bytes());
    batch.extend((-1_i32).to_be_bytes());
    batch.push(2);
    batch.extend(crc32c(&summed).to_be_bytes());
    batch.extend(&summed);

    let mut request = Vec::new();
    request.extend(0_i16.to_be_bytes());
    request.extend(3_i16.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    short(&mut request, "test");
    request.extend((-1_i16).to_be_bytes());
    request.extend((-1_i16).to_be_bytes());
    request.extend(10_000_i32.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    short(&mut request, topic);
    request.extend(1_i32.to_be_bytes());
    request.extend(0_i32.to_be_bytes());
    request.extend((batch.len() as i32).to_be_bytes());
    request.extend(&batch);

    let mut broker = TcpStream::connect(bootstrap).expect("the broker listens");
    broker.write_all(&[&(request.len() as i32).to_be_bytes()[..], &request].concat()).expect("send the record");
    let mut length = [0; 4];
    broker.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    broker.read_exact(&mut answer).expect("the whole answer");
    // The correlation, one topic with its name, one partition with its number, and then the error.
    let at = 4 + 4 + 2 + topic.len() + 4 + 4;
    assert_eq!(answer[at..at + 2], [0, 0], "the broker refused the record: {answer:?}");
}

/// A number of the protocol, with its sign in the last bit.
fn varint(to: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

fn bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    varint(to, bytes.len() as i64);
    to.extend(bytes);
}

fn short(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as i16).to_be_bytes());
    to.extend(text.as_bytes());
}

/// The checksum of a batch.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 })
    };
    !bytes.iter().fold(u32::MAX, step)
}
