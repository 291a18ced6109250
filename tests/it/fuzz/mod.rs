//! Damaged and random input for everything that the daemon reads besides payloads: elements and their headers, records
//! and names in every key, templates, the configuration, requests. Payloads have a crate of their own, which also
//! measures allocations (`fuzz/`).
//!
//! Each target runs for a moment, or for `DELAYBRIDGE_FUZZ` seconds if that is set (`make fuzz`). It prints its seed.
//! No input may make it panic; the other conditions are stated at each target.

mod bodies;
mod conditions;
mod elements;
mod files;
mod keys;
mod memory;
mod requests;
mod templates;

use std::time::{Duration, Instant};

use fastrand::Rng;

/// The default duration of a target.
const MOMENT: Duration = Duration::from_millis(800);

fn time() -> Duration {
    let seconds = std::env::var("DELAYBRIDGE_FUZZ").ok().and_then(|text| text.parse().ok());
    seconds.map_or(MOMENT, Duration::from_secs_f64)
}

/// A generator of random numbers; `DELAYBRIDGE_SEED` repeats a run.
fn seeded(what: &str) -> Rng {
    let seed = std::env::var("DELAYBRIDGE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("{what}: seed {seed}");
    Rng::with_seed(seed)
}

/// Runs a target repeatedly until its time is over.
fn fuzz(what: &str, mut target: impl FnMut(&mut Rng)) {
    let mut random = seeded(what);
    let started = Instant::now();
    let mut runs = 0_u64;
    while started.elapsed() < time() {
        target(&mut random);
        runs += 1;
    }
    println!("{what}: {runs} inputs");
    assert!(runs > 10, "{what}: {runs} inputs only");
}

/// Random bytes, at most `most`; in some inputs mostly small numbers or letters.
fn noise(random: &mut Rng, most: usize) -> Vec<u8> {
    let top = random.choice([0x03, 0x7f, 0xff]).unwrap_or(0xff_u8);
    (0..random.usize(..=most)).map(|_| random.u8(..=top)).collect()
}

/// Damages bytes: a few changed, removed or doubled, or the end cut off.
fn damaged(random: &mut Rng, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..random.usize(1..4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.usize(..bytes.len());
        let to = random.usize(at..=bytes.len().min(at + 40));
        match random.u8(..5) {
            0 => bytes[at] ^= 1 << random.u8(..8),
            1 => bytes[at] = random.choice([0, 1, 8, b':', b'{', b'$', b'\t', 0x7f, 0x80, 0xff]).unwrap_or(0),
            2 => bytes.truncate(at),
            3 => {
                let _ = bytes.drain(at..to);
            }
            _ => {
                let part = bytes[at..to].to_vec().repeat(random.usize(1..20));
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}
