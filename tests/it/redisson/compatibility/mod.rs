//! Every version with every codec, in every direction; the results of this run are `docs/compatibility.md`.

mod codecs;
mod page;
mod run;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use futures_util::future::join_all;

use harness::java::VERSIONS;
use harness::turn::heavy;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_compatibility_is_what_every_version_and_codec_does() {
    let _turn = heavy().await;
    let known = run::known_codecs();
    let outcomes = join_all(VERSIONS.map(|version| unless_stuck(version, &known))).await;
    let page = page::page(&VERSIONS.into_iter().zip(outcomes).collect::<Vec<_>>());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/compatibility.md");
    if std::fs::read_to_string(path).unwrap_or_default() != page {
        std::fs::write(path, page).expect("write the page");
        panic!("docs/compatibility.md was out of date and is rewritten: look at it and commit it");
    }
}

/// Runs again with another client if the first is stuck: in old versions, a subscription that times out on a busy
/// machine leaves the lock of all subscriptions of its client behind (redisson/redisson issues 4216 and 5046).
async fn unless_stuck(version: &'static str, known: &HashSet<&str>) -> Vec<run::Outcome> {
    let first = AssertUnwindSafe(run::run(version, known)).catch_unwind().await;
    match first {
        Ok(outcomes) => outcomes,
        Err(panic) => match panic.downcast_ref::<String>() {
            Some(said) if said.contains("Unable to acquire subscription lock") => run::run(version, known).await,
            _ => resume_unwind(panic),
        },
    }
}
