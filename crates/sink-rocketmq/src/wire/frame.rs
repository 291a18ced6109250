//! Frames: requests of ours put at the end of a buffer, commands of a server taken out of one.
//!
//! A frame is its length, the length of its header with the header's format in the upper byte, the header, the body. Ours have
//! their headers in JSON; a server may be set to answer in the binary format. Nothing that a server sends is believed to be
//! small: frame and header have a limit each, and a header is split only as far as it is used.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::Serialize;

use super::NotRemoting;
use super::sign::RemotingSigner;
use delaybridge_core::json::Json;

/// Longest frame of a server: the route of a topic on thousands of brokers is the longest answer.
const MAX_FRAME: usize = 4 << 20;
/// Longest header of a server: it has a code and a remark.
const MAX_HEADER: usize = 64 << 10;
/// Maximum number of fields of a header that are looked at.
const MAX_MEMBERS: usize = 64;
/// Longest remark that is kept, in characters.
const MAX_REMARK: usize = 300;
/// Our version of the protocol: that of RocketMQ 4.9.7, as its number. From 4.9.4 on routes come in standard JSON.
const VERSION: u16 = 407;
/// The format of a header, in the upper byte of its length.
const JSON_HEADER: u32 = 0;
const BINARY_HEADER: u32 = 1;

#[derive(Debug, Clone, Default)]
pub(crate) struct RemotingRequest {
    pub(crate) code: u16,
    /// The fields of the header, sorted as signatures need them.
    pub(crate) fields: BTreeMap<&'static str, String>,
    pub(crate) body: Bytes,
}

impl RemotingRequest {
    /// Puts the frame at the end, signed.
    pub(crate) fn put(mut self, number: u32, signer: Option<&RemotingSigner>, out: &mut BytesMut) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct RequestHeader<'a> {
            code: u16,
            language: &'static str,
            version: u16,
            opaque: u32,
            flag: u16,
            ext_fields: &'a BTreeMap<&'static str, String>,
            #[serde(rename = "serializeTypeCurrentRPC")]
            format: &'static str,
        }
        if let Some(signer) = signer {
            signer.sign(&mut self.fields, &self.body);
        }
        let header = RequestHeader {
            code: self.code,
            language: "OTHER",
            version: VERSION,
            opaque: number,
            flag: 0,
            ext_fields: &self.fields,
            format: "JSON",
        };
        let header = serde_json::to_vec(&header).unwrap_or_default();
        out.reserve(8 + header.len() + self.body.len());
        out.put_u32((4 + header.len() + self.body.len()) as u32);
        out.put_u32((JSON_HEADER << 24) | header.len() as u32);
        out.put_slice(&header);
        out.put_slice(&self.body);
    }
}

/// A command of a server: the answer to a request, or a request of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerCommand {
    /// The number of the request that it answers; absent if it is none.
    pub(crate) answers: Option<u32>,
    pub(crate) answer: RemotingAnswer,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RemotingAnswer {
    pub(crate) code: i64,
    /// The server's words.
    pub(crate) remark: String,
    pub(crate) body: Bytes,
}

/// Takes the first frame out of the buffer; `None` while it is not complete.
pub(crate) fn take(input: &mut BytesMut) -> Result<Option<PeerCommand>, NotRemoting> {
    let Some(length) = input.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes) as usize) else {
        return Ok(None);
    };
    if !(4..=MAX_FRAME).contains(&length) {
        return Err(NotRemoting("a frame of an impossible length"));
    }
    if input.len() < 4 + length {
        return Ok(None);
    }
    input.advance(4);
    let mut frame = input.split_to(length).freeze();
    let header = frame.get_u32();
    let format = header >> 24;
    let length = (header & 0x00ff_ffff) as usize;
    if length > frame.len() || length > MAX_HEADER {
        return Err(NotRemoting("a header of an impossible length"));
    }
    let header = frame.split_to(length);
    match format {
        JSON_HEADER => json(header, frame),
        BINARY_HEADER => binary(header, frame),
        _ => Err(NotRemoting("a header in an unknown format")),
    }
    .map(Some)
}

fn json(header: Bytes, body: Bytes) -> Result<PeerCommand, NotRemoting> {
    let unreadable = NotRemoting("a header that cannot be read");
    let members = Json::read(header).map_err(|_| unreadable)?.members(MAX_MEMBERS).map_err(|_| unreadable)?;
    let member = |name: &str| members.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let number = |name: &str| member(name).and_then(integer).ok_or(unreadable);
    let remark = member("remark").and_then(Json::text).unwrap_or_default();
    Ok(command(number("flag")?, number("opaque")?, number("code")?, &remark, body))
}

/// Returns the value of an integer, also of a negative one.
fn integer(value: &Json) -> Option<i64> {
    std::str::from_utf8(value.bytes()).ok()?.parse().ok()
}

/// Parses code, language, version, number, flag; then remark and fields, each behind its length.
fn binary(mut header: Bytes, body: Bytes) -> Result<PeerCommand, NotRemoting> {
    let short = NotRemoting("a header that ends too early");
    if header.len() < 17 {
        return Err(short);
    }
    let code = i64::from(header.get_i16());
    header.advance(3);
    let number = i64::from(header.get_i32());
    let flag = i64::from(header.get_i32());
    let length = header.get_u32() as usize;
    if length > header.len() {
        return Err(short);
    }
    Ok(command(flag, number, code, &header.split_to(length), body))
}

fn command(flag: i64, number: i64, code: i64, remark: &[u8], body: Bytes) -> PeerCommand {
    let remark = String::from_utf8_lossy(remark).chars().take(MAX_REMARK).collect();
    // The lowest bit says that it is an answer.
    let answers = (flag & 1 == 1).then(|| u32::try_from(number).ok()).flatten();
    PeerCommand { answers, answer: RemotingAnswer { code, remark, body } }
}
