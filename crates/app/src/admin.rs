//! Starts the operators' API and page. They end with the daemon's tasks.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use tokio::task::JoinSet;

use super::tasks::named;
use delaybridge_admin::Admin;
use delaybridge_http_server::listener::ApiListener;
use delaybridge_http_server::server::{Served, serve};
use delaybridge_model::Config;
use delaybridge_ops::reload::ReloadHandle;
use delaybridge_pipeline::process::Process;

/// Binds the address and spawns the tasks that serve it, if the configuration has `http.admin`.
pub(super) fn start(
    config: &Config,
    reload: &ReloadHandle,
    process: &Arc<Process>,
    tasks: &mut JoinSet<&'static str>,
) -> anyhow::Result<()> {
    let Some(spec) = &config.admin else { return Ok(()) };
    let admin = Admin::new(spec, reload.clone(), &process.events, process.stopping.clone());
    let names = config.redis.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let counted = process.clone();
    let in_flight = move || names.iter().map(|name| counted.budget_of(name).used().count).sum();
    let admin = Arc::new(admin.map_err(|problem| anyhow!(problem))?.counting(in_flight));
    let listener = ApiListener::bind(&spec.listen)
        .with_context(|| format!("listen for operators on {}; choose another http.admin.listen", spec.listen))?;
    admin.events().listening(&listener.address, false, admin.tokens(), spec.proxy.is_some());
    tasks.spawn(named("admin", admin.clone().keep()));
    tasks.spawn(named("admin API", serve(listener, admin, None)));
    Ok(())
}
