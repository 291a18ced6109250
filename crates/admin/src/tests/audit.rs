//! The changes of operators, as they are kept beside the queues.

use serde_json::json;

use super::World;
use delaybridge_ops::NamedDaemon;
use delaybridge_ops::operation::{Place, Scene};
use delaybridge_ops::operations::{Kill, Pause, Reschedule, Resume};
use delaybridge_ops::time::Moment;

/// A person at the command line.
fn here(world: &World) -> Place {
    Place::Here(Scene::of_command(world.config.clone(), "bob@shell".to_owned(), NamedDaemon::default()))
}

fn pause(why: &str, by: Option<&str>) -> Pause {
    let queue = Some("orders".to_owned());
    let by = by.map(str::to_owned);
    Pause { queue, why: why.to_owned(), by, ..Pause::default() }
}

#[tokio::test]
async fn a_person_has_one_name_on_the_page_and_in_the_audit() {
    let world = World::start(true).await;
    let names = async || {
        let page = world.get("/v1/queues/orders").await["paused"][0]["by"].clone();
        (page, world.get("/v1/audit?queue=orders&limit=1").await["changes"][0]["by"].clone())
    };
    for (by, expected) in [("ann", "ann (bob@shell)"), ("bob", "bob@shell")] {
        here(&world).call(&pause("a deployment", Some(by))).await.unwrap();
        assert_eq!(names().await, (json!(expected), json!(expected)));
    }
    for (body, expected) in
        [(r#"{"why":"x","by":"eve"}"#, "eve (ann)"), (r#"{"why":"x","by":"ann"}"#, "ann"), (r#"{"why":"x"}"#, "ann")]
    {
        assert_eq!(world.ask("POST", "/v1/queues/orders/pause", body).await.status, 200);
        assert_eq!(names().await, (json!(expected), json!(expected)), "{body}");
    }
    world.redis(&["ZADD", "due", "9999999999999", r#"{"id":"a"}"#]).await;
    let [queue, id, why] = ["orders", "a", "x"].map(str::to_owned);
    here(&world).call(&Kill { queue, id, due: None, why, by: Some("ann".to_owned()) }).await.unwrap();
    assert_eq!(names().await.1, json!("ann (bob@shell)"));
    let letters = world.get("/v1/queues/orders/dead").await;
    assert_eq!(letters["dead_letters"][0]["message"], "killed by ann (bob@shell): x", "{letters}");
}

/// Whoever may write to the keys of a queue can write there what obeys no bound.
#[tokio::test]
async fn what_a_stranger_wrote_is_shown_cut_and_escaped() {
    let world = World::start(true).await;
    here(&world).call(&pause("a", Some("ann"))).await.unwrap();
    let large = "for n = 1, 5 do redis.call('XADD', KEYS[1], '*', 'what', string.rep(' ', 4194304), 'by', string.char(27) .. ']0;x') end";
    world.redis(&["EVAL", large, "1", "delaybridge:audit:{due}"]).await;
    let answer = world.ask("GET", "/v1/audit", "").await;
    let text = answer.text();
    assert!(text.len() < 10_000, "{} bytes", text.len());
    let first = &answer.json()["changes"][0];
    assert_eq!((&first["queue"], &first["by"]), (&json!("orders"), &json!(r"\u{1b}]0;x")), "{first}");
    assert_eq!(first["what"].as_str().unwrap().len(), 503, "{first}");
    let page = world.ask("GET", "/audit", "").await.text();
    assert!(page.len() < 20_000 && !page.contains('\u{1b}'), "{} bytes", page.len());
}

/// As many changes as there are, although they are read in pages.
#[tokio::test]
async fn every_change_is_read_once() {
    let world = World::start(true).await;
    let some = "for n = 1, 700 do redis.call('XADD', KEYS[1], '5-' .. n, 'what', 'pause', 'which', n) end";
    world.redis(&["EVAL", some, "1", "delaybridge:audit:{due}"]).await;
    for (limit, last) in [(1_000, 1), (300, 401), (1, 700)] {
        let found = world.get(&format!("/v1/audit?limit={limit}&queue=orders")).await;
        let changes = found["changes"].as_array().unwrap();
        let which: Vec<i64> = changes.iter().map(|one| one["which"].as_str().unwrap().parse().unwrap()).collect();
        assert_eq!(which, (last..=700).rev().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn another_due_time_is_kept_with_the_one_before() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "9000000000000", r#"{"id":"a"}"#]).await;
    world.ask("POST", "/v1/queues/orders/elements/a/reschedule", r#"{"at_ms":9100000000000}"#).await;
    let [queue, id] = ["orders", "a"].map(str::to_owned);
    let at = Some(Moment(9_200_000_000_000));
    here(&world).call(&Reschedule { queue, id, due: None, after: None, at }).await.unwrap();
    let found = world.get("/v1/audit?queue=orders").await;
    let results = [0, 1].map(|at: usize| found["changes"][at]["result"].as_str().unwrap().to_owned());
    let [first, second, third] = ["2255-03-14T16:00:00Z", "2258-05-15T01:46:40Z", "2261-07-15T11:33:20Z"];
    assert_eq!(
        results,
        [
            format!("scheduled -> scheduled, due at {third}, before at {second}"),
            format!("scheduled -> scheduled, due at {second}, before at {first}")
        ]
    );
}

#[tokio::test]
async fn who_did_what_is_kept_whichever_way_it_was_done() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "9999999999999", r#"{"id":"a"}"#]).await;
    assert_eq!(world.get("/v1/audit").await["changes"], json!([]));
    world.ask("POST", "/v1/queues/orders/pause", r#"{"why":"a deployment"}"#).await;
    world.ask("DELETE", "/v1/queues/orders/elements/a", "").await;
    assert_eq!(world.ask("DELETE", "/v1/queues/orders/elements/a", "").await.status, 404);
    world.ask("POST", "/v1/sinks/out/pause", r#"{"why":"x"}"#).await;
    here(&world).call(&Resume { queue: Some("orders".to_owned()), sink: None }).await.unwrap();
    let found = world.get("/v1/audit?queue=orders").await;
    let changes = found["changes"].as_array().unwrap();
    let line = |at: usize| {
        [&changes[at]["what"], &changes[at]["which"], &changes[at]["by"]].map(|text| text.as_str().unwrap())
    };
    assert_eq!(changes.len(), 5, "{found}");
    assert_eq!(line(0), ["resume", "queue", "bob@shell"]);
    assert_eq!(changes[0]["result"], "resumed; it was paused by ann: a deployment");
    assert_eq!(changes[4]["result"], "paused: a deployment; until it is resumed");
    assert_eq!(line(1), ["pause", "sink out", "ann"]);
    assert_eq!(line(2), ["cancel", "a", "ann"]);
    assert!(
        changes[2]["problem"].as_str().is_some_and(|text| text.contains("not found")) && changes[2]["result"].is_null()
    );
    assert_eq!((line(3), line(4)), (["cancel", "a", "ann"], ["pause", "queue", "ann"]));
    assert!(
        changes[3]["result"].is_string()
            && changes[3]["from"].as_str().is_some_and(|from| from.starts_with("127.0.0.1"))
    );
    let all = world.get("/v1/audit?limit=2").await;
    assert_eq!((&all["changes"][0]["by"], all["changes"].as_array().unwrap().len()), (&json!("bob@shell"), 2));
    let of_mails = world.get("/v1/audit?queue=mails").await;
    assert_eq!(of_mails["changes"][0]["which"], "sink out", "beside each queue that delivers to it");
    let page = world.ask("GET", "/audit?queue=orders", "").await.text();
    assert!(page.contains("bob@shell") && page.contains("sink out") && page.contains("failed"), "{page}");
    assert_eq!(world.send("GET", "/v1/audit", &[], "").await.status, 401);
    // A token for some queues sees the changes of those.
    let of_orders = [("authorization", "Bearer reader0123456789")];
    let own = world.send("GET", "/v1/audit", &of_orders, "").await.json();
    let queues: Vec<_> = own["changes"].as_array().unwrap().iter().map(|change| &change["queue"]).collect();
    assert_eq!(queues, vec![&json!("orders"); 5], "{own}");
    assert_eq!(world.send("GET", "/audit", &of_orders, "").await.status, 200);
    assert_eq!(world.send("GET", "/v1/audit?queue=orders", &of_orders, "").await.status, 200);
    assert_eq!(world.send("GET", "/v1/audit?queue=mails", &of_orders, "").await.status, 403);
    assert_eq!(world.ask("GET", "/v1/audit?queue=gone", "").await.status, 404);
}
