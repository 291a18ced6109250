//! The cost of the scripts of claims for a pool of jobs, whose bodies are in other keys.

use bytes::Bytes;
use delaybridge_ledger::claims::{ClaimName, ClaimReply, ClaimRequest, Element, Part, SettleCommand, SettleOp};
use delaybridge_ledger::{Ledger, Source, StatusWrite};

use super::*;

const CLAIM: &str = "crates/ledger/src/claims/scripts/claim.lua";
const SETTLE: &str = "crates/ledger/src/claims/scripts/settle.lua";
const STATUS: &str = "crates/source/src/job_pool/scripts/status.lua";

/// A pool with one bucket and its jobs in a hash.
fn pool() -> Ledger {
    Ledger::new(source(""), [1; 8])
}

/// The same with further settings.
fn source(more: &str) -> Arc<dyn Source> {
    let yaml = format!(
        "redis: {{ url: 'redis://h' }}\nsinks: {{ out: {{ stdout: {{}} }} }}\nqueues: {{ q: {{ source: {{ job_pool: {{ buckets: \
         ['{{p}}:bucket'], score: ms, id: member, job: {{ hash: '{{p}}:jobs' }}{more} }} }}, to: [{{ sink: out }}] }} }}\n"
    );
    let loaded =
        delaybridge_config::load_str(&yaml, "guard.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    loaded.config.queues[0].source.build()
}

#[tokio::test]
async fn bodies_that_go_with_their_jobs() {
    let pool = pool();
    // A batch of the settler has at most 1 MiB with its bodies, or one larger job alone.
    for (count, size) in [(500, 2 << 10), (500, 256), (1, 10 * MIB)] {
        within_the_limit(SETTLE, &format!("{count} jobs of {size} bytes"), async |rig: &mut Rig| {
            let claim = ClaimName::new([1; 8], rig.next);
            rig.next += 1;
            let [d, _] = pool.keys.of_claim(claim);
            let mut batch = Vec::new();
            for n in 0..count {
                let member = Bytes::from(n.to_string());
                let body = Bytes::from(rig.element(size));
                rig.run(redis::cmd("ZADD").arg(&d[..]).arg(n).arg(&member[..])).await;
                rig.run(redis::cmd("HSET").arg("{p}:jobs").arg(&member[..]).arg(&body[..])).await;
                batch.push(SettleCommand {
                    claim,
                    part: Part::Bare,
                    member,
                    step: SettleOp::Confirm,
                    body: Some(body),
                });
            }
            reset_counts(rig).await;
            let settled = pool.claims().settle(&rig.conn, &batch, None, None).await.unwrap();
            assert_eq!(settled.answers.len(), count);
            let left: usize = redis::cmd("HLEN").arg("{p}:jobs").query_async(&mut rig.redis).await.unwrap();
            assert_eq!(left, 0);
            count * size
        })
        .await;
    }
}

#[tokio::test]
async fn statuses_of_jobs() {
    let source = source(", record: { format: json, body: b }, status: { field: s, reserved: R, delay: D }");
    let pool = Ledger::new(source.clone(), [1; 8]);
    // A claim has at most 1 MiB with its bodies.
    for (count, size) in [(500, 2 << 10), (500, 256), (1, MIB - 1_024)] {
        within_the_limit(STATUS, &format!("{count} jobs of {size} bytes"), async |rig: &mut Rig| {
            let mut elements = Vec::new();
            for n in 0..count {
                let member = Bytes::from(n.to_string());
                let body = format!(r#"{{"s":"D","b":"{}"}}"#, "x".repeat(size));
                rig.run(redis::cmd("HSET").arg("{p}:jobs").arg(&member[..]).arg(body)).await;
                elements.push(Element::bare(member, 0));
            }
            pool.fetch(&rig.conn, &mut elements, 2 * MIB).await.unwrap();
            reset_counts(rig).await;
            let status = source.bodies().and_then(|bodies| bodies.status()).unwrap();
            status.write(&rig.conn, &mut elements, StatusWrite::Reserved).await.unwrap();
            let last: Vec<u8> =
                redis::cmd("HGET").arg("{p}:jobs").arg(count - 1).query_async(&mut rig.redis).await.unwrap();
            assert!(last.starts_with(br#"{"s":"R""#));
            count * size
        })
        .await;
    }
}

#[tokio::test]
async fn many_due_ids() {
    let pool = pool();
    within_the_limit(CLAIM, "500 of 100,000 ids of a pool", async |rig: &mut Rig| {
        for first in (0..100_000).step_by(1_000) {
            let mut add = redis::cmd("ZADD");
            add.arg("{p}:bucket");
            for n in first..first + 1_000 {
                add.arg(n).arg(n);
            }
            rig.run(&mut add).await;
        }
        rig.next += 1;
        let request = ClaimRequest {
            name: ClaimName::new([1; 8], rig.next),
            not_after_ms: i64::MAX,
            lease: LEASE,
            ahead: Duration::ZERO,
            most: 500,
            bytes: MIB,
            rotation: 0,
            hints: Hints::default(),
            back_before_ms: None,
        };
        reset_counts(rig).await;
        match pool.claims().claim(&rig.conn, &request).await.unwrap() {
            ClaimReply::Claimed(claimed) => assert_eq!(claimed.elements.len(), 500),
            other => panic!("{other:?}"),
        }
        0
    })
    .await;
}
