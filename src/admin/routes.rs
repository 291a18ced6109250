//! The one table of endpoints: requests are matched with it, metrics are named by it, the OpenAPI document is made of it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::Method;

use super::access::{Caller, Need};
use super::{Admin, pages, v1};
use crate::api::call::Call;
use crate::api::dispatch::Endpoint;
use crate::api::problem::Problem;
use crate::api::reply::Reply;

/// What a handler answers.
pub type Answer = BoxFuture<'static, Result<Reply, Problem>>;

/// One endpoint.
pub struct Route {
    /// Its method; `HEAD` goes where `GET` does.
    pub method: Method,
    /// Its path, with `{names}`.
    pub path: &'static str,
    /// Its name: the operation in the OpenAPI document; the label in metrics has `admin_` in front.
    pub name: &'static str,
    /// The label in metrics.
    pub label: &'static str,
    /// What it asks of its caller.
    pub need: Need,
    /// What answers.
    pub handler: fn(Arc<Admin>, Call<Caller>) -> Answer,
}

impl Endpoint for Route {
    fn method(&self) -> &Method {
        &self.method
    }

    fn path(&self) -> &'static str {
        self.path
    }
}

impl Route {
    /// Whether it belongs to the API, and not to the page.
    pub fn is_api(&self) -> bool {
        is_api(self.path)
    }
}

/// Whether a path belongs to the API, and not to the page.
pub fn is_api(path: &str) -> bool {
    path.starts_with("/v1/")
}

macro_rules! routes {
    ($($method:ident $path:literal $name:ident $need:ident => $handler:path;)*) => {
        &[$(Route {
            method: Method::$method,
            path: $path,
            name: stringify!($name),
            label: concat!("admin_", stringify!($name)),
            need: Need::$need,
            handler: |admin, call| Box::pin($handler(admin, call)),
        },)*]
    };
}

/// Every endpoint: those of the API, then those of the page.
pub static ROUTES: &[Route] = routes! {
    GET "/v1/openapi.json" openapi Nothing => v1::meta::openapi;
    GET "/v1/config" config ToSee => v1::meta::config;
    POST "/v1/reload" reload ToChange => v1::meta::reload;
    GET "/v1/queues" queues ToLook => v1::queues::list;
    GET "/v1/queues/{queue}" queue ToLook => v1::queues::one;
    POST "/v1/queues/{queue}/pause" pause ToChange => v1::pause::pause;
    POST "/v1/queues/{queue}/resume" resume ToChange => v1::pause::resume;
    GET "/v1/queues/{queue}/elements" elements ToSee => v1::elements::list;
    GET "/v1/queues/{queue}/elements/{id}" element ToSee => v1::elements::one;
    DELETE "/v1/queues/{queue}/elements/{id}" cancel ToChange => v1::elements::cancel;
    POST "/v1/queues/{queue}/elements/{id}/run-now" run_now ToChange => v1::elements::run_now;
    POST "/v1/queues/{queue}/elements/{id}/reschedule" reschedule ToChange => v1::elements::reschedule;
    POST "/v1/queues/{queue}/elements/{id}/kill" kill ToChange => v1::elements::kill;
    GET "/v1/queues/{queue}/dead" dead ToLook => v1::dead::list;
    GET "/v1/queues/{queue}/dead/count" dead_count ToSearch => v1::dead::count;
    POST "/v1/queues/{queue}/dead/redrive" redrive ToChange => v1::dead::redrive;
    POST "/v1/queues/{queue}/dead/purge" purge ToChange => v1::dead::purge;
    GET "/v1/queues/{queue}/dead/{id}" letter ToSee => v1::dead::one;
    GET "/v1/events" events ToLook => v1::events::stream;
    GET "/v1/topics" topics ToLook => v1::topics::list;
    GET "/v1/topics/{topic}" topic ToLook => v1::topics::one;
    GET "/v1/topics/{topic}/jobs" topic_jobs ToSee => v1::topics::jobs;
    POST "/v1/topics/{topic}/pause" pause_topic ToChange => v1::topics::pause;
    POST "/v1/topics/{topic}/resume" resume_topic ToChange => v1::topics::resume;
    GET "/v1/sinks" sinks ToLook => v1::sinks::list;
    POST "/v1/sinks/{sink}/pause" pause_sink ToChange => v1::pause::pause_sink;
    POST "/v1/sinks/{sink}/resume" resume_sink ToChange => v1::pause::resume_sink;

    GET "/" page_overview ToLook => pages::overview::show;
    GET "/queues/{queue}" page_queue ToLook => pages::queue::show;
    POST "/queues/{queue}/pause" page_pause ToChange => pages::queue::pause;
    POST "/queues/{queue}/resume" page_resume ToChange => pages::queue::resume;
    GET "/queues/{queue}/elements" page_elements ToSee => pages::elements::show;
    GET "/queues/{queue}/element" page_find ToSee => pages::element::find;
    GET "/queues/{queue}/elements/{id}" page_element ToSee => pages::element::show;
    POST "/queues/{queue}/elements/{id}/act" page_act ToChange => pages::element::act;
    GET "/queues/{queue}/dead" page_dead ToLook => pages::dead::show;
    GET "/queues/{queue}/dead/{id}/ask" page_ask ToChange => pages::sweep::ask;
    POST "/queues/{queue}/dead/{id}" page_sweep ToChange => pages::sweep::sweep;
    GET "/queues/{queue}/dead/{id}" page_letter ToSee => pages::dead::one;
    GET "/topics" page_topics ToLook => pages::topics::list;
    GET "/topics/{topic}" page_topic ToLook => pages::topics::show;
    GET "/topics/{topic}/jobs" page_topic_jobs ToSee => pages::topics::jobs;
    POST "/topics/{topic}/pause" page_pause_topic ToChange => pages::topics::pause;
    POST "/topics/{topic}/resume" page_resume_topic ToChange => pages::topics::resume;
    GET "/events" page_events ToLook => pages::events::show;
    GET "/config" page_config ToSee => pages::config::show;
    GET "/login" page_login Nothing => pages::login::show;
    POST "/login" page_log_in Nothing => pages::login::log_in;
    POST "/logout" page_log_out Nothing => pages::login::log_out;
    GET "/assets/{file}" page_asset Nothing => pages::assets::serve;
};
