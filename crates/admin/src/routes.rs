//! The one table of endpoints: requests are matched with it, metrics are named by it, the OpenAPI document is made of it.

use std::sync::LazyLock;

use hyper::Method;
use serde_json::{Map, Value};

use super::access::{AdminCaller, Need};
use super::v1::history::HistoryShape;
use super::{Admin, pages, v1};
use delaybridge_http_server::openapi::operation::Operation;
use delaybridge_http_server::problem::ProblemKind;
use delaybridge_http_server::route::Route;
use delaybridge_ops::operation as ops;
use delaybridge_ops::operations;
use delaybridge_ops::reload::ReloadReport;

/// One endpoint, with the right that the caller needs.
pub type AdminRoute = Route<Admin, AdminCaller, Need>;

fn of<O: ops::Remote>() -> Vec<AdminRoute> {
    let takes = |operation: Operation| if O::HAS_LINES { operation.takes_lines() } else { operation };
    let of = |route: &ops::Route| AdminRoute {
        method: route.method.clone(),
        any_method: false,
        path: route.path,
        name: route.name,
        label: route.label,
        rule: route.need,
        operation: Some(takes(
            Operation::new(route.summary)
                .about(route.about)
                .request::<O>()
                .returns::<O::Answer>(200, route.answer)
                .problems(match route.need {
                    Need::ToOperate | Need::ToAdminister => &[ProblemKind::NotFound, ProblemKind::Conflict],
                    _ => &[ProblemKind::NotFound],
                }),
        )),
        handler: |admin, call| Box::pin(v1::operation::operation::<O>(admin, call)),
    };
    O::ROUTES.iter().map(of).collect()
}

/// Returns whether a path belongs to the API, and not to the page.
pub fn is_api(path: &str) -> bool {
    path.starts_with("/v1/")
}

macro_rules! routes {
    ($($method:ident $path:literal $name:ident $need:ident => $handler:path $(, $operation:expr)?;)*) => {
        [$(AdminRoute {
            method: Method::$method,
            any_method: false,
            path: $path,
            name: stringify!($name),
            label: concat!("admin_", stringify!($name)),
            rule: Need::$need,
            operation: routes!(@operation $($operation)?),
            handler: |admin, call| Box::pin($handler(admin, call)),
        },)*].into_iter()
    };
    (@operation $operation:expr) => { Some($operation) };
    (@operation) => { None };
}

/// Returns a question about one thing.
const fn about_one(summary: &'static str) -> Operation {
    Operation::new(summary).problems(&[ProblemKind::NotFound])
}

macro_rules! routes_of {
    ($($group:ident: [$($operation:ident),*])* ; $($_local:tt)*) => {
        [$($(of::<operations::$operation>(),)*)*]
    };
}

/// Every endpoint: those of the API that are no operations, those of the page, then the operations.
pub static ROUTES: LazyLock<Vec<AdminRoute>> =
    LazyLock::new(|| rest().chain(operations!(routes_of).into_iter().flatten()).collect());

