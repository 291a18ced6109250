//! A failover between two offers: the producer follows, and what it repeats is there once.

use std::time::Duration;

use serde_json::json;

use super::offers::HOUR;
use crate::bench::{Bench, Check, Opening, Stop, now_ms};
use crate::child::Answer;
use crate::server::Server;
use crate::servers::Servers;
use crate::statements::O12;

pub const FAILOVER: Check = Check { name: "a failover", about: &[O12], run: failover };

/// Tries, each a tenth of a second apart, until the producer has to have found the new master.
const TRIES: u32 = 200;

fn failover(bench: &mut Bench) -> Result<(), Stop> {
    let servers = Servers::start().map_err(Stop::NotChecked)?;
    bench.server = Server::connect(&servers.master_url())?;
    bench.move_to(&servers.master_url());
    let queue = bench.queue("{%}:orders")?;
    bench.open_with(&queue, Opening::default(), &json!({"sentinel": servers.sentinel()}))?;
    let with_ids = bench.needs("ids").is_ok();
    let due = now_ms() + HOUR;
    let mut offer = json!({"value": "before", "due_ms": due});
    if with_ids {
        offer["id"] = super::ids::id(bench).into();
    }
    bench.offer(offer.clone())?;
    servers.fail_over().map_err(Stop::NotChecked)?;
    bench.server = Server::connect(&servers.replica_url())?;
    let mut after = json!({"value": "after", "due_ms": due, "op": "offer"});
    if with_ids {
        after["id"] = super::ids::id(bench).into();
    }
    let mut last = String::new();
    let mut tries = 0;
    while tries < TRIES {
        match bench.try_ask(after.clone())? {
            Answer::Done(_) => break,
            Answer::Refused(error) => last = error,
            Answer::NotOffered => return Err(Stop::NotOffered),
        }
        std::thread::sleep(Duration::from_millis(100));
        tries += 1;
    }
    bench.require(O12, tries < TRIES, || {
        format!("no offer succeeded within {} s of a failover; the last error: {last}", TRIES / 10)
    });
    if with_ids {
        // As one does whose reply was lost.
        bench.offer(offer)?;
        bench.offer(after)?;
    }
    let seen = bench.look(&queue)?;
    let listed: Vec<_> = seen.listed.iter().map(|element| bench.payload(element)).collect();
    bench.require(O12, listed == [b"before".to_vec(), b"after".to_vec()], || {
        let listed: Vec<_> = listed.iter().map(|payload| String::from_utf8_lossy(payload)).collect();
        format!("one offer before a failover and one after it; the new master's list has {listed:?}")
    });
    Ok(())
}
