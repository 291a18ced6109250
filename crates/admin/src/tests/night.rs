//! What an operator stumbled over who had only the pages: ways that were missing, and words that did not help.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{TOKEN, World};
use delaybridge_http_server::testing::Answer;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const ORIGIN: (&str, &str) = ("origin", "http://localhost");

/// Sends a form of a page as the owner of a token.
async fn sent(world: &World, token: &str, path: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    world.send("POST", path, &[FORM, ORIGIN, ("authorization", &bearer)], body).await
}

#[tokio::test]
async fn a_sink_is_paused_and_resumed_on_its_page() {
    let world = World::start(true).await;
    let page = async || world.ask("GET", "/sinks/out", "").await.text();
    assert!(page().await.contains("Pause the sink"));
    let of_some = world.send("GET", "/sinks/out", &[("authorization", "Bearer operator0123456789")], "").await.text();
    assert!(!of_some.contains("Pause the sink"), "a sink is for operators of every queue: {of_some}");
    assert_eq!(sent(&world, "operator0123456789", "/sinks/out/pause", "why=x").await.status, 403);
    let answer = sent(&world, TOKEN, "/sinks/out/pause", "why=Kafka+upgrade&for=&until=2099-01-31T09:00").await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "../out"), "{}", answer.text());
    let shown = page().await;
    assert!(
        shown.contains("for 2 of 2 queues, ") && shown.contains("by ann: Kafka upgrade; until 2099-01-31T09:00:00Z")
    );
    assert!(shown.contains("out/resume") && !shown.contains("Pause the sink"), "{shown}");
    assert!(world.ask("GET", "/queues/orders", "").await.text().contains("out, "), "the queue says so too");
    assert_eq!(sent(&world, TOKEN, "/sinks/out/resume", "").await.status, 303);
    assert!(page().await.contains("Pause the sink"));
    assert_eq!(world.get("/v1/queues/mails").await["paused"].as_array().unwrap().len(), 0);
    assert_eq!(sent(&world, TOKEN, "/sinks/gone/pause", "why=x").await.status, 404);
    assert!(page().await.contains("Address and settings"));
    let of_nobody = world.send("GET", "/sinks/out", &[], "").await;
    assert!(of_nobody.status == 200 && !of_nobody.text().contains("Address and settings"));
}

#[tokio::test]
async fn a_sink_that_is_paused_for_some_of_its_queues_can_be_paused_for_the_others_and_resumed() {
    let world = World::start(true).await;
    assert_eq!(sent(&world, TOKEN, "/sinks/out/pause", "why=x").await.status, 303);
    // By a daemon of another configuration: one of the queues goes on.
    world.redis(&["DEL", "delaybridge:state:{mails}"]).await;
    let page = async || world.ask("GET", "/sinks/out", "").await.text();
    let shown = page().await;
    assert!(shown.contains("for 1 of 2 queues, "), "{shown}");
    assert!(shown.contains("out/resume") && shown.contains("Pause the sink"), "{shown}");
    assert_eq!(sent(&world, TOKEN, "/sinks/out/pause", "why=x").await.status, 303);
    assert!(page().await.contains("for 2 of 2 queues, "));
    assert_eq!(sent(&world, TOKEN, "/sinks/out/resume", "").await.status, 303);
    assert!(!page().await.contains("out/resume"));
}