/// Returns the endpoints that are no operations.
fn rest() -> impl Iterator<Item = AdminRoute> {
    routes! {
    GET "/v1/openapi.json" openapi Nothing => v1::meta::openapi,
        Operation::new("This document").returns::<Map<String, Value>>(200, "The document");
    POST "/v1/reload" reload ToAdminister => v1::meta::reload,
        Operation::new("Read the configuration file, and run what it says")
            .about("The whole file is checked first. With any problem the configuration before runs on, and the answer is 409 with \
                everything that is wrong.")
            .query(&["dry_run"])
            .returns::<ReloadReport>(200, "The changes, or those that would be made")
            .problems(&[ProblemKind::Conflict]);
    GET "/v1/queues/{queue}/history" history ToLook => v1::history::queue,
        about_one("Look at the last hour and day of a queue, as this daemon saw them")
            .about("By minutes and by quarters of an hour. Kept in memory: it begins with the start of the daemon.")
            .returns::<HistoryShape>(200, "The history");
    GET "/v1/events" events ToLook => v1::events::stream,
        about_one("Follow the attempts of single elements, by server-sent events")
            .about("Events have the name `element`, and an `Event` as JSON in `data`. They are recorded while a client follows \
                them. The stream ends after ten minutes: connect again with `Last-Event-ID`. A client that does not read fast \
                enough is disconnected.")
            .query(&["queue", "fate", "after"])
            .returns::<String>(200, "The events that are kept, and those that follow")
            .media_type("text/event-stream");
    GET "/v1/sinks/{sink}/history" sink_history ToLook => v1::history::sink,
        about_one("Look at the last hour and day of a sink, as this daemon saw them").returns::<HistoryShape>(200, "The history");

    GET "/" page_overview ToLook => pages::overview::show;
    GET "/queues/{queue}" page_queue ToLook => pages::queue::show;
    POST "/queues/{queue}/pause" page_pause ToOperate => pages::pausing::pause;
    POST "/queues/{queue}/resume" page_resume ToOperate => pages::pausing::resume;
    GET "/queues/{queue}/elements" page_elements ToSee => pages::elements::show;
    GET "/queues/{queue}/search" page_search ToSee => pages::search::show;
    GET "/queues/{queue}/element" page_find ToSearch => pages::element::find;
    GET "/queues/{queue}/elements/{id}" page_element ToSearch => pages::element::show;
    GET "/queues/{queue}/run-now" page_ask_run_now ToOperate => pages::chosen::ask_run_now;
    POST "/queues/{queue}/run-now" page_run_now ToOperate => pages::chosen::run_now;
    GET "/queues/{queue}/cancel" page_ask_cancel ToAdminister => pages::chosen::ask_cancel;
    POST "/queues/{queue}/cancel" page_cancel ToAdminister => pages::chosen::cancel;
    POST "/queues/{queue}/elements/{id}/act" page_act ToOperate => pages::element::act;
    POST "/queues/{queue}/elements/{id}/remove" page_remove ToAdminister => pages::element::remove;
    GET "/queues/{queue}/dead" page_dead ToLook => pages::dead::show;
    GET "/queues/{queue}/dead/export" page_export ToSee => pages::export::download;
    GET "/queues/{queue}/dead/{id}/ask" page_ask ToOperate => pages::sweep::ask;
    POST "/queues/{queue}/dead/redrive" page_redrive ToOperate => pages::sweep::redrive;
    POST "/queues/{queue}/dead/purge" page_purge ToAdminister => pages::sweep::purge;
    GET "/queues/{queue}/dead/{id}" page_letter ToSee => pages::dead::one;
    GET "/sinks/{sink}" page_sink ToLook => pages::sink::show;
    POST "/sinks/{sink}/pause" page_pause_sink ToOperate => pages::pausing::pause;
    POST "/sinks/{sink}/resume" page_resume_sink ToOperate => pages::pausing::resume;
    GET "/topics" page_topics ToLook => pages::topics::list;
    GET "/topics/{topic}" page_topic ToLook => pages::topics::show;
    GET "/topics/{topic}/jobs" page_topic_jobs ToSee => pages::topics::jobs;
    POST "/topics/{topic}/pause" page_pause_topic ToOperate => pages::topics::pause;
    POST "/topics/{topic}/resume" page_resume_topic ToOperate => pages::topics::resume;
    GET "/ahead" page_ahead ToLook => pages::tonight::show;
        GET "/search" page_search_all ToSearchOwn => pages::everywhere::show;
    GET "/events" page_events ToLook => pages::events::show;
    GET "/fleet" page_fleet ToLook => pages::fleet::show;
    GET "/audit" page_audit ToSearchOwn => pages::audit::show;
    GET "/config" page_config ToSee => pages::config::show;
    POST "/reload" page_reload ToAdminister => pages::config::reload;
    GET "/login" page_login Nothing => pages::login::show;
    POST "/login" page_log_in Nothing => pages::login::log_in;
    POST "/logout" page_log_out Nothing => pages::login::log_out;
    GET "/assets/{file}" page_asset Nothing => pages::assets::serve;
    }
}
