//! Confirmations of some elements of a claim: exactly these go, and a replica gets little for each.

use bytes::Bytes;
use delaybridge_ledger::claims::{Answer, ClaimName, Part, SettleCommand, SettleOp};
use delaybridge_source::redisson::Redisson;

use super::directed_sweep::{NOW_MS, claim, offer, start};
use super::rig::Rig;
use delaybridge_core::message::MessageId;
use delaybridge_source::redisson::layout::{Layout, pack};

/// Number of elements of the claim.
const CLAIMED: u64 = 100;

/// An element of 273 bytes.
fn element(n: u64) -> Bytes {
    pack(Layout::New, MessageId(n.to_be_bytes()), &[b'x'; 256]).into()
}

async fn confirm(rig: &Rig, source: &Redisson, members: &[Bytes]) -> Vec<Answer> {
    let command = |member: &Bytes| SettleCommand {
        claim: ClaimName::new(source.owner, 1),
        part: Part::Bare,
        member: member.clone(),
        step: SettleOp::Confirm,
        body: None,
    };
    let batch: Vec<_> = members.iter().map(command).collect();
    source.claims().settle(&rig.conn, &batch, None, None).await.unwrap().answers
}

async fn left(rig: &mut Rig, source: &Redisson) -> Vec<Bytes> {
    let [key, _] = source.keys.of_claim(ClaimName::new(source.owner, 1));
    redis::cmd("ZRANGE").arg(&key[..]).arg(0).arg(-1).query_async(&mut rig.redis).await.unwrap()
}

async fn replicated(rig: &mut Rig) -> u64 {
    let info: String = redis::cmd("INFO").arg("replication").query_async(&mut rig.redis).await.unwrap();
    let offset = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    offset.expect("an offset").trim().parse().expect("a number")
}

#[tokio::test]
async fn confirmations_of_a_part_of_a_claim_name_no_element_to_a_replica() {
    let (mut rig, a, _) = start().await;
    let all: Vec<_> = (0..CLAIMED).map(|n| (element(n), NOW_MS - 1_000 + n as i64)).collect();
    offer(&mut rig, &a, &all).await;
    assert_eq!(claim(&rig, &a, 1, 500).await.elements.len(), all.len());
    rig.server.keep_backlog().await.unwrap();
    let mut expected: Vec<u64> = (0..CLAIMED).collect();
    // Runs at both ends and in the middle, each second one, and the same ones once more, in any order.
    let parts: [Vec<u64>; 5] = [
        (0..20).collect(),
        (90..100).rev().collect(),
        (40..55).collect(),
        (20..40).step_by(2).collect(),
        (0..30).collect(),
    ];
    for part in parts {
        let before = replicated(&mut rig).await;
        let members: Vec<Bytes> = part.iter().map(|n| element(*n)).collect();
        let answers = confirm(&rig, &a, &[&members[..], &members[..1]].concat()).await;
        for (n, answer) in part.iter().zip(&answers) {
            let there = expected.contains(n);
            assert_eq!(*answer, if there { Answer::Done } else { Answer::NotMine }, "{n} of {part:?}");
        }
        assert_eq!(answers[part.len()], Answer::NotMine, "named twice");
        let gone = expected.len();
        expected.retain(|n| !part.contains(n));
        let gone = gone - expected.len();
        assert_eq!(left(&mut rig, &a).await, expected.iter().map(|n| element(*n)).collect::<Vec<_>>());
        let bytes = (replicated(&mut rig).await - before) as usize;
        assert!(bytes < 300 + 130 * gone, "{bytes} bytes for {gone} of {part:?}");
    }
    assert_eq!(expected.len(), 40);
}

#[tokio::test]
async fn a_few_confirmations_of_a_claim_of_many_and_those_of_large_elements_are_written_by_name() {
    let (mut rig, a, _) = start().await;
    let large = |n: u64| Bytes::from(pack(Layout::New, MessageId(n.to_be_bytes()), &vec![b'x'; 60_000]));
    let all: Vec<_> = (0..10).map(|n| (large(n), NOW_MS - 1_000 + n as i64)).collect();
    offer(&mut rig, &a, &all).await;
    assert_eq!(claim(&rig, &a, 1, 500).await.elements.len(), 10);
    let members: Vec<Bytes> = (0..9).map(large).collect();
    assert_eq!(confirm(&rig, &a, &members).await, vec![Answer::Done; 9]);
    assert_eq!(left(&mut rig, &a).await, [large(9)]);
}
