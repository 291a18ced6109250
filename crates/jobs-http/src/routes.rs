//! The tables of endpoints: requests are matched with them, metrics are named by them, the OpenAPI document is made of one.

use hyper::Method;
use serde_json::{Map, Value};

use super::openapi::bodies::{
    ChangeBody, EmptyBody, FinishBody, LimitsBody, NewJobBody, NewJobsBody, PurgeBody, RecurringBody, RedriveBody,
    ReleaseBody, TouchBody,
};
use super::route::{ApiDialect, ApiRoute, ApiRule, routes};
use super::v1::change::ChangedJob;
use super::v1::jobs::JobShape;
use super::v1::recurring::{RecurringList, RecurringShape, SetRecurringShape, SwitchedRecurring};
use super::v1::settle::{ReleasedJob, TouchedJob};
use super::v1::settle_many::SettledJobs;
use super::v1::shapes::{AddedShape, AddedShapes, Count, PoppedJobs};
use super::v1::topics::{EmptiedTopic, JobsShape, TopicShape, TopicsShape};
use super::{lmstfy, openapi, ouqiang, v1};
use delaybridge_http_server::openapi::operation::Operation;
use delaybridge_http_server::problem::ProblemKind;
use delaybridge_jobs::Allowed;
use delaybridge_model::{ApiSpec, Face};

