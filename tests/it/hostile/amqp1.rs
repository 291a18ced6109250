//! Brokers of AMQP 1.0.

use super::{Hostile, Peer, withstand};

fn frame(kind: u8, channel: u16, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).expect("a small frame");
    [&size.to_be_bytes()[..], &[2, kind], &channel.to_be_bytes(), body].concat()
}

/// A performative with these fields, of which each is encoded.
fn performative(channel: u16, descriptor: u8, fields: &[&[u8]]) -> Vec<u8> {
    let count = u8::try_from(fields.len()).expect("few fields");
    let fields = fields.concat();
    let size = u8::try_from(fields.len() + 1).expect("short fields");
    frame(0, channel, &[&[0, 0x53, descriptor, 0xc0, size, count][..], &fields].concat())
}

const NULL: &[u8] = &[0x40];
const TRUE: &[u8] = &[0x41];
const ZERO: &[u8] = &[0x43];
const MANY: &[u8] = &[0x70, 0, 0, 0x10, 0];

/// A broker that answers everything up to an attached link with credit; then it floods with frames for the link's channel.
fn floods(flood: impl Fn(u16) -> Vec<u8> + Send + Sync + 'static) -> Hostile {
    Hostile::serve(move |peer| {
        loop {
            let head = peer.read::<8>()?;
            if head.starts_with(b"AMQP") {
                peer.say(&head)?;
                if head[4] == 3 {
                    // The mechanisms: the one without a login.
                    peer.say(&frame(1, 0, b"\x00\x53\x40\xc0\x0c\x01\xa3\x09ANONYMOUS"))?;
                }
                continue;
            }
            let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let body = peer.read_many(size - 8)?;
            let channel = u16::from_be_bytes([head[6], head[7]]);
            match (head[5], body.get(2)) {
                (1, _) => peer.say(&frame(1, 0, &[0, 0x53, 0x44, 0xc0, 3, 1, 0x50, 0]))?,
                (0, Some(0x10)) => peer.say(&performative(0, 0x10, &[b"\xa1\x04peer"]))?,
                (0, Some(0x11)) => {
                    let of = [&[0x60][..], &channel.to_be_bytes()].concat();
                    peer.say(&performative(channel, 0x11, &[&of, ZERO, MANY, MANY]))?;
                }
                (0, Some(0x17)) => peer.say(&performative(channel, 0x17, &[]))?,
                (0, Some(0x12)) => {
                    let target = b"\x00\x53\x29\x45";
                    let fields: [&[u8]; 7] = [b"\xa1\x01n", ZERO, TRUE, NULL, NULL, NULL, target];
                    peer.say(&performative(channel, 0x12, &fields))?;
                    peer.say(&performative(channel, 0x13, &[ZERO, MANY, ZERO, MANY, ZERO, ZERO, MANY]))?;
                }
                (0, Some(0x14)) => return unread(peer, &flood(channel)),
                _ => {}
            }
        }
    })
}

fn unread(peer: &mut Peer, frames: &[u8]) -> std::io::Result<()> {
    peer.flood(frames)
}

fn sink(hostile: &Hostile) -> String {
    format!("amqp1: {{ url: 'amqp://127.0.0.1:{}', login: anonymous, address: orders, timeout: 5s }}", hostile.port)
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_of_nothing_are_not_settled() {
    // Of deliveries far behind the last one, not settled.
    let hostile = floods(|channel| {
        let accepted = b"\x00\x53\x24\x45";
        performative(channel, 0x15, &[TRUE, &[0x70, 0x40, 0, 0, 0], &[0x70, 0x40, 0, 0, 9], &[0x42], accepted])
    });
    withstand("AMQP 1.0: unsettled outcomes of no delivery", &hostile, &sink(&hostile)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_questions_for_flow_is_not_answered_without_end() {
    let hostile = floods(|channel| {
        let fields: [&[u8]; 10] = [ZERO, MANY, ZERO, MANY, ZERO, ZERO, MANY, ZERO, &[0x42], TRUE];
        performative(channel, 0x13, &fields)
    });
    withstand("AMQP 1.0: flow with echo without end", &hostile, &sink(&hostile)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_without_end_is_never_held() {
    let hostile = Hostile::serve(|peer| {
        peer.read::<8>()?;
        peer.say(b"AMQP\x03\x01\x00\x00\xff\xff\xff\xff\x02\x01\x00\x00")?;
        peer.flood(&[0; 64 << 10])
    });
    withstand("AMQP 1.0: a frame of 4 GiB", &hostile, &sink(&hostile)).await;
}
