//! Starts the HTTP API of the job queue. It ends with the daemon's tasks.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use tokio::task::JoinSet;

use super::jobs::Jobs;
use super::tasks::named;
use delaybridge_http_server::listener::ApiListener;
use delaybridge_http_server::room::{BodyMemory, ROOM};
use delaybridge_http_server::server::Served;
use delaybridge_http_server::tls::Certificates;
use delaybridge_http_server::turns::Turns;
use delaybridge_jobs_http::HttpApi;
use delaybridge_jobs_http::weight;
use delaybridge_model::ApiSpec;
use delaybridge_pipeline::process::Process;

/// Starts all listeners. They share one budget of memory for request bodies, and the turns of heavy calls.
pub(super) fn start(
    listeners: &[ApiSpec],
    jobs: &Jobs,
    process: &Arc<Process>,
    tasks: &mut JoinSet<&'static str>,
) -> anyhow::Result<()> {
    let Some(first) = listeners.first() else { return Ok(()) };
    let bounds = (BodyMemory::new(first.max_body, ROOM), weight::turns());
    listeners.iter().try_for_each(|spec| one(spec, jobs, bounds.clone(), process, tasks))
}

/// Binds the address of one listener and spawns the task that serves it.
fn one(
    spec: &ApiSpec,
    jobs: &Jobs,
    bounds: (BodyMemory, Turns),
    process: &Arc<Process>,
    tasks: &mut JoinSet<&'static str>,
) -> anyhow::Result<()> {
    let parts = (jobs.queue.clone(), jobs.dispenser.clone());
    let api = HttpApi::new(spec, parts, bounds, process.events.api(), jobs.end.clone())?;
    let certificates = spec
        .tls
        .clone()
        .map(|files| Certificates::read(files, process.events.api()))
        .transpose()
        .map_err(|problem| anyhow!(problem))?;
    let listener = ApiListener::bind(&spec.listen.into())
        .with_context(|| format!("listen for the job queue on {}; choose another {}", spec.listen, spec.key))?;
    api.events().listening(&listener.address, certificates.is_some(), api.tokens(), false);
    tasks.spawn(named("job API", api.serve(listener, certificates.map(Arc::new))));
    Ok(())
}
