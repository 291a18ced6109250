//! `check --live`: what can be known before the first element is claimed. Reads only, and reports everything at once.

mod finding;
mod inputs;
mod leases;
mod replication;
mod rights;
mod server;
mod sinks;

use std::sync::Arc;

use self::finding::finding;
pub use self::finding::{Health, LiveFinding};
use self::rights::rights;
use super::acl;
use super::descriptors::{self, Descriptors};
use super::error::explained;
use super::first_elements::{self, CodecFinding};
use super::plural;
use super::queue_state::{self, QueueState};
use super::session::{self, Queue, everywhere, redis};
use delaybridge_link::{Conn, ConnectError, Redis};
use delaybridge_model::{Config, Mode, OnAbsurdDue, QueueSpec, is_in_seconds};
use delaybridge_source::SourceConfig;
use delaybridge_source::competitors::{advice, blocked_consumers};
use delaybridge_source::job_pool::{held, rivals};
use delaybridge_source::redisson::{Keys, ListCleanup, RedissonSpec, free_places};
use delaybridge_source::zset::announced;

/// Nanoseconds that `LREM` takes for each entry of the list, on average over all places of the element.
const LREM_NS: u64 = 36;

pub(super) async fn look(config: &Config) -> Vec<LiveFinding> {
    let mut findings = Vec::new();
    let mut servers = Vec::new();
    for (name, target) in config.redis.iter() {
        let redis = redis(target);
        findings.extend(replication::sentinels(target).await);
        let conns = redis_with_queues(config, name, &redis, &mut findings).await;
        servers.push((name, redis, conns.and_then(|conns| conns.into_iter().next())));
    }
    findings.push(server::open_files(&Descriptors::of(config), descriptors::limit()));
    findings.extend(config.http_listen.and_then(|listen| server::port(listen, "http.listen")));
    findings.extend(config.admin.as_ref().and_then(|admin| server::listener(&admin.listen)));
    for spec in &config.sinks {
        let of_queues = config.redis_of_sink(&spec.name);
        let found = servers.iter().find(|(name, ..)| &***name == of_queues).or(servers.first());
        let Some((_, redis, conn)) = found else { continue };
        findings.push(sinks::look(config, spec, redis, conn.as_ref()).await);
    }
    for spec in &config.inputs {
        findings.push(inputs::look(spec).await);
    }
    findings
}

/// Looks at a Redis and what it holds; the connections to its servers, if they could be made.
async fn redis_with_queues(
    config: &Config,
    name: &str,
    redis: &Redis,
    findings: &mut Vec<LiveFinding>,
) -> Option<Vec<Conn>> {
    let what = format!("redis {}", redis.address());
    let conns = match everywhere(redis).await {
        Ok(conns) => conns,
        Err(error) => {
            findings.push(finding(what, Health::Failed, not_connected(redis.address(), &error)));
            return None;
        }
    };
    let queues = config.queues_on(name);
    for conn in &conns {
        let what = if redis.is_cluster() { format!("redis {}", conn.address()) } else { what.clone() };
        let mut found = vec![finding(what, Health::Well, format!("Redis {}, master", conn.info().version))];
        found.push(eviction(conn));
        found.extend(server::look(conn).await);
        found.extend(replication::look(conn, config.redis.named(name), &queues).await);
        of_each(redis, conn, found, findings);
    }
    for spec in &queues {
        findings.extend(match session::queue(redis, spec.clone()).await {
            Ok(found) => queue(found, redis.is_cluster()).await,
            Err(error) => vec![finding(format!("queue {}", spec.id), Health::Failed, error.to_string())],
        });
    }
    for conn in &conns {
        let mut found = vec![leases::look(conn, &queues).await];
        found.extend(consumers(conn, &queues).await);
        found.extend(timers(conn, &queues).await);
        of_each(redis, conn, found, findings);
    }
    if let (true, [conn, ..]) = (config.jobs.is_some() && &*config.jobs_redis == name, conns.as_slice()) {
        findings.push(rights(conn, "jobs: rights".to_owned(), &delaybridge_jobs::rights(&redis.space().prefix)).await);
    }
    Some(conns)
}

/// The reason why there is no connection. Its address is the one that failed, which a cluster or sentinels have named; the one of the
/// configuration is in the first column already.
fn not_connected(configured: &str, error: &ConnectError) -> String {
    if error.address == configured { error.message.clone() } else { format!("{}: {}", error.address, error.message) }
}

