//! Builds the validated configuration, one file a part, and reports what contradicts itself.

mod admin;
mod audit;
mod classes;
mod cross_checks;
mod dead_letter;
mod destination;
mod inputs;
mod listeners;
mod order;
mod queue;
mod retry;
mod route;
mod sink;
mod when;

use std::sync::Arc;

use super::tables::{HttpKeys, JobsKeys, TopKeys, http, top};
use delaybridge_jobs_http::config as api;
use delaybridge_model::{Config, Mode, ONLY, Servers};
use delaybridge_settings::Settings;
use delaybridge_settings::node::{Node, Value};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::{Context, Needs, Scalar, Section};

/// Reads the whole tree. `None` only where nothing can be built; problems are in the report.
pub(super) fn config(cx: &Context<'_>, tree: &Node) -> Option<Config> {
    let spot = Spot { at: tree.at, path: String::new() };
    if matches!(tree.value, Value::Null) {
        let help = "at least `redis`, `sinks` and `queues` are needed; `config.example.yaml` is a start";
        cx.report.problem(&spot, "the file is empty", help);
        return None;
    }
    let top = Section::open(cx, spot, &top::TABLE, Some(tree));
    let TopKeys { shutdown_timeout, reload, limits, tracing, redis, .. } = TopKeys::of(&top);
    let (http_listen, admin) = if top.is_none(&top::HTTP) {
        (None, None)
    } else {
        let section = top.section(&top::HTTP);
        (HttpKeys::of(&section).listen, section.opt_section(&http::ADMIN).map(|section| admin::read(&section)))
    };
    let policies = retry::policies(&top);
    let mut sinks = sink::sinks(&top);
    let classes = classes::read(&top);
    let inputs = inputs::inputs(&top);
    let of_inputs = inputs::queues(tree);
    let mut queues = queue::queues(&top, &sinks, &policies, &classes);
    let of_inputs = queue::of_inputs(cx, &of_inputs, &sinks, &policies, &classes);
    inputs::check_names(&queues, &of_inputs);
    queues.extend(of_inputs);

    if let Some(redis) = &redis {
        cross_checks::servers(&mut queues, &sinks, redis);
    }
    cross_checks::timeouts(&queues, &mut sinks);
    cross_checks::limits(&queues, &limits);
    cross_checks::names(&queues);
    cross_checks::leases(&queues, &sinks);
    cross_checks::claims_ahead(&queues, &sinks);
    if let Some(redis) = &redis {
        for queue in &mut queues {
            let space = redis.named(&queue.spec.redis).space();
            Arc::make_mut(&mut queue.spec.source).set_space(space);
        }
        cross_checks::prefixes(&queues, redis);
        cross_checks::slow_commands(&queues, redis);
        cross_checks::durable_claims(&queues, redis);
        cross_checks::destinations(&queues, &sinks, redis);
        cross_checks::slots(&queues, redis);
    }
    inputs::check_circles(&inputs, &queues, &sinks);
    cross_checks::beside_elements(&queues);
    cross_checks::unused(&queues, &sinks, &policies);
    cross_checks::classes(&top, &queues);
    let written = !top.written().is_empty();
    let jobs = top.opt_section(&top::JOBS);
    let mut of_jobs = jobs.as_ref().map(JobsKeys::of);
    let mut api = of_jobs.as_mut().map(|keys| std::mem::take(&mut keys.api)).unwrap_or_default();
    if let Some(section) = &jobs {
        api::fit_delay(section, &mut api, shutdown_timeout);
    }
    // Variables that are not needed stand for the same port everywhere.
    let whole = cx.needs == Needs::Everything;
    let mut listeners = Vec::new();
    listeners.extend(http_listen.map(|listen| (top.spot(&top::HTTP), "http.listen", listen.into())));
    listeners.extend(admin.as_ref().map(|spec| (top.spot(&top::HTTP), "http.admin.listen", spec.listen.clone())));
    listeners.extend(api.iter().map(|spec| (top.spot(&top::JOBS), spec.key, spec.listen.into())));
    if whole {
        listeners::check(&cx.report, &listeners);
    }
    let named = of_jobs.as_mut().and_then(|keys| keys.redis.take());
    let jobs_redis = jobs.as_ref().and_then(|section| jobs_redis(section, named, redis.as_ref()));
    let jobs_redis = jobs_redis.or_else(|| redis.as_ref()?.iter().next().map(|(name, _)| name.clone()));
    let jobs = of_jobs.map(|keys| keys.queue).or_else(|| inputs::job_settings(&inputs));
    inputs::check_topics(&top, &inputs, jobs.as_ref());
    cross_checks::topics(&mut queues, jobs.as_ref(), jobs_redis.as_deref());
    if written && !top.has(&top::QUEUES) && jobs.is_none() {
        cx.report.problem(&top.spot, format!("`{}` is missing", top::QUEUES.name), top::QUEUES.help);
    }
    let delivers = !queues.is_empty() || top.has(&top::QUEUES) || jobs.is_none();
    if written
        && delivers
        && !top.has(&top::SINKS)
        && !queues.iter().any(|queue| matches!(queue.spec.mode, Mode::Rescue { .. }))
    {
        cx.report.problem(&top.spot, format!("`{}` is missing", top::SINKS.name), top::SINKS.help);
    }
    if top.has(&top::QUEUES) && !queues.iter().any(|queue| !inputs.iter().any(|input| input.name == queue.spec.id)) {
        cx.report.problem(&top.spot(&top::QUEUES), "there is no queue", "write at least one");
    }
    sinks.retain(|sink| queues.iter().any(|queue| queue.uses(&sink.name)));
    Some(Config {
        http_listen,
        admin,
        shutdown_timeout,
        reload,
        limits,
        tracing: tracing.and_then(|keys| keys.otlp),
        redis: redis?,
        sinks: sinks.into_iter().filter_map(|sink| Some(sink.known?.spec)).collect(),
        classes,
        jobs,
        jobs_redis: jobs_redis.unwrap_or_else(|| ONLY.into()),
        api,
        inputs: inputs.into_iter().map(Arc::new).collect(),
        queues: queues.drain(..).map(|queue| Arc::new(queue.spec)).collect(),
    })
}

/// Returns the name of the Redis with the jobs.
fn jobs_redis(section: &Section<'_>, written: Option<Scalar>, servers: Option<&Servers>) -> Option<Arc<str>> {
    let servers = servers?;
    let names: Vec<_> = servers.iter().map(|(name, _)| name.clone()).collect();
    let there_are = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match written {
        Some(name) if names.iter().any(|known| **known == *name.value) => return Some(name.value.into()),
        Some(name) => section.cx.report.problem(
            &name.spot,
            "there is no Redis of this name",
            format!("there are: {}", there_are()),
        ),
        None if names.len() > 1 => {
            let help = format!("write `redis: NAME` under `jobs`; there are: {}", there_are());
            section.cx.report.problem(&section.spot, "the job queue does not say in which Redis it is", help);
        }
        None => {}
    }
    names.into_iter().next()
}