/// Our own API.
pub static OWN: &[ApiRoute] = routes! { ApiDialect::Own;
    GET "/v1/openapi.json" openapi open => openapi::openapi,
        Operation::new("This document").returns::<Map<String, Value>>(200, "The document");
    GET "/v1/openapi-3.0.json" openapi_3_0 open => openapi::openapi_3_0,
        Operation::new("This document as OpenAPI 3.0").returns::<Map<String, Value>>(200, "The document");
    POST "/v1/topics/{topic}/jobs" add => v1::add::one,
        Operation::new("Add a job")
            .about("With settings in the query, or with a media type other than `application/json`, the request's body is the \
                job's body. The settings are `id`, `delay` or `delay_ms`, `due` or `due_ms`, `ttr` or `ttr_ms`, `tries`, `ttl` or \
                `ttl_ms`, `priority`, and `unique` with `unique_for` or `unique_for_ms`, and `unique_until`. With an id of the client's own, or \
                a unique key, a second request adds nothing, so that it may be sent again after an unknown outcome.")
            .unlisted(&v1::add::SETTINGS)
            .takes::<NewJobBody>()
            .returns::<AddedShape>(201, "It was added")
            .returns::<AddedShape>(200, "A job with this id is there, or was finished lately, or `existing` holds its unique key; nothing was changed")
            .problems(&[ProblemKind::IdTaken, ProblemKind::NotFound]);
    POST "/v1/topics/{topic}/jobs/batch" add_batch => v1::add::batch,
        Operation::new("Add many jobs in one step")
            .about("The answer has a job for each of the request, in the same order.")
            .takes::<NewJobsBody>()
            .returns::<AddedShapes>(200, "They are there")
            .problems(&[ProblemKind::NotFound]);
    GET "/v1/topics/{topic}/jobs" peek => v1::topics::peek,
        Operation::new("Look at jobs of one state, in the order of their times")
            .query(&["state", "skip", "limit"])
            .returns::<JobsShape>(200, "A page of jobs");
    POST "/v1/topics/{topic}/pop" pop => v1::pop::pop,
        Operation::new("Take jobs, or wait for them")
            .about("Several topics are separated by commas, the most urgent first. With `Accept: application/octet-stream` \
                the answer is the body of one job, with its id and token in the headers `Delaybridge-Job-Id` and \
                `Delaybridge-Token`.")
            .query(&["count", "ttr", "ttr_ms", "wait", "wait_ms"])
            .returns::<PoppedJobs>(200, "The jobs")
            .empty(204, "Nothing was ready in time");
    POST "/v1/jobs/finish" finish_jobs => v1::settle_many::finish,
        Operation::new("Several jobs are done")
            .about("At most 100, of any topics: those of one topic are finished at once. Each has an outcome of its own, in the \
                order of the request, and none keeps another one from being finished. A second request answers `no-such-job`, \
                which means the same as for one job.")
            .takes::<FinishBody>()
            .returns::<SettledJobs>(200, "The outcomes");
    POST "/v1/jobs/release" release_jobs => v1::settle_many::release,
        Operation::new("Give several jobs back, for later")
            .about("As `finish_jobs`, with one delay and one reason for all of them.")
            .takes::<ReleaseBody>()
            .returns::<SettledJobs>(200, "The outcomes");
    POST "/v1/jobs/touch" touch_jobs => v1::settle_many::touch,
        Operation::new("The times to run of several jobs start again")
            .about("As `finish_jobs`.")
            .takes::<TouchBody>()
            .returns::<SettledJobs>(200, "The outcomes");
    PUT "/v1/jobs/{id}/finish" finish => v1::settle::finish, FINISH;
    PUT "/v1/jobs/{id}/release" release => v1::settle::release, RELEASE;
    PUT "/v1/jobs/{id}/touch" touch => v1::settle::touch, TOUCH;
    PUT "/v1/jobs/{id}/bury" bury => v1::settle::bury, BURY;
    GET "/v1/jobs/{id}" get => v1::jobs::get, GET;
    PATCH "/v1/jobs/{id}" change => v1::change::change, CHANGE;
    DELETE "/v1/jobs/{id}" delete => v1::jobs::delete, DELETE;
    GET "/v1/topics" topics => v1::topics::list,
        Operation::new("List topics, in alphabetical order")
            .about("Only those that the token has the right `admin` on. `next` is there if there may be more: ask for those \
                after it.")
            .query(&["after", "limit"])
            .returns::<TopicsShape>(200, "A page of topics");
    GET "/v1/topics/{topic}" topic => v1::topics::get,
        Operation::new("Look at a topic").returns::<TopicShape>(200, "The topic");
    DELETE "/v1/topics/{topic}" destroy => v1::topics::destroy,
        Operation::new("Remove a topic with all of its jobs")
            .about("Its dead jobs, remembered ids, unique keys, recurring jobs, limits and pause are removed too. While jobs are reserved or being delivered by a \
                queue, it is refused with their numbers, unless `force` is true. A second request answers 0.")
            .query(&["force"])
            .returns::<Count>(200, "The number of jobs")
            .problems(&[ProblemKind::Conflict]);
    POST "/v1/topics/{topic}/empty" empty => v1::topics::empty,
        Operation::new("Remove the waiting jobs of a topic for good")
            .about("Those that are due first before the others, at most 10,000 with one request. `left` still wait: send the request \
                again. Reserved and dead jobs stay, and ids are not remembered.")
            .takes::<EmptyBody>()
            .returns::<EmptiedTopic>(200, "The number of jobs");
    PUT "/v1/topics/{topic}/pause" pause => v1::topics::pause,
        Operation::new("Hand out no jobs of the topic")
            .about("Jobs may be added, and what is reserved may be finished.")
            .empty(204, "It is paused")
            .problems(&[ProblemKind::NotFound]);
    PUT "/v1/topics/{topic}/resume" resume => v1::topics::resume,
        Operation::new("Hand out jobs of the topic again").empty(204, "It is not paused");
    GET "/v1/topics/{topic}/limits" limits => v1::limits::get,
        Operation::new("Read the limits of a topic").returns::<Allowed>(200, "The limits in effect");
    PUT "/v1/topics/{topic}/limits" set_limits => v1::limits::set,
        Operation::new("Set limits of a topic, in place of the configuration")
            .about("They replace all limits that were set before, and hold for all daemons at once. A limit that is left out is \
                that of the configuration. `ttr_ms`, `tries` and `ttl_ms` are for jobs that are added from now on and do not have \
                their own.")
            .takes::<LimitsBody>()
            .returns::<Allowed>(200, "The limits in effect")
            .problems(&[ProblemKind::NotFound]);
    GET "/v1/topics/{topic}/dead" dead => v1::dead::list,
        Operation::new("Look at dead jobs, the oldest first")
            .query(&["skip", "limit"])
            .returns::<JobsShape>(200, "A page of jobs");
    POST "/v1/topics/{topic}/dead/redrive" redrive => v1::dead::redrive,
        Operation::new("Let dead jobs wait again, with all of their tries")
            .takes::<RedriveBody>()
            .returns::<Count>(200, "The number of jobs");
    POST "/v1/topics/{topic}/dead/purge" purge => v1::dead::purge,
        Operation::new("Remove dead jobs for good").takes::<PurgeBody>().returns::<Count>(200, "The number of jobs");
    GET "/v1/topics/{topic}/recurring" list_recurring => v1::recurring::list,
        Operation::new("List the recurring jobs of a topic, in alphabetical order")
            .about("Without their bodies. `next` is there if there are more: ask for those after it.")
            .query(&["after", "limit"])
            .returns::<RecurringList>(200, "A page of recurring jobs");
    GET "/v1/topics/{topic}/recurring/{name}" get_recurring => v1::recurring::get,
        Operation::new("Look at a recurring job")
            .returns::<RecurringShape>(200, "The recurring job")
            .problems(&[ProblemKind::NotFound]);
    PUT "/v1/topics/{topic}/recurring/{name}" set_recurring => v1::recurring::set,
        Operation::new("Add a recurring job, or change the one of this name")
            .about("At each firing a job with the id `NAME:2027-01-31T09:00:00Z`, the time of the firing, is added. All of the \
                definition is replaced; a pause stays. A second request finds it as wanted, and answers `changed: false`.")
            .takes::<RecurringBody>()
            .returns::<SetRecurringShape>(201, "It was added")
            .returns::<SetRecurringShape>(200, "It is as wanted")
            .problems(&[ProblemKind::NotFound, ProblemKind::Conflict]);
    DELETE "/v1/topics/{topic}/recurring/{name}" delete_recurring => v1::recurring::delete,
        Operation::new("Remove a recurring job")
            .about("Jobs that it has added stay. A second request answers 404.")
            .empty(204, "It is gone")
            .problems(&[ProblemKind::NotFound]);
    PUT "/v1/topics/{topic}/recurring/{name}/pause" pause_recurring => v1::recurring::pause,
        Operation::new("Pause a recurring job")
            .returns::<SwitchedRecurring>(200, "It is paused")
            .problems(&[ProblemKind::NotFound, ProblemKind::Conflict]);
    PUT "/v1/topics/{topic}/recurring/{name}/resume" resume_recurring => v1::recurring::resume,
        Operation::new("Let a recurring job fire again")
            .about("Firings during the pause are not made up for.")
            .returns::<SwitchedRecurring>(200, "It is not paused")
            .problems(&[ProblemKind::NotFound, ProblemKind::Conflict]);
};

