//! `/v1/queues/{queue}/forecast`: what will fall due, and how late it will be.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;

use super::errors::problem;
use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::Queue;
use delaybridge_ops::forecast::{Forecast, ForecastAsk, Rate, forecast as make};
use delaybridge_ops::pause::length;

/// The end of a forecast, unless a request says otherwise.
pub const UNTIL: Duration = Duration::from_secs(86_400);
/// A step of it.
const STEP: Duration = Duration::from_secs(900);

/// A forecast of a queue.
pub async fn forecast(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let ask = ask(&call)?;
    let queue = admin.queue(&call).await?;
    Reply::json(StatusCode::OK, &admin.forecast(&queue, &ask).await?)
}

/// The forecast that a request asks for.
fn ask(call: &Call<AdminCaller>) -> Result<ForecastAsk, Problem> {
    let bad = |name: &str, why: &str| Problem::bad(format!("read `{name}` in the query: {why}"));
    let time = |name: &str, usual: Duration| match call.query.text(name).filter(|text| !text.is_empty()) {
        None => Ok(usual),
        Some(text) => length(text).map_err(|why| bad(name, &why)),
    };
    let rate = call.query.text("rate").filter(|text| !text.is_empty());
    let rate = rate.map(str::parse).transpose().map_err(|_| bad("rate", "it is a number of elements per second"))?;
    ForecastAsk::new(time("until", UNTIL)?, time("step", STEP)?, rate).map_err(|error| problem(&error))
}

impl Admin {
    /// Makes a forecast, at the rate that this daemon has measured unless one is given.
    ///
    /// # Errors
    /// Redis cannot be asked.
    pub async fn forecast(&self, queue: &Queue, ask: &ForecastAsk) -> Result<Forecast, Problem> {
        let lately = self.recent.lately().get(queue.id()).copied().unwrap_or_default();
        let in_flight_ms = (lately.oldest_in_flight * 1_000.0) as u64;
        let rate = Rate::measured(&self.session().config, &queue.spec, self.recent.busy_rate(queue.id()), in_flight_ms);
        make(queue, ask, rate).await.map_err(|error| problem(&error))
    }
}
