//! The API: each endpoint as its clients see it. Every answer is compared with the OpenAPI document.

use serde_json::json;

use super::{TOKEN, World};
use delaybridge_core::message::{Class, Failure};
use delaybridge_ops::reload::ReloadReport;
use delaybridge_settings::problem::Problem;

#[tokio::test]
async fn every_queue_is_listed_page_by_page() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "1000", r#"{"id":"a"}"#, "9999999999999", r#"{"id":"b"}"#]).await;
    let down = Failure::new(Class::Transient, Failure::NOT_CONNECTED, "no route");
    world.events.sink(&"out".into()).down(&down);
    let page = world.get("/v1/queues?limit=1").await;
    let orders = &page["queues"][0];
    assert_eq!((&orders["queue"], &orders["due"], &orders["scheduled"]), (&json!("orders"), &json!(1), &json!(1)));
    assert_eq!(
        (&orders["sinks"], &orders["mode"], &page["next"]),
        (&json!(["out"]), &json!("deliver"), &json!("orders"))
    );
    let rest = world.get("/v1/queues?limit=1&after=orders").await;
    assert_eq!((&rest["queues"][0]["queue"], rest.get("next")), (&json!("mails"), None));
    assert_eq!(world.get("/v1/queues?like=ail").await["queues"][0]["queue"], "mails");
    let sinks = world.get("/v1/sinks").await;
    let out = &sinks["sinks"][0];
    assert_eq!((&out["state"], &out["queues"]), (&json!("down"), &json!(2)));

    assert!(out["reason"].as_str().unwrap().contains("no route"), "{out}");

    let orders = world.get("/v1/queues/orders").await;
    let counts = |bars: &str| -> u64 {
        orders["schedule"][bars].as_array().unwrap().iter().map(|bar| bar["count"].as_u64().unwrap()).sum()
    };
    assert_eq!((counts("overdue"), counts("ahead")), (1, 1));
    assert_eq!(orders["settings"]["codec"], "json");
    let (_, kind, detail) = world.ask("GET", "/v1/queues/order", "").await.problem();
    assert!(kind == "not-found" && detail.contains("did you mean `orders`?"), "{detail}");
    assert_eq!(world.get("/v1/openapi.json").await["info"]["title"], "delaybridge admin API");
}