/// Adds the findings at one server; of a cluster, with the server.
fn of_each(redis: &Redis, conn: &Conn, found: Vec<LiveFinding>, findings: &mut Vec<LiveFinding>) {
    let named = |finding: LiveFinding| {
        if redis.is_cluster() && !finding.what.ends_with(conn.address()) {
            LiveFinding { what: format!("{} at {}", finding.what, conn.address()), ..finding }
        } else {
            finding
        }
    };
    findings.extend(found.into_iter().map(named));
}

fn eviction(conn: &Conn) -> LiveFinding {
    let info = conn.info();
    let what = "redis maxmemory-policy";
    match (info.evicts(), info.maxmemory) {
        (false, _) => finding(what, Health::Well, info.maxmemory_policy.clone()),
        (true, 0) => finding(
            what,
            Health::Warning,
            format!(
                "{}, without effect while maxmemory is 0; set noeviction before you set a limit",
                info.maxmemory_policy
            ),
        ),
        (true, _) => finding(
            what,
            Health::Warning,
            format!("{}: a full server evicts elements; set noeviction", info.maxmemory_policy),
        ),
    }
}

/// Java consumers that wait on a ready list which the daemon would drain as well.
async fn consumers(conn: &Conn, queues: &[Arc<QueueSpec>]) -> Option<LiveFinding> {
    let drained = queues.iter().filter(|spec| spec.source.consumes_ready() && matches!(spec.mode, Mode::Deliver));
    let drained: Vec<_> = drained.filter_map(|spec| spec.source.build().unannounced()).collect();
    if drained.is_empty() {
        return None;
    }
    let what = "consumers of ready lists";
    Some(match blocked_consumers(conn, &drained).await {
        Ok(Some((blocked, empty))) => match advice(&blocked).filter(|_| empty > 0) {
            Some(advice) => finding(what, Health::Warning, advice),
            None => finding(what, Health::Well, "none waits; a client that polls is not visible"),
        },
        Ok(None) => finding(what, Health::Warning, "unknown: that takes the rights to CLIENT INFO and CLIENT LIST"),
        Err(error) => finding(what, Health::Failed, explained(&error)),
    })
}

/// Programs that take due jobs of a pool as the daemon does.
async fn timers(conn: &Conn, queues: &[Arc<QueueSpec>]) -> Option<LiveFinding> {
    let pools: Vec<_> = queues.iter().filter_map(|spec| spec.source.job_pool()).collect();
    if pools.is_empty() {
        return None;
    }
    let what = "programs of job pools";
    Some(match rivals(conn, &pools).await {
        Ok(Some(signs)) if signs.is_empty() => finding(
            what,
            Health::Well,
            "no client waits for jobs or read a sorted set in the last second; scripts are not visible",
        ),
        Ok(Some(signs)) => {
            let advice = "Redis does not report the keys. A timer or worker of the program shares the due jobs with this daemon: stop \
                          it to have all of them delivered";
            finding(what, Health::Warning, format!("{}. {advice}", signs.join("; ")))
        }
        Ok(None) => {
            let rights = "CLIENT INFO, CLIENT LIST and PUBSUB NUMSUB";
            finding(what, Health::Warning, format!("unknown: that takes the rights to {rights}"))
        }
        Err(error) => finding(what, Health::Failed, explained(&error)),
    })
}

async fn queue(queue: Queue, in_cluster: bool) -> Vec<LiveFinding> {
    let conn = &queue.conn;
    let spec = &queue.spec;
    let what = format!("queue {}", spec.id);
    let rights = rights(conn, format!("{what}: rights"), &acl::of_queue(spec, in_cluster)).await;
    let mut findings = match queue_state::state(&queue).await {
        Ok(stats) => {
            let paused = format!("{what}: pause");
            let pauses = stats.paused.iter().map(|pause| pause.line(stats.now_ms));
            let pauses: Vec<_> = pauses.map(|line| finding(paused.clone(), Health::Warning, line)).collect();
            std::iter::once(depths(what, &spec.source, spec.on_absurd_due, &stats)).chain(pauses).collect()
        }
        Err(error) => vec![finding(what, Health::Failed, explained(&error))],
    };
    findings.insert(1, rights);
    findings.extend(expiry(&queue, format!("queue {}: expiry", spec.id)).await);
    findings.extend(first_elements::look(&queue).await.into_iter().map(|found| codec(&spec.id, found)));
    findings.extend(match &*spec.source {
        SourceConfig::Redisson(queue) if queue.consume.ready && spec.mode == Mode::Deliver => {
            bounded(conn, format!("queue {}: bounded", spec.id), queue).await
        }
        SourceConfig::Redisson(_) | SourceConfig::Jobs(_) => None,
        SourceConfig::Zset(_) => Some(notifications(conn, format!("queue {}: notifications", spec.id)).await),
        SourceConfig::JobPool(pool) => {
            let what = format!("queue {}: program", spec.id);
            match held(conn, pool).await {
                Ok(held) if held.is_empty() => None,
                Ok(held) => Some(finding(what, Health::Warning, held.join("; "))),
                Err(error) => Some(finding(what, Health::Failed, explained(&error))),
            }
        }
    });
    findings
}

