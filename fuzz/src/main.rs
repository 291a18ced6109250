//! Damaged and made-up payloads for every codec, `auto` and each compression.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml -- SECONDS [CODEC]` runs every target for its part of that time. It needs no tool beside
//! stable Rust. The seeds are the payloads that Redisson wrote. The judges: no panic, a bound on the allocator's peak and on the body,
//! and a bound on the time. An input that breaks one is written to `fuzz/regressions/CODEC-HASH`, and every run begins with
//! those. `FUZZ_WORST=FOLDER` keeps the input of each codec that took most memory.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use redisson_codecs::bytes::Bytes;
use redisson_codecs::{Coding, decode};

mod inputs;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// `max_decoded_size`.
const BOUND: usize = 256 << 10;
/// The peak, in multiples of the bound, beside what a payload itself takes and a window of Zstandard.
const TIMES: usize = 4;
const WINDOW: usize = 10 << 20;
/// Of the processor's time, for a payload of at most 64 KiB: a busy machine pauses a process for seconds.
const SLOWEST: Duration = Duration::from_millis(500);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().and_then(|text| text.parse().ok()).expect("usage: fuzz SECONDS [CODEC]");
    let only = arguments.next();
    let names: Vec<_> = Coding::names().filter(|name| only.as_deref().is_none_or(|only| only == *name)).collect();
    assert!(!names.is_empty(), "there is no codec {only:?}");
    let share = Duration::from_secs_f64(seconds / names.len() as f64);
    let seed = fastrand::u64(..);
    println!("seed {seed}, {} targets, {share:?} each", names.len());
    let mut random = fastrand::Rng::with_seed(seed);
    let seeds = inputs::seeds();
    let mut broken = 0;
    for name in names {
        let coding = Coding { max_decoded_size: BOUND, ..name.parse().expect("a codec") };
        for input in regressions(name) {
            broken += u32::from(judge(coding, &input).inspect_err(|why| println!("{name}: {why}")).is_err());
        }
        let (started, mut runs, mut values) = (Instant::now(), 0_u64, 0_u64);
        let mut worst = (0, Bytes::new());
        while started.elapsed() < share {
            let input = Bytes::from(inputs::next(&mut random, coding, &seeds));
            runs += 1;
            match judge(coding, &input) {
                Ok(judged) => {
                    values += u64::from(judged.is_value);
                    // What is refused has cost memory all the same.
                    if judged.peak > worst.0 {
                        worst = (judged.peak, input);
                    }
                }
                Err(why) => {
                    broken += 1;
                    println!("{name}: {why}, kept as {}", keep(name, &input).display());
                    break;
                }
            }
        }
        let (peak, input) = worst;
        let times = peak as f64 / BOUND as f64;
        println!(
            "{name}: {runs} payloads, {values} of them values; {times:.1} times the bound for {} bytes",
            input.len()
        );
        if let Some(folder) = std::env::var_os("FUZZ_WORST") {
            std::fs::write(Path::new(&folder).join(name), &input).expect("keep the worst input");
        }
    }
    assert_eq!(broken, 0, "inputs that break a bound");
}

/// What an input took that breaks no bound.
struct Judged {
    is_value: bool,
    peak: usize,
}

/// What it took; or what bound it breaks.
fn judge(coding: Coding, input: &Bytes) -> Result<Judged, String> {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let started = on_processor();
    let decoded = std::panic::catch_unwind(|| {
        let decoded = decode(coding, input).ok()?;
        Some(decoded.decoded().len())
    });
    let (taken, peak) = (on_processor().saturating_sub(started), ALLOCATOR.peak_usage() - before);
    let body = decoded.map_err(|_| "a panic".to_owned())?;
    if peak > TIMES * BOUND + 4 * input.len() + WINDOW {
        return Err(format!("{peak} bytes at the peak for {} bytes", input.len()));
    }
    // JSON text is the producer's own.
    if body.is_some_and(|body| body > 2 * BOUND.max(input.len())) {
        return Err(format!("a body of {body:?} bytes for {} bytes", input.len()));
    }
    if taken > SLOWEST {
        return Err(format!("{taken:?} for {} bytes", input.len()));
    }
    Ok(Judged { is_value: body.is_some(), peak })
}

/// The time that the kernel gave this thread.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts it");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds");
    Duration::from_nanos(nanos)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions")
}

fn regressions(name: &str) -> Vec<Bytes> {
    let entries = std::fs::read_dir(folder()).into_iter().flatten().filter_map(Result::ok);
    let of_name = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{name}-")));
    of_name.map(|entry| std::fs::read(entry.path()).expect("a regression").into()).collect()
}

fn keep(name: &str, input: &Bytes) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = folder().join(format!("{name}-{:016x}", hasher.finish()));
    std::fs::create_dir_all(folder()).and_then(|()| std::fs::write(&path, input)).expect("keep the input");
    path
}
