//! Frames as brokers send them, cut anywhere, damaged, and made up.

use super::*;

fn all(bytes: &[u8]) -> Result<Vec<PeerFrame>, NotAmqp> {
    let mut buffer = BytesMut::from(bytes);
    let mut frames = Vec::new();
    while let Some(frame) = take(&mut buffer)? {
        frames.push(frame);
    }
    Ok(frames)
}

fn error_at(list: &mut WireWriter<'_>, condition: &str) {
    list.list(0x1d, |error| {
        error.symbol(condition).text("why");
    });
}

/// One of each frame that a broker sends.
fn of_broker() -> BytesMut {
    let mut out = BytesMut::new();
    frame(&mut out, 1, 0, |out| {
        list(out, 0x40, |list| {
            list.symbols(&["PLAIN", "ANONYMOUS"]);
        });
    });
    frame(&mut out, 1, 0, |out| {
        list(out, 0x44, |list| {
            list.ubyte(0);
        });
    });
    put(&mut out, 0, 0x10, |list| {
        list.text("broker")
            .null()
            .uint(131_072)
            .ushort(255)
            .uint(30_000)
            .nulls(2)
            .symbols(&["ANONYMOUS-RELAY", "x"])
            .null();
        list.map(|map| {
            map.symbol("product").text("RabbitMQ").symbol("version").text("3.10.8");
        });
    });
    put(&mut out, 7, 0x11, |list| {
        list.ushort(3).uint(1).uint(400).uint(400);
    });
    put(&mut out, 7, 0x12, |list| {
        list.text("n").uint(0).flag(true).nulls(3).list(0x29, |_| {}).nulls(3).uint(1000);
    });
    put(&mut out, 7, 0x13, |list| {
        list.uint(0).uint(400).uint(1).uint(400).uint(0).uint(5).uint(100).null().flag(true);
    });
    for (descriptor, undeliverable) in [(0x24, false), (0x26, false), (0x27, true), (0x34, false)] {
        put(&mut out, 7, 0x15, |list| {
            list.flag(true).uint(4).uint(6).flag(true).list(descriptor, |state| {
                state.flag(true).flag(undeliverable);
            });
        });
    }
    put(&mut out, 7, 0x15, |list| {
        list.flag(true).uint(4).null().flag(false).list(0x25, |state| error_at(state, "amqp:not-found"));
    });
    put(&mut out, 7, 0x16, |list| {
        list.uint(0).flag(true);
        error_at(list, "amqp:resource-deleted");
    });
    put(&mut out, 7, 0x17, |_| {});
    put(&mut out, 0, 0x18, |list| error_at(list, "amqp:connection:forced"));
    empty(&mut out);
    out
}

const EXPECTED: &str = r#"Mechanisms(["PLAIN", "ANONYMOUS"])
LoginOutcome(0)
Of(0, Open(PeerOpen { max_frame: 131072, channel_max: 255, idle: Some(30s), relays: true, accepts_unroutable: true }))
Of(7, Begin { of: Some(3), window: 400 })
Of(7, Attach { has_target: true, max_message: 1000 })
Of(7, Flow(PeerFlow { next_incoming: Some(0), incoming_window: 400, credit: Some((5, 100)), drain: true, echo: false }))
Of(7, Disposition(PeerDisposition { first: 4, last: 6, settled: true, outcome: Accepted }))
Of(7, Disposition(PeerDisposition { first: 4, last: 6, settled: true, outcome: Released }))
Of(7, Disposition(PeerDisposition { first: 4, last: 6, settled: true, outcome: Modified { undeliverable_here: true } }))
Of(7, Disposition(PeerDisposition { first: 4, last: 6, settled: true, outcome: Other }))
Of(7, Disposition(PeerDisposition { first: 4, last: 4, settled: false, outcome: Rejected(PeerError { condition: "amqp:not-found", description: "why" }) }))
Of(7, Detach(PeerError { condition: "amqp:resource-deleted", description: "why" }))
Of(7, End(PeerError { condition: "", description: "" }))
Of(0, Close(PeerError { condition: "amqp:connection:forced", description: "why" }))
Empty
"#;

#[test]
fn what_a_broker_sends_is_read_however_it_is_cut() {
    let bytes = of_broker();
    for cut in 0..bytes.len() {
        let mut buffer = BytesMut::new();
        let mut read = String::new();
        for part in [&bytes[..cut], &bytes[cut..]] {
            buffer.extend_from_slice(part);
            while let Some(frame) = take(&mut buffer).unwrap() {
                read.push_str(&format!("{frame:?}\n"));
            }
        }
        assert_eq!(read, EXPECTED, "cut at {cut}");
    }
}

#[test]
fn what_is_not_amqp_ends_the_connection() {
    let rows: [&[u8]; 7] = [
        b"HTTP/1.1 400 Bad Request\r\n",
        &[0, 0, 0, 7, 2, 0, 0, 0],
        &[0, 2, 0, 0, 2, 0, 0, 0],
        &[0, 0, 0, 8, 1, 0, 0, 0],
        &[0, 0, 0, 8, 9, 0, 0, 0],
        &[0, 0, 0, 8, 2, 7, 0, 0],
        &[0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x14, 0x45],
    ];
    for bytes in rows {
        assert!(all(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn damaged_and_random_bytes_do_no_harm() {
    let seed = 7;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let whole = of_broker();
    for _ in 0..100_000 {
        let mut bytes = whole.clone();
        for _ in 0..random.usize(1..6) {
            let place = random.usize(..bytes.len());
            bytes[place] = random.u8(..);
        }
        bytes.truncate(random.usize(..=bytes.len()));
        while let Ok(Some(_)) = take(&mut bytes) {}
    }
    for _ in 0..20_000 {
        let mut bytes = BytesMut::new();
        let length = random.usize(8..64);
        bytes.put_u32(length as u32);
        bytes.put_slice(&[2, 0, 0, 0, 0x00, 0x53, random.u8(0x10..0x19)]);
        bytes.extend(
            (0..length)
                .map(|_| *random.choice(&[0x40, 0x45, 0xc0, 0xd0, 0xa1, 0, 1, 4, 0x53, 0xf0, 0xb3, 255]).unwrap()),
        );
        while let Ok(Some(_)) = take(&mut bytes) {}
    }
}

#[test]
fn a_part_of_a_delivery_fits_into_the_smallest_frame() {
    for delivery in [0, 255, u32::MAX] {
        let mut out = BytesMut::new();
        let room = room(MIN_MAX_FRAME);
        frame(&mut out, 0, u16::MAX, |out| {
            transfer(out, delivery, true);
            out.put_bytes(0, room);
        });
        assert!(out.len() <= MIN_MAX_FRAME as usize, "{}", out.len());
        assert!(out.len() + 8 >= MIN_MAX_FRAME as usize, "little is wasted: {}", out.len());
    }
}

#[test]
fn the_beginning_of_a_link_fits_into_the_smallest_frame() {
    let mut out = BytesMut::new();
    attach(&mut out, 1, &"n".repeat(60), Some(&"a".repeat(255)));
    assert!(out.len() <= MIN_MAX_FRAME as usize, "{}", out.len());
}