#[tokio::test]
async fn a_forecast_is_bounded_and_says_where_its_rate_is_from() {
    let world = World::start(true).await;
    let queue = world.events.metrics().queue(&"orders".into());
    world.redis(&["ZADD", "due", "1000", r#"{"id":"a"}"#, "9999999999999", r#"{"id":"b"}"#]).await;
    let found = world.get("/v1/queues/orders/forecast").await;
    assert_eq!(
        (found["steps"].as_array().unwrap().len(), &found["backlog"]),
        (96, &json!(1)),
        "a day by quarters of an hour"
    );
    assert_eq!((&found["rate"], &found["rate_from"], &found["absurd_due"]), (&json!(null), &json!("none"), &json!(2)));
    let found = world.get("/v1/queues/orders/forecast?until=2h&step=1h&rate=0.5").await;
    assert_eq!((&found["rate"], &found["rate_from"]), (&json!(0.5), &json!("given")));
    assert_eq!((found["steps"].as_array().unwrap().len(), &found["lateness_ms"]), (2, &json!(0)));
    assert!(found["through_ms"].as_i64() > found["now_ms"].as_i64(), "two seconds for the one that is due: {found}");
    for (query, part) in [
        ("until=1d&step=1m", "1000 steps"),
        ("until=soon", "`until`"),
        ("step=0s", "`step`"),
        ("rate=fast", "`rate`"),
        ("rate=-1", "above 0"),
        ("until=500d&step=1d", "366d"),
    ] {
        let (status, _, detail) = world.ask("GET", &format!("/v1/queues/orders/forecast?{query}"), "").await.problem();
        assert!(status == 400 && detail.contains(part), "{query}: {detail}");
    }
    queue.busy(true);
    assert_eq!(world.get("/v1/queues/orders/forecast").await["rate_from"], "none", "not for long enough");
}

#[tokio::test]
async fn elements_are_listed_page_by_page() {
    let world = World::start(true).await;
    for n in 0..5 {
        world.redis(&["ZADD", "due", &format!("{}", 1_000 + n), &format!(r#"{{"id":"{n}"}}"#)]).await;
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = world.get(&format!("/v1/queues/orders/elements?limit=2&after={after}")).await;
        assert_eq!(page["total"], 5);
        seen.extend(page["elements"].as_array().unwrap().iter().map(|element| element["payload"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    let all: Vec<_> = (0..5).map(|n| json!(format!(r#"{{"id":"{n}"}}"#))).collect();
    assert_eq!(seen, all);
    let beyond = world.get("/v1/queues/orders/elements?after=5").await;
    assert_eq!((&beyond["elements"], beyond.get("next")), (&json!([]), None));
    let (_, _, detail) = world.ask("GET", "/v1/queues/orders/elements?after=x", "").await.problem();
    assert!(detail.contains("`next` of the page before"), "{detail}");
}

#[tokio::test]
async fn a_queue_is_paused_under_the_name_of_the_token() {
    let world = World::start(true).await;
    let paused = world.ask("POST", "/v1/queues/orders/pause", r#"{"why":"a deployment","for":"2h"}"#).await.json();
    let pause = &paused["queues"][0]["pause"];
    assert_eq!((&pause["by"], &pause["why"]), (&json!("ann"), &json!("a deployment")));
    assert_eq!(pause["until_ms"].as_i64().unwrap() - pause["since_ms"].as_i64().unwrap(), 7_200_000);
    assert_eq!(world.get("/v1/queues").await["queues"][0]["paused"][0]["by"], "ann");
    // Another name is taken, and cannot hide that of the token.
    let again = world.ask("POST", "/v1/queues/orders/pause", r#"{"why":"x","by":"bob"}"#).await.json();
    assert_eq!(again["queues"][0]["pause"]["by"], "bob (ann)");
    assert_eq!(again["queues"][0]["before"]["by"], "ann");
    let resumed = world.ask("POST", "/v1/queues/orders/resume", "").await.json();
    assert_eq!(
        (&resumed["queues"][0]["pause"], &resumed["queues"][0]["before"]["by"]),
        (&json!(null), &json!("bob (ann)"))
    );
    assert_eq!(world.get("/v1/queues/orders").await["paused"], json!([]));
    let sinks = world.ask("POST", "/v1/sinks/out/pause", r#"{"why":"x"}"#).await.json();
    assert_eq!(sinks["queues"].as_array().unwrap().len(), 2);
    assert_eq!(world.ask("POST", "/v1/sinks/out/resume", "").await.status, 200);
}

#[tokio::test]
async fn elements_and_letters_are_shown_with_a_token_only() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "1000", r#"{"id":"a","orderId":7}"#]).await;
    let elements = world.get("/v1/queues/orders/elements").await;
    assert_eq!(elements["elements"][0]["payload"], r#"{"id":"a","orderId":7}"#);
    for path in ["/v1/queues/orders/elements", "/v1/queues/orders/dead/1-0", "/v1/config"] {
        let refused = world.send("GET", path, &[], "").await;
        assert_eq!(refused.problem().1, "unauthorized", "{path}");
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
    }
    let missing = world.ask("GET", "/v1/queues/orders/dead/1-0", "").await;
    assert_eq!(missing.problem().1, "not-found");
    assert_eq!(world.get("/v1/queues/orders/dead").await["dead_letters"], json!([]));
    assert_eq!(world.get("/v1/config").await["http"]["admin"]["listen"], "127.0.0.1:0");
}

#[tokio::test]
async fn what_changes_something_needs_a_token_and_no_foreign_page() {
    let world = World::start(true).await;
    let pause = async |headers: &[(&str, &str)]| {
        let answer = world.send("POST", "/v1/queues/orders/pause", headers, r#"{"why":"x"}"#).await;
        (answer.status != 200).then(|| answer.problem().1)
    };
    let token = format!("Bearer {TOKEN}");
    assert_eq!(pause(&[]).await.as_deref(), Some("unauthorized"));
    assert_eq!(pause(&[("authorization", "Bearer 0123456789abcdeX")]).await.as_deref(), Some("unauthorized"));
    assert_eq!(
        pause(&[("authorization", &token), ("origin", "http://evil.example")]).await.as_deref(),
        Some("forbidden")
    );
    assert_eq!(world.get("/v1/queues").await["queues"][0]["paused"], json!([]));
    assert_eq!(pause(&[("authorization", &token), ("origin", "http://localhost")]).await, None);
    // Whoever guesses has to wait. Whoever has a token need not, from the same address.
    let guess = ("authorization", "Bearer guessed-guessed-guessed");
    for _ in 0..9 {
        pause(&[guess]).await;
    }
    assert_eq!(pause(&[guess]).await.as_deref(), Some("too-many"));
    assert_eq!(pause(&[("authorization", &token)]).await, None);
}

#[tokio::test]
async fn a_page_of_a_name_that_was_pointed_here_reads_nothing() {
    for tokens in [false, true] {
        let world = World::start(tokens).await;
        let kind = async |path: &str, headers: &[(&str, &str)]| {
            let answer = world.send("GET", path, headers, "").await;
            (answer.status != 200).then_some(answer.status)
        };
        let refused = Some(if tokens { 401 } else { 403 });
        for path in
            ["/v1/queues", "/v1/queues/orders", "/v1/queues/orders/dead", "/v1/sinks", "/v1/topics", "/v1/events", "/"]
        {
            assert_eq!(kind(path, &[("host", "evil.example:9465")]).await, refused, "{path}");
            // What an image, a script or a stream of another page asks for.
            let elsewhere = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
            assert_eq!(kind(path, &elsewhere).await, Some(403), "{path}");
        }
        assert_eq!(kind("/v1/queues", &[]).await, None);
        let token = format!("Bearer {TOKEN}");
        if tokens {
            assert_eq!(kind("/v1/queues", &[("host", "ops.example"), ("authorization", &token)]).await, None);
            assert_eq!(kind("/login", &[("host", "ops.example")]).await, None, "there a token is asked for");
        }
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(kind("/v1/queues", &link).await, None, "a person may follow a link");
    }
}

#[tokio::test]
async fn what_reads_all_dead_letters_needs_a_token() {
    let world = World::start(true).await;
    for path in ["/v1/queues/orders/dead/count", "/v1/queues/orders/dead?code=x", "/queues/orders/dead?sink=x"] {
        assert_eq!(world.send("GET", path, &[], "").await.status, 401, "{path}");
        assert_eq!(world.ask("GET", path, "").await.status, 200, "{path}");
    }
    assert_eq!(world.send("GET", "/v1/queues/orders/dead", &[], "").await.status, 200);
}

/// A search that ends at its limit, or with the matches that were asked for, goes on at the next element.
#[tokio::test]
async fn a_search_goes_on_where_it_ended() {
    let world = World::start(true).await;
    for n in 0..7 {
        let payload = format!(r#"{{"id":"{n}","kind":"k{}"}}"#, n % 2);
        world.redis(&["ZADD", "due", &format!("{}", 9_000_000_000_000_i64 + n), &payload]).await;
    }
    for n in 2..5 {
        let path = format!("/v1/queues/orders/elements/{n}/kill");
        assert_eq!(world.ask("POST", &path, r#"{"why":"x"}"#).await.status, 200);
    }
    let all = async |limit: u64, matches: u64| {
        let mut seen = Vec::new();
        let mut examined = 0;
        let mut after = String::new();
        let mut rounds = 0;
        loop {
            let body = json!({ "fields": ["kind=k0"], "limit": limit, "matches": matches, "after": after });
            let hits = world.ask("POST", "/v1/queues/orders/search", &body.to_string()).await.json();
            let found = hits["elements"].as_array().unwrap();
            seen.extend(found.iter().map(|element| (element["id"].clone(), element["state"].clone())));
            examined += hits["examined"].as_u64().unwrap();
            rounds += 1;
            assert_eq!(hits["incomplete"], hits.get("next").is_some(), "{hits}");
            let Some(next) = hits["next"].as_str() else { return (seen, examined, rounds) };
            after = next.to_owned();
        }
    };
    let id = |id: &str, state: &str| (json!(id), json!(state));
    let expected = vec![id("0", "scheduled"), id("6", "scheduled"), id("4", "dead"), id("2", "dead")];
    assert_eq!(all(10_000, 100).await, (expected.clone(), 7, 1));
    for (limit, matches) in [(1, 100), (2, 100), (3, 1), (10_000, 1), (5, 2)] {
        let (seen, examined, rounds) = all(limit, matches).await;
        assert_eq!((&seen, examined), (&expected, 7), "{limit} {matches} in {rounds}");
    }
    let problem = async |body: &str| world.ask("POST", "/v1/queues/orders/search", body).await.problem().2;
    assert!(problem(r#"{"fields":["kind=k0"],"after":"dead:x"}"#).await.contains("the `next`"));
    assert!(problem(r#"{"fields":["kind=k0"],"limit":0}"#).await.contains("1 or more"));
    assert!(problem("{}").await.contains("orderId=7"));
    let bare = world.send("POST", "/v1/queues/orders/search", &[], r#"{"fields":["kind=k0"]}"#).await;
    assert_eq!(bare.status, 401, "it shows payloads");
}

/// Letters of many megabytes are exported in several pages, in their order, and each once.
#[tokio::test]
async fn an_export_has_pages_and_an_import_says_what_became_of_each_line() {
    let world = World::start(true).await;
    let filler = "x".repeat(1_500_000);
    for n in 0..5 {
        let payload = format!(r#"{{"id":"{n}","filler":"{filler}"}}"#);
        world.redis(&["ZADD", "due", &format!("{}", 9_000_000_000_000_i64 + n), &payload]).await;
        let path = format!("/v1/queues/orders/elements/{n}/kill");
        assert_eq!(world.ask("POST", &path, r#"{"why":"x"}"#).await.status, 200);
    }
    let mut letters = Vec::new();
    let mut after = String::new();
    let mut pages = 0;
    loop {
        let page = world.get(&format!("/v1/queues/orders/dead/export?after={after}")).await;
        letters.extend(page["dead_letters"].as_array().unwrap().iter().map(|letter| letter["id"].clone()));
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!((&letters, pages > 1), (&["0", "1", "2", "3", "4"].map(|id| json!(id)).to_vec(), true), "{pages} pages");
    let bare = world.send("GET", "/v1/queues/orders/dead/export", &[], "").await;
    assert_eq!(bare.status, 401, "it shows payloads");

    world.redis(&["ZADD", "due", "9000000000000", r#"{"id":"small"}"#]).await;
    assert_eq!(world.ask("POST", "/v1/queues/orders/elements/small/kill", r#"{"why":"x"}"#).await.status, 200);
    let page = world.get("/v1/queues/orders/dead/export?id_prefix=small").await;
    let line = page["dead_letters"][0].to_string();
    let other = line.replace(r#""queue":"orders""#, r#""queue":"elsewhere""#);
    let import = async |query: &str, body: &str| {
        world.ask("POST", &format!("/v1/queues/orders/dead/import?{query}"), body).await
    };
    let outcomes = import("run=7", &format!("{line}\n\n{other}\n{{}}\n{other}\n")).await.json();
    let lines = outcomes["lines"].as_array().unwrap();
    assert_eq!(lines[..3], [json!("known"), json!("empty"), json!("imported")]);
    assert!(
        lines[3]["broken"].as_str().is_some_and(|why| why.contains("missing")) && lines[4] == "imported",
        "{outcomes}"
    );
    let count = async || world.get("/v1/queues/orders/dead?limit=1").await["total"].as_u64().unwrap();
    assert_eq!(count().await, 8);
    // Sent again, as after an answer that was lost.
    assert_eq!(import("run=7&first=5", &other).await.json()["lines"], json!(["imported"]));
    assert_eq!(count().await, 8, "the line of that number was there");
    let stopped = import("run=8&stops=true", &format!("{{}}\n{other}\n")).await.json();
    assert_eq!((stopped["lines"].as_array().map(Vec::len), count().await), (Some(1), 8));
    assert_eq!(import("run=9&dry_run=true", &other).await.json()["lines"], json!(["imported"]));
    assert_eq!(count().await, 8);
    assert!(import("", &other).await.problem().2.contains("`run`"));
    assert_eq!(import("run=1", &"{}\n".repeat(101)).await.problem().0, 400);
    let bare = world.send("POST", "/v1/queues/orders/dead/import?run=1", &[], &other).await;
    assert_eq!(bare.status, 401);
}

/// A form of a megabyte of nothing is a hundred times that once it is taken apart.
#[tokio::test]
async fn bodies_of_strangers_stay_small() {
    let world = World::start(true).await;
    let form = [("content-type", "application/x-www-form-urlencoded"), ("origin", "http://localhost")];
    let answer = world.send("POST", "/login", &form, &"a&".repeat(500_000)).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("more than 100 parameters"), "{}", answer.text());
    let deep = format!(r#"{{"ids":{}}}"#, "[".repeat(500_000));
    assert!(world.ask("POST", "/v1/queues/orders/dead/purge", &deep).await.problem().2.contains("128 levels"));
    let wide = format!(r#"{{"ids":["x"],"filter":{{"code":[{}]}}}}"#, "[0],".repeat(200_000) + "0");
    assert_eq!(world.ask("POST", "/v1/queues/orders/dead/purge", &wide).await.problem().0, 400);
}

#[tokio::test]
async fn without_a_file_of_tokens_only_this_machine_changes_something() {
    let world = World::start(false).await;
    let pause =
        async |headers: &[(&str, &str)]| world.send("POST", "/v1/queues/orders/pause", headers, r#"{"why":"x"}"#).await;
    // A name that anybody could point here, and a proxy.
    assert_eq!(pause(&[("host", "evil.example")]).await.problem().1, "forbidden");
    assert_eq!(pause(&[("x-forwarded-for", "10.0.0.7")]).await.problem().1, "forbidden");
    let mut client = delaybridge_http_server::testing::Client::connect(world.address).await;
    let request =
        "POST /v1/queues/orders/pause HTTP/1.1\r\nhost: localhost:9465\r\ncontent-length: 11\r\n\r\n{\"why\":\"x\"}";
    client.raw(request.as_bytes()).await;
    let answer = client.answer().await.unwrap();
    assert_eq!((answer.status, &answer.json()["queues"][0]["pause"]["by"]), (200, &json!("local")));
}

#[tokio::test]
async fn mistakes_are_explained() {
    let world = World::start(true).await;
    let check = async |method: &str, path: &str, body: &str, expected: &str| {
        let problem = world.ask(method, path, body).await.problem();
        assert!(problem.2.contains(expected), "{method} {path} {body}: {problem:?}");
    };
    check("GET", "/v1/queues?limti=1", "", "did you mean `limit`?").await;
    check("GET", "/v1/queues?limit=1000", "", "it is 1 to 200").await;
    check("GET", "/v1/queues?after=gone", "", "no queue with this id").await;
    check("GET", "/v1/queues/orders/elements?state=gone", "", "it is scheduled, retry").await;
    check("POST", "/v1/queues/orders/pause", r#"{"wyh":"x"}"#, "did you mean `why`?").await;
    check("POST", "/v1/queues/orders/pause", r#"{"why":"x","for":"soon"}"#, "write 30m").await;
    check("POST", "/v1/queues/orders/pause?why=x", "{}", "unknown parameter `why`").await;
    check("POST", "/v1/queues/orders/pause", r#"{"sink":"out"}"#, "name a queue or a sink").await;
    check("POST", "/v1/queues/orders/dead/purge", r#"{"ids":[],"all":true}"#, "expected 1 to 1000 items, found 0")
        .await;
    check("POST", "/v1/queues/orders/dead/purge", r#"{"filter":{"reason":null}}"#, "say which letters").await;
    check("POST", "/v1/queues/orders/pause", r#"{"why":"x","for":"1h","until_ms":1}"#, "both `for` and `until_ms`")
        .await;
    check("POST", "/v1/queues/orders/pause", r#"{"why":"x","until_ms":1}"#, "the end is over already").await;
    check("POST", "/v1/sinks/outt/pause", r#"{"why":"x"}"#, "did you mean `out`?").await;
    check("POST", "/v1/queues", "", "it has GET, not POST").await;
    check("GET", "/v1/gone", "", "there is none of this name").await;
}

#[tokio::test]
async fn an_outage_of_redis_is_an_answer_and_a_change_then_is_of_unknown_outcome() {
    let mut world = World::start(true).await;
    world.get("/v1/queues").await;
    world.redis.kill();
    let page = delaybridge_link::test_server::eventually("the outage is seen", async || {
        world.get("/v1/queues").await["errors"].as_array().unwrap().len() == 2
    });
    page.await;
    let (status, kind, _) = world.ask("GET", "/v1/queues/orders", "").await.problem();
    assert_eq!((status, kind.as_str()), (503, "unavailable"));
    let (status, kind, _) = world.ask("POST", "/v1/queues/orders/pause", r#"{"why":"x"}"#).await.problem();
    assert_eq!((status, kind.as_str()), (503, "outcome-unknown"));
}

#[tokio::test]
async fn a_reload_answers_with_what_changed_or_with_what_is_wrong() {
    let mut world = World::start(true).await;
    let mut wishes = std::mem::replace(&mut world.wishes, tokio::sync::mpsc::channel(1).1);
    let daemon = async {
        let wish = wishes.recv().await.unwrap();
        assert!(wish.dry_run);
        let _ = wish.answer.unwrap().send(Ok(ReloadReport { dry_run: true, ..ReloadReport::default() }));
        let refusal = Problem {
            file: "c.yaml".to_owned(),
            position: None,
            path: "sinks".to_owned(),
            message: "there is none".to_owned(),
            help: None,
        };
        let _ = wishes.recv().await.unwrap().answer.unwrap().send(Err(vec![refusal]));
        let _ = wishes.recv().await.unwrap().answer.unwrap().send(Ok(ReloadReport::default()));
    };
    let client = async {
        let report = world.ask("POST", "/v1/reload?dry_run", "").await;
        assert_eq!((report.status, &report.json()["dry_run"]), (200, &json!(true)));
        let refused = world.ask("POST", "/v1/reload", "").await.problem();
        let token = format!("Bearer {TOKEN}");
        let form = ("content-type", "application/x-www-form-urlencoded");
        let headers = [form, ("origin", "http://localhost"), ("authorization", token.as_str())];
        let by_form = world.send("POST", "/reload", &headers, "").await;
        assert_eq!(by_form.status, 303, "{}", by_form.text());
        assert!(by_form.headers["location"].starts_with("config?done="), "{:?}", by_form.headers);
        refused
    };
    let ((), (status, kind, detail)) = tokio::join!(daemon, client);
    assert_eq!((status, kind.as_str()), (409, "conflict"));
    assert!(detail.contains("the configuration before runs on") && detail.contains("there is none"), "{detail}");
    assert_eq!(world.send("POST", "/v1/reload", &[], "").await.problem().1, "unauthorized");
}

#[tokio::test]
async fn an_element_is_found_moved_killed_and_comes_back() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "9000000000000", r#"{"id":"a","orderId":7}"#, "9000000000001", r#"{"id":"b"}"#]).await;
    let at = "/v1/queues/orders/elements/a";
    let found = &world.get(at).await["elements"][0];
    assert_eq!((&found["state"], &found["payload"]), (&json!("scheduled"), &json!(r#"{"id":"a","orderId":7}"#)));
    let moved = world.ask("POST", &format!("{at}/reschedule"), r#"{"at_ms":9100000000000}"#).await.json();
    assert_eq!(moved["elements"][0]["due_ms"], 9_100_000_000_000_i64);
    assert_eq!(world.ask("POST", &format!("{at}/run-now"), "").await.status, 200);
    assert_eq!(world.get("/v1/queues/orders").await["due"], 1);
    let killed = world.ask("POST", &format!("{at}/kill"), r#"{"why":"a test"}"#).await.json();
    assert_eq!(killed["elements"][0]["state"], "dead", "{killed}");
    let letters = world.get("/v1/queues/orders/dead?field=orderId%3D7").await;
    let letter = &letters["dead_letters"][0];
    assert!(letter["message"].as_str().unwrap().contains("killed by ann: a test"), "{letter}");
    // Whether a payload has a value is shown with a token only.
    assert_eq!(world.send("GET", "/v1/queues/orders/dead?field=orderId%3D7", &[], "").await.status, 401);
    assert_eq!(world.send("GET", "/v1/queues/orders/dead", &[], "").await.status, 200);
    assert_eq!(world.get("/v1/queues/orders/dead/count").await["matched"], 1);
    assert_eq!(world.get("/v1/queues/orders/dead?code=other").await["dead_letters"], json!([]));

    let redrive = async |body: &str| world.ask("POST", "/v1/queues/orders/dead/redrive", body).await;
    assert_eq!(redrive("{}").await.status, 400, "an empty wish is none for all of them");
    assert_eq!(redrive(r#"{"filter":{}}"#).await.status, 400);
    let tried = redrive(r#"{"all":true,"dry_run":true}"#).await.json();
    assert_eq!((&tried["matched"], &tried["redriven"]), (&json!(1), &json!(0)));
    let place = letter["stream_id"].as_str().unwrap();
    assert_eq!(redrive(&format!(r#"{{"ids":["{place}"]}}"#)).await.json()["redriven"], 1);
    assert_eq!(world.get(at).await["elements"][0]["state"], "retry");
    let due = format!("{at}?due_ms=x");
    assert_eq!(world.ask("DELETE", &due, "").await.status, 400);
    let due = format!("{at}?due_ms=7");
    assert_eq!(
        world.ask("DELETE", &due, "").await.json()["elements"][0]["state"],
        "gone",
        "also where it is not due then"
    );
    assert_eq!(world.ask("GET", at, "").await.problem().1, "not-found");
    assert_eq!(world.ask("DELETE", at, "").await.problem().1, "not-found");
    world.ask("POST", "/v1/queues/orders/elements/b/kill", "").await;
    // A letter is dead already: nothing more is done with it.
    world.ask("POST", "/v1/queues/orders/elements/b/kill", "").await;
    assert_eq!(world.ask("POST", "/v1/queues/orders/dead/purge", r#"{"all":true}"#).await.json()["purged"], 1);
    let metrics = world.events.metrics().render().unwrap();
    for (operation, elements) in [("killed", 2), ("redriven", 1), ("cancelled", 1), ("purged", 1)] {
        let line =
            format!("delaybridge_operator_messages_total{{operation=\"{operation}\",queue=\"orders\"}} {elements}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}