fn codec(queue: &str, found: CodecFinding) -> LiveFinding {
    let health = if found.is_failure { Health::Failed } else { Health::Warning };
    finding(format!("queue {queue}: codec"), health, found.detail)
}

/// Returns a finding about each key of the source that Redis will delete.
async fn expiry(queue: &Queue, what: String) -> Vec<LiveFinding> {
    let found = match queue.ledger.expiring(&queue.conn).await {
        Ok(found) => found,
        Err(error) => return vec![finding(what, Health::Failed, explained(&error))],
    };
    let line = |(key, left_ms): (bytes::Bytes, i64)| {
        let detail = format!(
            "Redis deletes {} in {}, with all elements that are not delivered by then: it has a time to live (EXPIRE). Find the program that \
             sets it, and run PERSIST, or `delaybridge fsck --repair`",
            super::content::escaped(&String::from_utf8_lossy(&key)),
            plural::duration(left_ms.unsigned_abs())
        );
        finding(what.clone(), Health::Failed, detail)
    };
    found.into_iter().map(line).collect()
}

/// A finding about the free places of the ready list, if it is an `RBoundedBlockingQueue`.
async fn bounded(conn: &Conn, what: String, queue: &RedissonSpec) -> Option<LiveFinding> {
    Some(match free_places(conn, &Keys::of(&queue.space, &queue.name)).await {
        Ok(None) => return None,
        Ok(Some(free)) => {
            let free: String = free.chars().take(20).collect();
            let detail = format!(
                "the ready list is an RBoundedBlockingQueue with {free} free places: each element that is taken from it frees one"
            );
            finding(what, Health::Well, detail)
        }
        Err(error) => finding(what, Health::Failed, explained(&error)),
    })
}

/// Returns whether the server announces changes of sorted sets. It is never needed: the daemon looks for itself once a
/// second.
async fn notifications(conn: &Conn, what: String) -> LiveFinding {
    match announced(conn).await {
        Some(true) => finding(what, Health::Well, "on: a new element is seen at once"),
        Some(false) => finding(
            what,
            Health::Well,
            "off: an element that is added after its due time waits up to 1s; with notify-keyspace-events Kz it is seen at once",
        ),
        None => finding(what, Health::Well, "unknown: that takes the right to CONFIG GET"),
    }
}

/// Scores before 2001 and after 2100 are mostly scores of another unit. One of 0, or of less, means "at once" in every unit.
fn is_plausible(due_ms: i64) -> bool {
    due_ms <= 0 || (978_307_200_000..4_102_444_800_000).contains(&due_ms)
}

