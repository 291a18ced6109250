//! The API of bitleak/lmstfy, so that its clients work unchanged: `/api/NAMESPACE/QUEUE...`, `/token/NAMESPACE` and `/info`.
//!
//! Queue Q of namespace N is the topic `N.Q`; neither name can have a dot. Status codes and JSON are those of lmstfy.
//! `docs/lmstfy.md` lists what differs, and why.

mod answer;
mod consume;
mod dead;
pub(super) mod known;
mod looks;
mod names;
mod publish;
mod shapes;
pub(super) mod tokens;

use hyper::Method;

pub(super) use self::answer::reply;
pub(super) use self::names::QUEUES;
use super::route::{ApiDialect, ApiRoute, ApiRule, routes};

/// The endpoints for its clients.
pub static ROUTES: &[ApiRoute] = routes! { ApiDialect::Lmstfy;
    PUT "/api/{namespace}/{queue}" lmstfy_publish => publish::one;
    PUT "/api/{namespace}/{queue}/bulk" lmstfy_publish_bulk => publish::bulk;
    PUT "/api/{namespace}/{queue}/job/{id}" lmstfy_republish => publish::again;
    GET "/api/{namespace}/{queue}" lmstfy_consume => consume::consume;
    DELETE "/api/{namespace}/{queue}/job/{id}" lmstfy_ack => consume::ack;
    DELETE "/api/{namespace}/{queue}" lmstfy_destroy => looks::destroy;
    GET "/api/{namespace}/{queue}/peek" lmstfy_peek => looks::peek;
    GET "/api/{namespace}/{queue}/job/{id}" lmstfy_peek_job => looks::job;
    GET "/api/{namespace}/{queue}/size" lmstfy_size => looks::size;
    GET "/api/{namespace}/{queue}/deadletter" lmstfy_dead => dead::peek;
    PUT "/api/{namespace}/{queue}/deadletter" lmstfy_respawn => dead::respawn;
    DELETE "/api/{namespace}/{queue}/deadletter" lmstfy_purge => dead::purge;
    GET "/api/{namespace}/{queue}/deadletter/size" lmstfy_dead_size => dead::size;
};

/// The endpoints for administrators.
pub static ADMIN: &[ApiRoute] = routes! { ApiDialect::Lmstfy;
    GET "/info" lmstfy_info => looks::info;
    GET "/token/{namespace}" lmstfy_tokens => tokens::list;
    POST "/token/{namespace}" lmstfy_new_token => tokens::new;
    DELETE "/token/{namespace}/{token}" lmstfy_delete_token => tokens::delete;
    GET "/token/{namespace}/{token}/limit" lmstfy_limits => tokens::limits;
    POST "/token/{namespace}/{token}/limit" lmstfy_add_limits => tokens::add_limits;
    PUT "/token/{namespace}/{token}/limit" lmstfy_set_limits => tokens::set_limits;
    DELETE "/token/{namespace}/{token}/limit" lmstfy_delete_limits => tokens::delete_limits;
};