#[tokio::test]
async fn what_falls_due_tonight_is_one_page_over_all_queues() {
    let world = World::start(true).await;
    let now = world.get("/v1/ahead").await["now_ms"].as_i64().unwrap();
    for (key, payload, minutes) in [
        ("due", "a", 100),
        ("due", "b", 101),
        ("redisson_delay_queue_timeout:{mails}", "c", 101),
        ("due", "later", 9_000),
    ] {
        world.redis(&["ZADD", key, &(now + minutes * 60_000).to_string(), payload]).await;
    }
    world.redis(&["ZADD", "due", &(now - 60_000).to_string(), "overdue"]).await;
    let found = world.get("/v1/ahead?hours=12").await;
    let steps = found["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &found["queues"], &found["of"]), (48, &2.into(), &2.into()), "{found}");
    let due: Vec<_> = steps.iter().filter(|step| step["due"] != 0).collect();
    assert_eq!(due.len(), 1, "within a quarter of an hour: {due:?}");
    assert_eq!(
        (&due[0]["due"], &due[0]["most"][0]["queue"], &due[0]["most"][0]["due"]),
        (&3.into(), &"orders".into(), &2.into())
    );
    let page = world.ask("GET", "/ahead?hours=12&like=ord", "").await.text();
    assert!(page.contains("<strong>2</strong> elements of 1 queue."), "{page}");
    assert!(page.contains("<a href=\"queues/orders\">orders</a> 2") && !page.contains("mails"), "{page}");
    assert!(world.ask("GET", "/v1/ahead?hours=200", "").await.problem().2.contains("1 to 168"));
}

/// A sink that answers was "up, none since the start" while a queue waited for an exchange that is missing.
#[tokio::test]
async fn a_sink_has_the_trouble_of_the_queues_that_are_held_for_it() {
    let world = World::start(true).await;
    world.events.sink(&"out".into()).up();
    let queue = world.events.queue(&"orders".into());
    queue.on_hold(Some("out"), "404", "orders", "NOT_FOUND: no exchange `orders`");
    let sinks = world.get("/v1/sinks").await;
    let sink = &sinks["sinks"][0];
    assert_eq!((&sink["state"], &sink["held_queues"]), (&"up".into(), &1.into()), "{sink}");
    for path in ["/", "/sinks/out", "/queues/orders"] {
        let page = world.ask("GET", path, "").await.text();
        assert!(path.starts_with("/queues") || page.contains("<span class=\"at\">since "), "since when: {page}");
        assert!(page.contains("partly up"), "{path}: {page}");
        assert!(path.starts_with("/queues") || page.contains("no exchange `orders` (holds 1 queue, for "), "{page}");
    }
    queue.resumed();
    assert!(world.ask("GET", "/", "").await.text().contains("none since the start"));
}

/// Several people who watch cost as much as one.
#[tokio::test]
async fn dead_letters_are_counted_by_cause_once_for_all_who_look() {
    let world = World::start(true).await;
    let kill = async |id: &str| {
        world.redis(&["ZADD", "due", "9999999999999", &format!(r#"{{"id":"{id}"}}"#)]).await;
        world.ask("POST", &format!("/v1/queues/orders/elements/{id}/kill"), r#"{"why":"a test"}"#).await;
    };
    kill("a").await;
    let reads = async || {
        let mut redis = TcpStream::connect(("127.0.0.1", world.redis.port())).await.unwrap();
        redis.write_all(b"INFO commandstats\r\nQUIT\r\n").await.unwrap();
        let mut stats = String::new();
        redis.read_to_string(&mut stats).await.unwrap();
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_xrange:calls=")?.split(',').next());
        calls.map_or(0, |calls| calls.parse::<u64>().unwrap())
    };
    let look = async || world.ask("GET", "/queues/orders/dead", "").await.text();
    let before = reads().await;
    assert!(look().await.contains(">1</span>"));
    let of_one = reads().await - before;
    assert!(of_one > 0, "the count reads the letters from the oldest on");
    futures_util::future::join_all((0..10).map(|_| look())).await;
    assert_eq!(reads().await - before, of_one, "ten more have looked");
    kill("b").await;
    assert!(look().await.contains(">2</span>"), "a change is seen at once");
}

#[tokio::test]
async fn a_time_of_day_is_chosen_and_what_cannot_be_read_leads_back() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "9999999999999", r#"{"id":"x"}"#]).await;
    let act = async |body: &str| sent(&world, TOKEN, "/queues/orders/elements/x/act", body).await;
    assert_eq!(act("deed=reschedule&in=&at=2099-01-31T09:00").await.status, 303);
    assert_eq!(world.get("/v1/queues/orders/elements/x").await["elements"][0]["due_ms"], 4_073_533_200_000_i64);
    let both = act("deed=reschedule&in=2h&at=2099-01-31T09:00").await;
    assert!(both.status == 400 && both.text().contains("both"), "{}", both.text());
    assert_eq!(act("deed=reschedule&in=&at=").await.status, 400);
    let refused = sent(&world, TOKEN, "/queues/orders/pause", "why=x&for=06:00").await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("href=\"../../queues/orders\">Back</a>"), "{}", refused.text());
    assert_eq!(sent(&world, TOKEN, "/queues/orders/pause", "why=x&for=&until=2099-01-31T09:00").await.status, 303);
    assert_eq!(world.get("/v1/queues/orders").await["paused"][0]["until_ms"], 4_073_533_200_000_i64);
}

#[tokio::test]
async fn dead_letters_of_one_cause_are_one_click_away() {
    let world = World::start(true).await;
    for n in 0..5 {
        world.redis(&["ZADD", "due", "9999999999999", &format!(r#"{{"id":"x{n}"}}"#)]).await;
        world.ask("POST", &format!("/v1/queues/orders/elements/x{n}/kill"), r#"{"why":"a test"}"#).await;
    }
    let page = async |path: &str| world.ask("GET", path, "").await.text();
    let causes = page("/queues/orders/dead").await;
    let from = causes.find("aria-label=\"By cause\"").unwrap_or_else(|| panic!("{causes}"));
    let link = causes[from..].split("href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    assert!(causes[from..].contains(">5</span>") && link.starts_with("dead?reason=killed&"), "{causes}");
    let chosen = page(&format!("/queues/orders/{link}")).await;
    assert!(chosen.contains("aria-current=\"true\"") && chosen.matches("<tr>").count() == 6, "{chosen}");
    assert!(chosen.contains("dead/redrive/ask?reason=killed"), "{chosen}");
    let bare = world.send("GET", "/queues/orders/dead", &[], "").await.text();
    assert!(!bare.contains("By cause"), "it reads all letters: {bare}");
}

#[tokio::test]
async fn a_queue_that_is_behind_says_so_and_whose_numbers_a_list_has() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "1300000000000", r#"{"id":"x"}"#]).await;
    let shown = world.ask("GET", "/queues/orders", "").await.text();
    assert!(
        shown.contains("<strong>behind</strong> 1 due and not delivered, the oldest for")
            && !shown.contains("Nothing is in the way")
    );
    let listed = world.ask("GET", "/", "").await.text();
    assert!(listed.contains("badge warn\">behind") && listed.contains("of this daemon alone"), "{listed}");
    let shown = world.ask("GET", "/queues/mails", "").await.text();
    assert!(!shown.contains("<strong>behind"), "{shown}");
}

/// A phone leaves out what is nothing.
#[tokio::test]
async fn what_is_nothing_is_marked_and_a_pause_says_how_much_it_stops() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "9999999999999", r#"{"id":"x"}"#]).await;
    let listed = world.ask("GET", "/", "").await.text();
    for label in ["Due", "Retry", "Dead", "Late p50", "Rate"] {
        assert!(listed.contains(&format!("<td class=\"n zero\" data-label=\"{label}\">")), "{label} in {listed}");
    }
    assert!(listed.contains("<div class=\"tile nothing\"><dt>Due</dt>"), "{listed}");
    let style = include_str!("../assets/style.css");
    assert!(style.contains(".queues td.zero") && style.contains(".tile.nothing { display: none; }"));
    let queue = world.ask("GET", "/queues/orders", "").await.text();
    assert!(queue.contains("Nothing more of its 1 element is claimed"), "{queue}");
    assert!(world.ask("GET", "/sinks/out", "").await.text().contains("goes to it, of 2 queues, by"));
    let config = world.ask("GET", "/config", "").await.text();
    assert!(config.contains("<form class=\"act\" method=\"post\" action=\"reload\">"), "{config}");
}