/// Returns the depths, and what `list_cleanup: exact` costs at them.
fn depths(what: String, source: &SourceConfig, on_absurd_due: OnAbsurdDue, s: &QueueState) -> LiveFinding {
    let mut detail = format!(
        "{} scheduled, {} due, {} in flight, {} in retry, {} dead",
        s.scheduled, s.due, s.in_flight, s.retry, s.dead
    );
    if source.consumes_ready() {
        detail.push_str(&format!(", {} on the ready list", s.ready));
    }
    let mut state = Health::Well;
    if let SourceConfig::Zset(set) = source
        && let Some(due_ms) = s.next_due_ms.filter(|due_ms| !is_plausible(*due_ms))
    {
        let is_held = is_in_seconds(due_ms) && on_absurd_due != OnAbsurdDue::Deliver;
        state = if is_held { Health::Failed } else { Health::Warning };
        detail.push_str(&format!(
            "; the first one is due at {due_ms} ms since 1970 by its score: is `score: {}` the unit that producers write?",
            set.score.as_str()
        ));
    }
    if s.orphans > 0 {
        state = Health::Warning;
        detail.push_str(&format!(
            "; {} entries of Redisson's list are in no sorted set: they are kept and never delivered",
            s.orphans
        ));
    }
    if source.redisson().is_some_and(|spec| spec.list_cleanup == ListCleanup::Exact) {
        let entries = s.listed;
        let micros = entries.saturating_mul(LREM_NS) / 1000;
        detail.push_str(&format!(
            "; list_cleanup: exact costs about {} of Redis's time for each element at the present {entries} entries",
            if micros < 1000 { format!("{micros}us") } else { plural::duration(micros / 1000) }
        ));
        // At 1 ms each, Redis is full of it at 1,000 elements a second.
        if micros >= 1000 {
            state = Health::Warning;
            detail.push_str(" (auto costs less)");
        }
    }
    finding(what, state, detail)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use delaybridge_link::ConnectErrorKind;
    use delaybridge_source::redisson::Consume;

    fn redisson(list_cleanup: ListCleanup) -> SourceConfig {
        SourceConfig::Redisson(RedissonSpec {
            name: "q".into(),
            consume: Consume { delayed: true, ready: true },
            list_cleanup,
            ghost_max_age: Duration::from_secs(30),
            sweep_bandwidth: 1 << 24,
            rescue_after: Duration::from_secs(10),
            space: Default::default(),
        })
    }

    #[test]
    fn the_cost_of_exact_is_reported_at_the_present_depth() {
        let check = |cleanup, listed, state, words: &str| {
            let found = depths(
                "q".to_owned(),
                &redisson(cleanup),
                OnAbsurdDue::Hold,
                &QueueState { listed, scheduled: listed as i64, ..QueueState::default() },
            );
            assert_eq!(found.state, state, "{}", found.detail);
            assert!(found.detail.contains(words), "{}", found.detail);
        };
        check(ListCleanup::Auto, 500_000, Health::Well, "500000 scheduled");
        check(
            ListCleanup::Exact,
            1_000,
            Health::Well,
            "about 36us of Redis's time for each element at the present 1000",
        );
        check(ListCleanup::Exact, 500_000, Health::Warning, "about 18ms");
    }

    #[test]
    fn a_wrong_unit_is_a_warning() {
        let check_with = |rule, next_due_ms, state| {
            let spec = delaybridge_config::load_str(
                "redis: { url: 'redis://h' }\nsinks: { out: { stdout: } }\nqueues: { q: { source: { zset: { key: k, score: s \
                 } }, to: [{ sink: out }] } }\n",
                "c.yaml",
                &|_| None,
            );
            let spec = spec.unwrap_or_else(|errors| panic!("{errors}")).config.queues.remove(0);
            let found =
                depths("q".to_owned(), &spec.source, rule, &QueueState { next_due_ms, ..QueueState::default() });
            assert_eq!(found.state, state, "{}", found.detail);
        };
        let check = |next_due_ms, state| check_with(OnAbsurdDue::Hold, next_due_ms, state);
        check(None, Health::Well);
        // At once, by 0 and by -inf.
        check(Some(0), Health::Well);
        check(Some(i64::MIN), Health::Well);
        check(Some(1_800_000_000_000), Health::Well);
        // Milliseconds read as seconds, and the other way round.
        check(Some(1_800_000_000_000_000), Health::Warning);
        check(Some(1_800_000_000), Health::Failed);
        // It is delivered, by the configuration.
        check_with(OnAbsurdDue::Deliver, Some(1_800_000_000), Health::Warning);
    }

    #[test]
    fn orphans_are_a_warning() {
        let found = depths(
            "q".to_owned(),
            &redisson(ListCleanup::Auto),
            OnAbsurdDue::Hold,
            &QueueState { orphans: 3, ..QueueState::default() },
        );
        assert_eq!(found.state, Health::Warning);
        assert!(found.detail.contains("3 entries"), "{}", found.detail);
    }

    #[test]
    fn the_address_that_failed_is_named_and_not_only_the_one_of_the_configuration() {
        let error = |address: &str| ConnectError {
            kind: ConnectErrorKind::Unreachable,
            address: address.to_owned(),
            message: "the connection was refused".to_owned(),
        };
        let check = |configured: &str, failed: &str, expected: &str| {
            assert_eq!(not_connected(configured, &error(failed)), expected);
        };
        check("10.0.0.1:6379/0", "10.0.0.1:6379/0", "the connection was refused");
        check("cluster:10.0.0.1:6379", "10.0.0.7:6380/0", "10.0.0.7:6380/0: the connection was refused");
        check("sentinel:orders/0", "10.0.0.7:6379/0", "10.0.0.7:6379/0: the connection was refused");
    }
}
