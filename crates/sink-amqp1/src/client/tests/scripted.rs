//! The sink against a peer of our own, for what the real brokers of the tests never say.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::super::frames::frame;
use super::super::types::{WireWriter, list};
use super::{Amqp1Sink, address, assert_failure, spec_on};
use crate::Amqp1Spec;
use delaybridge_core::message::Class;
use delaybridge_sink::{Answers, Sink};
use delaybridge_testing::sink::outbound;

const OPEN: u8 = 0x10;
const BEGIN: u8 = 0x11;
const ATTACH: u8 = 0x12;
const FLOW: u8 = 0x13;
const TRANSFER: u8 = 0x14;
const DISPOSITION: u8 = 0x15;
const DETACH: u8 = 0x16;
const END: u8 = 0x17;
const CLOSE: u8 = 0x18;

/// The answers of the peer to frames of the sink, and what they need.
struct Script {
    /// Frames that a session lets come before it is told that they have.
    window: u32,
    credit: u32,
    /// Whether both are given anew after each delivery.
    again: bool,
    /// Puts the answers to a delivery into the buffer: channel, number and body.
    /// Whether the session goes on.
    answer: fn(&mut BytesMut, u16, u32, &str) -> bool,
}

fn put(out: &mut BytesMut, channel: u16, descriptor: u8, fields: impl FnOnce(&mut WireWriter<'_>)) {
    frame(out, 0, channel, |out| list(out, descriptor, fields));
}

fn error(list: &mut WireWriter<'_>, condition: &str) {
    list.list(0x1d, |error| {
        error.symbol(condition);
    });
}

fn dispose(
    out: &mut BytesMut,
    channel: u16,
    number: u32,
    settled: bool,
    state: u8,
    fields: impl FnOnce(&mut WireWriter<'_>),
) {
    put(out, channel, DISPOSITION, |list| {
        list.flag(true).uint(number).null().flag(settled).list(state, fields);
    });
}

/// A peer that takes one connection. Returns its port, and each frame that it sees: descriptor and channel.
async fn peer(script: Script) -> (u16, mpsc::Receiver<(u8, u16)>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, frames) = mpsc::channel(10_000);
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut input = BytesMut::new();
        let mut out = BytesMut::new();
        let mut ended = HashSet::new();
        let mut counts: HashMap<u16, u32> = HashMap::new();
        loop {
            while let Some(part) = next(&mut input) {
                if part.starts_with(b"AMQP") {
                    out.extend_from_slice(&part);
                    if part[4] == 3 {
                        frame(&mut out, 1, 0, |out| {
                            list(out, 0x40, |list| {
                                list.symbol("ANONYMOUS");
                            });
                        });
                    }
                    continue;
                }
                let kind = part[5];
                let channel = u16::from_be_bytes([part[6], part[7]]);
                if kind == 1 {
                    frame(&mut out, 1, 0, |out| {
                        list(out, 0x44, |list| {
                            list.ubyte(0);
                        });
                    });
                    continue;
                }
                let Some(&descriptor) = part.get(10) else { continue };
                // The probe of the connection uses channel 0, and ends before any link begins.
                let _: Result<_, _> = seen.try_send((descriptor, channel));
                match descriptor {
                    OPEN => put(&mut out, 0, OPEN, |list| {
                        list.text("peer").null().uint(512);
                    }),
                    BEGIN => put(&mut out, channel + 100, BEGIN, |list| {
                        list.ushort(channel).uint(0).uint(script.window).uint(0);
                    }),
                    ATTACH => {
                        counts.remove(&channel);
                        put(&mut out, channel + 100, ATTACH, |list| {
                            list.text("n").uint(0).flag(true).nulls(3).list(0x29, |_| {}).nulls(3).null();
                        });
                        put(&mut out, channel + 100, FLOW, |list| {
                            list.uint(0).uint(script.window).uint(0).uint(0).uint(0).uint(0).uint(script.credit);
                        });
                    }
                    TRANSFER => {
                        let count = counts.entry(channel).or_default();
                        let body = String::from_utf8_lossy(&part).rsplit(';').next().unwrap().to_owned();
                        let goes_on = (script.answer)(&mut out, channel + 100, *count, &body);
                        *count += 1;
                        if !goes_on {
                            ended.insert(channel);
                        }
                        let count = if script.again && goes_on { *count } else { continue };
                        put(&mut out, channel + 100, FLOW, |list| {
                            list.uint(count)
                                .uint(script.window)
                                .uint(0)
                                .uint(0)
                                .uint(0)
                                .uint(count)
                                .uint(script.credit);
                        });
                    }
                    // The answer to the peer's own.
                    END if ended.remove(&channel) => {}
                    END => put(&mut out, channel + 100, END, |_| {}),
                    CLOSE => return,
                    _ => {}
                }
            }
            if socket.write_all(&out).await.is_err() || socket.read_buf(&mut input).await.unwrap_or(0) == 0 {
                return;
            }
            out.clear();
        }
    });
    (port, frames)
}

/// The next frame, or the first bytes of a part of the protocol.
fn next(input: &mut BytesMut) -> Option<BytesMut> {
    let size = match input.get(..4)? {
        b"AMQP" => 8,
        size => u32::from_be_bytes(size.try_into().unwrap()) as usize,
    };
    (input.len() >= size).then(|| input.split_to(size))
}

fn sink(port: u16, timeout: u64) -> Arc<Amqp1Sink> {
    let spec = Amqp1Spec { heartbeat: Duration::from_secs(30), ..spec_on(port) };
    Arc::new(Amqp1Sink::new(Arc::new(spec), Duration::from_secs(timeout)))
}