const FINISH: Operation = Operation::new("The job is done")
    .about(
        "The parameters may be a JSON object in the body instead, as for `release`, `touch` and `bury`; and the path may \
         have topic and id apart, `/v1/jobs/{topic}/{id}/finish`, as for all that is done with one job. A second request answers \
         404, because the job is gone. A consumer that got no answer may repeat the request. 404 before `deadline_ms` of its \
         reservation then means that its first request worked, or that the job was deleted: until that time no other consumer \
         gets the job.",
    )
    .query(&["token"])
    .or_in_body()
    .empty(204, "It is gone")
    .problems(&[ProblemKind::NoSuchJob, ProblemKind::NotYours]);
const RELEASE: Operation = Operation::new("Give the job back, for later")
    .query(&["token", "delay", "delay_ms", "count_attempt", "reason"])
    .or_in_body()
    .returns::<ReleasedJob>(200, "The outcome")
    .problems(&[ProblemKind::NoSuchJob, ProblemKind::NotYours]);
const TOUCH: Operation = Operation::new("The time to run starts again")
    .query(&["token", "ttr", "ttr_ms"])
    .or_in_body()
    .returns::<TouchedJob>(200, "The new end of the time to run")
    .problems(&[ProblemKind::NoSuchJob, ProblemKind::NotYours]);
const BURY: Operation = Operation::new("The job is dead, whatever tries it has left")
    .query(&["token", "reason"])
    .or_in_body()
    .empty(204, "It is dead")
    .problems(&[ProblemKind::NoSuchJob, ProblemKind::NotYours]);
const GET: Operation =
    Operation::new("Look at a job").returns::<JobShape>(200, "The job").problems(&[ProblemKind::NoSuchJob]);
const CHANGE: Operation = Operation::new("Change the due time or the body of a job that waits")
    .about(
        "What is left out stays as it is. A job that is reserved, dead or being delivered is refused with its `state`. With \
         `if_due_ms` a job with another due time is refused, and the answer has its `due_ms`. A second request finds the job as \
         wanted, and answers `changed: false`; only a delay starts again.",
    )
    .takes::<ChangeBody>()
    .returns::<ChangedJob>(200, "The job is as wanted")
    .problems(&[ProblemKind::NoSuchJob, ProblemKind::Conflict]);
const DELETE: Operation = Operation::new("Remove a job for good, whatever its state")
    .empty(204, "It is gone")
    .problems(&[ProblemKind::NoSuchJob]);

/// The same jobs, by topic and id apart: a path that a client makes of both.
pub static BY_TOPIC: &[ApiRoute] = routes! { ApiDialect::Own;
    PUT "/v1/jobs/{topic}/{id}/finish" finish => v1::settle::finish, FINISH;
    PUT "/v1/jobs/{topic}/{id}/release" release => v1::settle::release, RELEASE;
    PUT "/v1/jobs/{topic}/{id}/touch" touch => v1::settle::touch, TOUCH;
    PUT "/v1/jobs/{topic}/{id}/bury" bury => v1::settle::bury, BURY;
    GET "/v1/jobs/{topic}/{id}" get => v1::jobs::get, GET;
    PATCH "/v1/jobs/{topic}/{id}" change => v1::change::change, CHANGE;
    DELETE "/v1/jobs/{topic}/{id}" delete => v1::jobs::delete, DELETE;
};

/// Returns the endpoints of a listener.
pub fn of(spec: &ApiSpec) -> impl Iterator<Item = &'static ApiRoute> + use<> {
    let tables = spec.faces.iter().flat_map(|face| match face {
        Face::Own => vec![OWN, BY_TOPIC],
        Face::Lmstfy => vec![lmstfy::ROUTES],
        Face::LmstfyAdmin => vec![lmstfy::ADMIN],
        Face::Ouqiang => vec![ouqiang::ROUTES],
    });
    tables.collect::<Vec<_>>().into_iter().flatten()
}
