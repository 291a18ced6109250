//! Each right in turn is withdrawn from the daemon's user: no job is lost, and what is refused names the right.

use super::*;
use delaybridge_ledger::claims::{ClaimReply, SettleCommand, SettleOp, Settled};
use delaybridge_ledger::store::Claims;
use delaybridge_ledger::{Answer, StoreError};
use delaybridge_link::rights::command::LRANGE;
use delaybridge_link::rights::{Grant, Pattern, to_connect, to_load_scripts};
use delaybridge_link::test_server::soon;
use delaybridge_link::{Link, LinkOptions, TEST_CLOCK};
use delaybridge_testing::store::{Mine, ms, name, request};

/// A hash of jobs in JSON with a status, and a hash beside them.
fn shared() -> Preset {
    Preset {
        record: Format::Json,
        wanted: Wanted { body: Some("body".to_owned()), ..Wanted::default() },
        status: Some(Box::new(states("status"))),
        beside: Some("{pool}:beside".to_owned()),
        ..plain()
    }
}

/// A hash for each job, with a status beside the record.
fn own() -> Preset {
    let at = StatusAt::Hash("state".to_owned());
    let place = Place::Own("{pool}:job:{id}".to_owned(), "record".to_owned());
    let also = vec!["{pool}:job:{id}:logs".to_owned()];
    Preset { place, also, status: Some(Box::new(Status { at, ..states("") })), ..plain() }
}

/// A string for each job.
fn value() -> Preset {
    Preset { place: Place::Value("{pool}:job:{id}".to_owned()), ..shared() }
}

const RECORD: &[u8] = br#"{"body":"b","status":"DELAY"}"#;

/// What a refused call says.
fn words<T>(result: &Result<T, StoreError>) -> Option<String> {
    result.as_ref().err().map(ToString::to_string)
}

async fn without_each_right_in_turn(preset: Preset) {
    let mut rig = PoolRig::new(preset).await;
    let usage = Use { trims_dead: true, ..Use::default() };
    let grants = Ledger::new(rig.source.clone(), [A; 8]).rights(Activity::Deliver, &usage);
    let clock = Grant::on([Pattern::exact(TEST_CLOCK)], [LRANGE]);
    let mut number = 0;
    let mut refused = 0;
    for (place, grant) in grants.iter().enumerate() {
        for command in grant.commands() {
            number += 1;
            let lacking = grants
                .iter()
                .enumerate()
                .map(|(at, grant)| if at == place { grant.without(*command) } else { grant.clone() });
            let lacking: Vec<_> = lacking.chain([to_connect(0), to_load_scripts(), clock.clone()]).collect();
            let endpoint = rig.servers.all()[0].endpoint_within(&format!("lacks-{number}"), &lacking);
            let scripts = SCRIPTS_ON_TEST_CLOCK.all().into_iter().cloned().chain([NOTE.clone()]).collect();
            let options = LinkOptions { scripts, heartbeat: Duration::from_secs(30), ..LinkOptions::default() };
            let link = Link::start(Arc::new(endpoint), options);
            soon("a connection", link.ready()).await;
            let what = format!("without {} in {grant:?}", command.name);
            refused += usize::from(one_right(&mut rig, &link, &format!("{number}"), &what).await);
            link.close().await;
        }
    }
    assert!(refused > 15, "{refused} of {number} rights were missed by something");
}

/// Three jobs, one for each way: confirmed, tried again, dead. Whatever is refused on the way, each of the two others is somewhere with
/// its body, and a process with all rights gets it. Answers whether something was refused.
async fn one_right(rig: &mut PoolRig, link: &Link, test: &str, what: &str) -> bool {
    let jobs = ["confirmed", "tried", "dead"].map(|end| Bytes::from(format!("{end}-{test}")));
    for job in &jobs {
        rig.put(job, RECORD).await;
        rig.offer(job, rig.now_ms()).await;
    }
    let store = RedisStore::new(link.clone(), rig.source.clone(), [A; 8]);
    let number: u64 = test.parse().expect("a number");
    let mut errors = Vec::new();
    let claimed = store.claim(&request(A, number)).await;
    errors.extend(words(&claimed));
    if let Ok(ClaimReply::Claimed(claimed)) = claimed {
        for mine in Mine::all(name(A, number), claimed.elements) {
            let step = match &mine.element.member {
                member if *member == jobs[0] => SettleOp::Confirm,
                member if *member == jobs[1] => mine.retry(ms(1)),
                _ => mine.dead(),
            };
            let settled: Result<Settled, _> = store.settle(&[mine.verdict(step)], None, Some(1_000)).await;
            errors.extend(words(&settled));
        }
        errors.extend(words(&store.extend(ms(1_000), i64::MAX, &[name(A, number)]).await));
    }
    let lost = errors.iter().find(|error| !error.contains("NOPERM"));
    assert_eq!(lost, None, "{what}: another answer than that a right is missing");
    // The lease of what is left ends, and a process with all rights goes on.
    rig.advance(Duration::from_secs(3_600)).await;
    let whole = rig.redis(A + 1);
    let mut found = Vec::new();
    let next = 1_000 + number;
    let ClaimReply::Claimed(claimed) = whole.claim(&request(A + 1, next)).await.expect("with all rights") else {
        panic!("{what}: the claim is late");
    };
    found.extend(Mine::all(name(A + 1, next), claimed.elements));
    let (expired, _) = whole.expired(rig.now_ms(), 10).await.expect("names");
    for (place, old) in expired.into_iter().enumerate() {
        let new = next + 10_000 * (1 + place as u64);
        let ask = delaybridge_testing::store::takeover(old, A + 1, new);
        if let delaybridge_ledger::claims::TakeOverReply::Taken { elements, .. } =
            whole.take_over(&ask).await.expect("with all rights")
        {
            found.extend(Mine::all(ask.new, elements));
        }
    }
    let dead: Vec<Bytes> =
        rig.places().await.dead.iter().filter_map(|letter| letter.bytes("element").cloned()).collect();
    for job in &jobs[1..] {
        let held = found.iter().find(|mine| mine.element.bytes() == *job);
        let readable = held.is_some_and(|mine| whole.open_element(&mine.element).1.is_ok());
        assert!(readable || dead.contains(job), "{what}: {job:?} is lost; {errors:?}");
    }
    // Everything goes, for the next one.
    let verdicts: Vec<SettleCommand> = found.iter().map(|mine| mine.verdict(SettleOp::Confirm)).collect();
    let settled = whole.settle(&verdicts, None, None).await.expect("with all rights");
    assert!(settled.answers.iter().all(|answer| *answer == Answer::Done), "{what}: {settled:?}");
    let mut clean = redis::pipe();
    for key in [&rig.redis.keys.dead, &rig.redis.keys.leases] {
        clean.del(&key[..]);
    }
    rig.redis.run(&clean).await;
    !errors.is_empty()
}

#[tokio::test]
async fn a_pool_in_one_hash_loses_nothing_without_a_right() {
    without_each_right_in_turn(shared()).await;
}

#[tokio::test]
async fn a_pool_of_hashes_loses_nothing_without_a_right() {
    without_each_right_in_turn(own()).await;
}

#[tokio::test]
async fn a_pool_of_strings_loses_nothing_without_a_right() {
    without_each_right_in_turn(value()).await;
}