#[tokio::test]
async fn every_outcome_has_its_class() {
    let answer = |out: &mut BytesMut, channel, number, body: &str| {
        match body {
            "accepted" => dispose(out, channel, number, true, 0x24, |_| {}),
            "unsettled" => {
                // Of a delivery that was never sent: it is owed no settlement.
                dispose(out, channel, number + 1_000, false, 0x24, |_| {});
                dispose(out, channel, number, false, 0x24, |_| {});
            }
            "received" => {
                dispose(out, channel, number, false, 0x23, |_| {});
                dispose(out, channel, number, true, 0x26, |_| {});
            }
            "released" => dispose(out, channel, number, true, 0x26, |_| {}),
            "modified" => dispose(out, channel, number, true, 0x27, |state| {
                state.flag(true).flag(false);
            }),
            "undeliverable" => dispose(out, channel, number, true, 0x27, |state| {
                state.flag(false).flag(true);
            }),
            "rejected" => dispose(out, channel, number, true, 0x25, |state| error(state, "x:y")),
            "plain" => dispose(out, channel, number, true, 0x25, |_| {}),
            "transaction" => dispose(out, channel, number, true, 0x34, |_| {}),
            "full" => dispose(out, channel, number, true, 0x25, |state| error(state, "amqp:resource-limit-exceeded")),
            "settled" => put(out, channel, DISPOSITION, |list| {
                list.flag(true).uint(number).null().flag(true);
            }),
            "ended" => put(out, channel, END, |list| error(list, "amqp:internal-error")),
            "too large" => put(out, channel, DETACH, |list| {
                list.uint(0).flag(true);
                error(list, "amqp:link:message-size-exceeded");
            }),
            other => panic!("{other}"),
        }
        body != "ended"
    };
    let (port, mut frames) = peer(Script { window: 100, credit: 100, again: true, answer }).await;
    let sink = sink(port, 60);
    let rows = [
        ("released", Class::Transient, "amqp1_released"),
        ("received", Class::Transient, "amqp1_released"),
        ("modified", Class::Transient, "amqp1_modified"),
        ("undeliverable", Class::MessagePermanent, "amqp1_undeliverable"),
        ("rejected", Class::MessagePermanent, "amqp1_rejected"),
        ("plain", Class::MessagePermanent, "amqp1_rejected"),
        ("transaction", Class::Unknown, "amqp1_error"),
        ("settled", Class::Unknown, "amqp1_error"),
        ("full", Class::Backpressure, "amqp1_full"),
        ("ended", Class::Ambiguous, "amqp1_detached"),
        ("too large", Class::MessagePermanent, "amqp1_too_large"),
    ];
    for (body, class, code) in rows {
        let outcome = sink.deliver(outbound(1, address("a"), format!(";{body}"))).await;
        assert!(outcome.is_err(), "{body} is no success");
        assert_failure(outcome, class, code);
        sink.deliver(outbound(2, address("a"), ";accepted")).await.unwrap();
        sink.deliver(outbound(3, address("a"), ";unsettled")).await.unwrap();
    }
    sink.close().await;
    let mut seen = Vec::new();
    while let Some((descriptor, _)) = frames.recv().await {
        seen.push(descriptor);
    }
    // What the peer has not settled is settled by the sink.
    assert_eq!(seen.iter().filter(|descriptor| **descriptor == DISPOSITION).count(), rows.len(), "{seen:x?}");
    assert_eq!(seen[seen.len() - 3..], [DETACH, END, CLOSE]);
}

#[tokio::test]
async fn no_more_is_under_way_than_credit_and_window_allow() {
    let answer = |_: &mut BytesMut, _, _, _: &str| true;
    // With parts of a message: so many bytes make three.
    for (window, credit, bytes, begun) in [(3, 100, 0, 3), (100, 3, 0, 3), (7, 100, 1000, 3), (100, 2, 1000, 2)] {
        let (port, mut frames) = peer(Script { window, credit, again: false, answer }).await;
        let sink = sink(port, 2);
        let answers = Answers::new(20);
        let body = format!("{};x", "b".repeat(bytes));
        sink.deliver_all((0..20).map(|n| outbound(n, address("a"), &body)).collect(), &answers).await;
        let answered = answers.take();
        let of = |class| answered.failed.iter().filter(|(_, failure)| failure.class == class).count();
        assert_eq!((of(Class::Ambiguous), of(Class::Backpressure)), (begun, 20 - begun), "{answered:?}");
        drop(sink);
        let mut transfers = 0;
        while let Some((descriptor, _)) = frames.recv().await {
            transfers += u32::from(descriptor == TRANSFER);
        }
        let parts = if bytes == 0 { 1 } else { 3 };
        assert_eq!(transfers, window.min(credit * parts), "window {window}, credit {credit}");
    }
}

#[tokio::test]
async fn the_end_of_one_session_costs_no_other_address_anything() {
    let answer = |out: &mut BytesMut, channel, number, body: &str| {
        match body {
            "bad" => put(out, channel, END, |list| error(list, "amqp:not-found")),
            _ => dispose(out, channel, number, true, 0x24, |_| {}),
        }
        body != "bad"
    };
    let (port, _frames) = peer(Script { window: 1000, credit: 1000, again: true, answer }).await;
    let sink = sink(port, 60);
    for round in 0..20 {
        let bad = sink.deliver(outbound(1, address("bad"), ";bad"));
        let good = (0..20).map(|n| sink.deliver(outbound(100 * round + n, address("good"), ";good")));
        let (bad, good) = tokio::join!(bad, futures_util::future::join_all(good));
        assert_failure(bad, Class::TargetPermanent, "amqp1_not_found");
        for outcome in good {
            outcome.unwrap();
        }
    }
}
