//! Frames in both formats, and bytes that are none.

use bytes::{BufMut, Bytes, BytesMut};

use super::frame::{PeerCommand, RemotingAnswer, RemotingRequest, take};
use super::route::{TopicRoute, has_brokers};
use delaybridge_core::json::Json;

fn framed(format: u8, header: &[u8], body: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_u32((4 + header.len() + body.len()) as u32);
    bytes.put_u32((u32::from(format) << 24) | header.len() as u32);
    bytes.put_slice(header);
    bytes.put_slice(body);
    bytes
}

fn answer(code: i64, remark: &str, body: &'static [u8]) -> RemotingAnswer {
    RemotingAnswer { code, remark: remark.to_owned(), body: Bytes::from_static(body) }
}

#[test]
fn a_request_has_a_header_in_json_and_its_body() {
    let fields = [("topic", "t\u{1}\"".to_owned())].into();
    let request = RemotingRequest { code: 105, fields, body: Bytes::from_static(b"body") };
    let mut out = BytesMut::new();
    request.put(7, None, &mut out);
    assert_eq!(u32::from_be_bytes(*out.first_chunk().unwrap()) as usize, out.len() - 4);
    let length = u32::from_be_bytes(out[4..8].try_into().unwrap()) as usize;
    assert_eq!(&out[8 + length..], b"body");
    let header = Json::read(Bytes::copy_from_slice(&out[8..8 + length])).unwrap();
    let shown: Vec<_> = header.members(20).unwrap();
    let shown: Vec<_> =
        shown.iter().map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.bytes()))).collect();
    let expected = [
        "code=105",
        "language=\"OTHER\"",
        "version=407",
        "opaque=7",
        "flag=0",
        "extFields={\"topic\":\"t\\u0001\\\"\"}",
        "serializeTypeCurrentRPC=\"JSON\"",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn an_answer_is_read_in_both_formats() {
    let check = |mut bytes: BytesMut, answers: Option<u32>, answer: RemotingAnswer| {
        let whole = bytes.clone();
        for length in 0..whole.len() {
            assert_eq!(take(&mut BytesMut::from(&whole[..length])), Ok(None), "{length} bytes are not all");
        }
        bytes.put_slice(&whole);
        assert_eq!(take(&mut bytes), Ok(Some(PeerCommand { answers, answer })));
        assert_eq!(bytes, whole, "the next one stays");
    };
    let header = br#"{"code":17,"flag":1,"language":"JAVA","opaque":5,"remark":"no t\u0074","version":407}"#;
    check(framed(0, header, b"x"), Some(5), answer(17, "no tt", b"x"));
    check(framed(0, br#"{"code":-1,"flag":1,"opaque":5}"#, b""), Some(5), answer(-1, "", b""));
    check(framed(0, br#"{"code":40,"flag":0,"opaque":5}"#, b""), None, answer(40, "", b""));
    check(framed(0, br#"{"code":0,"flag":1,"opaque":-5,"remark":null}"#, b""), None, answer(0, "", b""));
    let mut header = BytesMut::new();
    header.put_i16(2);
    header.put_slice(&[0, 1, 2]);
    header.put_i32(9);
    header.put_i32(1);
    header.put_u32(4);
    header.put_slice(b"busy");
    header.put_u32(0);
    check(framed(1, &header, b"body"), Some(9), answer(2, "busy", b"body"));
}

#[test]
fn a_remark_is_cut() {
    let header = format!(r#"{{"code":1,"flag":1,"opaque":5,"remark":"{}"}}"#, "x".repeat(10_000));
    let command = take(&mut framed(0, header.as_bytes(), b"")).unwrap().unwrap();
    assert_eq!(command.answer.remark.len(), 300);
}

#[test]
fn what_is_no_frame_is_refused() {
    let mut length = BytesMut::from(&b"HTTP/1.1 400"[..]);
    assert!(take(&mut length).is_err());
    for header in [&b"{}"[..], b"", b"[]", br#"{"code":"x","flag":1,"opaque":5}"#, &[0xff; 30]] {
        assert!(take(&mut framed(0, header, b"")).is_err(), "{header:?}");
    }
    assert!(take(&mut framed(1, &[0; 16], b"")).is_err());
    assert!(take(&mut framed(1, &[0xff; 40], b"")).is_err());
    assert!(take(&mut framed(2, b"{}", b"")).is_err());
    assert!(take(&mut framed(0, &vec![b' '; (64 << 10) + 1], b"")).is_err(), "a long header");
    let mut long = BytesMut::new();
    long.put_u32((4 << 20) + 1);
    assert!(take(&mut long).is_err(), "it is refused before it has come");
    let mut short = BytesMut::new();
    short.put_u32(4);
    short.put_u32(1);
    assert!(take(&mut short).is_err(), "a header behind the end of the frame");
}

/// Damaged and made-up answers: nothing panics, and nothing is believed to be small.
#[test]
fn any_bytes_are_an_answer_or_refused() {
    let seed = std::env::var("DELAYBRIDGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(fastrand::u64(..));
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let route = br#"{"orderTopicConf":"b:4","brokerDatas":[{"brokerAddrs":{0:"h:1"},"brokerName":"b"}],"queueDatas":[{"brokerName":"b","perm":6,"writeQueueNums":4}],"brokerAddrTable":{0:{}}}"#;
    let header = br#"{"code":17,"flag":1,"language":"JAVA","opaque":5,"remark":"no t\u0074"}"#;
    for _ in 0..20_000 {
        let mut body = route.to_vec();
        damage(&mut body, &mut random);
        let mut bytes = framed(random.u8(0..3), header, &body).to_vec();
        if random.bool() {
            damage(&mut bytes, &mut random);
        }
        let mut input = BytesMut::from(&bytes[..]);
        while let Ok(Some(command)) = take(&mut input) {
            TopicRoute::read(&command.answer.body).ok();
            has_brokers(&command.answer.body).ok();
        }
        let body = Bytes::from(body);
        assert!(TopicRoute::read(&body).map_or(0, |route| route.queues.len()) <= 65_536);
        has_brokers(&body).ok();
    }
}

fn damage(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..bytes.len());
        match random.u8(..4) {
            0 => bytes[at] = random.u8(..),
            1 => bytes[at] = *random.choice(b"{}[]\",:0\\9").unwrap(),
            2 => bytes.truncate(at.max(1)),
            _ => bytes.insert(at, random.u8(..)),
        }
    }
}
