//! Builds the validated configuration, one file a part, and reports what contradicts itself.

mod classes;
mod cross_checks;
mod dead_letter;
mod destination;
mod queue;
mod retry;
mod route;
mod sink;

use std::sync::Arc;

use super::model::{Config, Limits, Mode};
use super::tables::{http, jobs, limits, top};
use crate::api::config as api;
use crate::jobs::config as job_queue;
use crate::link;
use crate::settings::node::{Node, Value};
use crate::settings::problem::Spot;
use crate::settings::reader::{Context, Section};

/// Reads the whole tree. `None` only where nothing can be built; problems are in the report.
pub(super) fn config(cx: &Context<'_>, tree: &Node) -> Option<Config> {
    let spot = Spot { at: tree.at, path: String::new() };
    if matches!(tree.value, Value::Null) {
        let help = "at least `redis`, `sinks` and `queues` are needed; `config.example.yaml` is a start";
        cx.report.problem(&spot, "the file is empty", help);
        return None;
    }
    let top = Section::open(cx, spot, &top::TABLE, Some(tree));
    let http_listen = match top.is_none(&top::HTTP) {
        true => None,
        false => top.section(&top::HTTP).address(&http::LISTEN),
    };
    let shutdown_timeout = top.duration(&top::SHUTDOWN_TIMEOUT);
    let limits = limits(&top.section(&top::LIMITS));
    let redis = link::config::required(&top.section(&top::REDIS), top.has(&top::REDIS));
    let policies = retry::policies(&top);
    let mut sinks = sink::sinks(&top);
    let classes = classes::read(&top);
    let mut queues = queue::queues(&top, &sinks, &policies, &classes);

    cross_checks::timeouts(&queues, &mut sinks);
    cross_checks::limits(&queues, &limits);
    cross_checks::names(&queues);
    cross_checks::leases(&queues, &sinks);
    cross_checks::claims_ahead(&queues, &sinks);
    if let Some(redis) = &redis {
        queues.iter_mut().for_each(|queue| queue.spec.source.in_database(redis.servers().database));
        cross_checks::slow_commands(&queues, redis.servers());
        cross_checks::durable_claims(&queues, redis.servers());
        cross_checks::destinations(&queues, &sinks, redis);
        if redis.is_cluster() {
            cross_checks::slots(&queues);
        }
    }
    cross_checks::dead_letters(&queues);
    cross_checks::unused(&queues, &sinks, &policies);
    cross_checks::classes(&top, &queues);
    let written = !top.written().is_empty();
    let jobs = top.opt_section(&top::JOBS);
    let api =
        jobs.as_ref().and_then(|section| section.opt_section(&jobs::HTTP)).and_then(|section| api::read(&section));
    let jobs = jobs.map(|section| job_queue::read(&section));
    cross_checks::topics(&mut queues, jobs.as_ref());
    if written && !top.has(&top::QUEUES) && jobs.is_none() {
        cx.report.problem(&top.spot, format!("`{}` is missing", top::QUEUES.name), top::QUEUES.help);
    }
    let delivers = top.has(&top::QUEUES) || jobs.is_none();
    if written
        && delivers
        && !top.has(&top::SINKS)
        && !queues.iter().any(|queue| matches!(queue.spec.mode, Mode::Rescue { .. }))
    {
        cx.report.problem(&top.spot, format!("`{}` is missing", top::SINKS.name), top::SINKS.help);
    }
    if top.has(&top::QUEUES) && queues.is_empty() {
        cx.report.problem(&top.spot(&top::QUEUES), "there is no queue", "write at least one");
    }
    sinks.retain(|sink| sink.used(&queues));
    Some(Config {
        http_listen,
        shutdown_timeout,
        limits,
        redis: redis?,
        sinks: sinks.into_iter().filter_map(|sink| Some(sink.known?.spec)).collect(),
        jobs,
        api,
        queues: queues.drain(..).map(|queue| Arc::new(queue.spec)).collect(),
    })
}

fn limits(section: &Section<'_>) -> Limits {
    Limits {
        in_flight: section.count(&limits::IN_FLIGHT).and_then(|count| u32::try_from(count).ok()).unwrap_or(u32::MAX),
        in_flight_bytes: section.size(&limits::IN_FLIGHT_BYTES),
    }
}
