//! The page, as far as no browser is needed for it.

use super::{TOKEN, World};
use delaybridge_http_server::testing::Answer;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const ORIGIN: (&str, &str) = ("origin", "http://localhost");

async fn page(world: &World, path: &str, cookie: &str) -> Answer {
    world.send("GET", path, &[("cookie", cookie)], "").await
}

/// Logs in; the cookie.
async fn log_in(world: &World) -> String {
    let body = format!("token={TOKEN}&to=queues%2Forders");
    let answer = world.send("POST", "/login", &[FORM, ORIGIN], &body).await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "queues/orders"), "{}", answer.text());
    let cookie = &answer.headers["set-cookie"];
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains(TOKEN), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn every_page_has_the_policy_and_no_inline_script_or_style() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "1000", r#"{"id":"a"}"#]).await;
    let cookie = log_in(&world).await;
    for path in [
        "/",
        "/queues/orders",
        "/queues/mails",
        "/queues/orders/elements",
        "/queues/orders/dead",
        "/login",
        "/nowhere",
        "/queues/gone",
    ] {
        let answer = page(&world, path, &cookie).await;
        assert_eq!(
            answer.headers["content-security-policy"],
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
             frame-ancestors 'none'; base-uri 'none'"
        );
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8", "{path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        let text = answer.text();
        assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains(" onclick"), "{path}");
        // A script has an address and nothing in it; no address is absolute, so the page works under any path.
        assert!(text.matches("<script").count() == text.matches("></script>").count(), "{path}");
        assert!(!text.contains("href=\"/") && !text.contains("src=\"/") && !text.contains("action=\"/"), "{path}");
        assert!(
            !text.contains("http://") && !text.contains("https://"),
            "{path}: the page loads nothing from another server"
        );
    }
}

#[tokio::test]
async fn payloads_are_text_and_never_html() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "1000", r#"{"id":"<img/src=x>","note":"</pre><script>alert(1)</script>"}"#]).await;
    let cookie = log_in(&world).await;
    let text = page(&world, "/queues/orders/elements", &cookie).await.text();
    assert!(text.contains("&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;"), "{text}");
    assert!(!text.contains("<script>alert") && !text.contains("<img"), "{text}");
    let refused = page(&world, "/queues/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "").await;
    assert_eq!(refused.status, 404);
    assert!(!refused.text().contains("<script>alert"), "{}", refused.text());
    let filtered = page(&world, "/?like=%22%3E%3Cscript%3Ealert(1)", "").await.text();
    assert!(!filtered.contains("<script>alert") && filtered.contains("&quot;&gt;&lt;script&gt;"), "{filtered}");
}

#[tokio::test]
async fn payloads_are_shown_after_a_login() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "1000", r#"{"id":"a","orderId":4711}"#]).await;
    let refused = page(&world, "/queues/orders/elements", "").await;
    assert_eq!(refused.status, 401);
    assert!(!refused.text().contains("4711") && refused.text().contains("login?to=queues%2Forders%2Felements"));
    let cookie = log_in(&world).await;
    assert!(page(&world, "/queues/orders/elements", &cookie).await.text().contains("4711"));
    let out = world.send("POST", "/logout", &[FORM, ORIGIN, ("cookie", &cookie)], "").await;
    assert_eq!(out.status, 303);
    assert_eq!(page(&world, "/queues/orders/elements", &cookie).await.status, 401);
}

#[tokio::test]
async fn forms_change_something_with_a_session_and_from_this_page_only() {
    let world = World::start(true).await;
    let cookie = log_in(&world).await;
    let pause = async |headers: &[(&str, &str)]| {
        world.send("POST", "/queues/orders/pause", headers, "why=a+deployment&for=2h").await.status
    };
    let session = ("cookie", cookie.as_str());
    assert_eq!(pause(&[FORM, ORIGIN]).await, 401);
    assert_eq!(pause(&[FORM, session]).await, 403, "the form does not say where it was");
    assert_eq!(pause(&[FORM, session, ("origin", "http://evil.example")]).await, 403);
    assert_eq!(pause(&[FORM, session, ("origin", "null")]).await, 403);
    assert_eq!(pause(&[session, ORIGIN, ("content-type", "text/plain")]).await, 415);
    assert_eq!(world.get("/v1/queues/orders").await["paused"].as_array().unwrap().len(), 0);
    assert_eq!(pause(&[FORM, session, ORIGIN]).await, 303);
    let shown = page(&world, "/queues/orders", &cookie).await.text();
    assert!(shown.contains("by ann: a deployment") && shown.contains("orders/resume"), "{shown}");
    assert!(shown.contains("paused") && !shown.contains("</strong> paused"), "the word is there once: {shown}");
    assert!(page(&world, "/", "").await.text().contains("by ann: a deployment"));
    assert_eq!(world.send("POST", "/queues/orders/resume", &[FORM, session, ORIGIN], "").await.status, 303);
    let wrong = world.send("POST", "/login", &[FORM, ORIGIN], "token=guess").await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text().contains("<form class=\"login\"") && !wrong.text().contains("guess"), "{}", wrong.text());
}

#[tokio::test]
async fn what_cannot_be_read_is_unknown_and_not_nothing() {
    let world = World::start(false).await;
    let tile = |text: &str, label: &str| {
        let from = text.find(&format!("<dt>{label}</dt><dd>")).unwrap_or_else(|| panic!("{label} in {text}"));
        let rest = &text[from + label.len() + 13..];
        rest[..rest.find('<').unwrap()].to_owned()
    };
    world.redis(&["SET", "due", "of another type"]).await;
    let text = page(&world, "/", "").await.text();
    assert_eq!((tile(&text, "Due"), tile(&text, "Oldest overdue")), ("≥ 0".to_owned(), "–".to_owned()));
    let text = page(&world, "/?like=orders", "").await.text();
    for label in ["Scheduled", "Due", "In flight", "Retry", "Dead", "Oldest overdue", "Delivered"] {
        assert_eq!(tile(&text, label), "–", "{label}");
    }
}

#[tokio::test]
async fn style_and_script_are_files_that_a_browser_keeps() {
    let world = World::start(true).await;
    for (file, media_type) in [
        ("style.css", "text/css; charset=utf-8"),
        ("live.js", "text/javascript; charset=utf-8"),
        ("local.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let first = page(&world, &format!("/assets/{file}"), "").await;
        assert_eq!((first.status, first.headers["content-type"].as_str()), (200, media_type));
        let known =
            world.send("GET", &format!("/assets/{file}"), &[("if-none-match", &first.headers["etag"])], "").await;
        assert_eq!((known.status, known.body.len()), (304, 0));
    }
    assert_eq!(page(&world, "/assets/other.css", "").await.status, 404);
}

/// The contrast of two colours, as WCAG 2 defines it.
fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |colour: &str| {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    };
    let a = luminance(a);
    let b = luminance(b);
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn every_colour_of_text_can_be_read_in_both_schemes() {
    let style = include_str!("../assets/style.css");
    let (light, dark) = style.split_once("prefers-color-scheme: dark").unwrap();
    let backgrounds = [
        ("text", "page card"),
        ("muted", "page card"),
        ("faint", "page card"),
        ("link", "page card"),
        ("good", "card good-bg"),
        ("warn", "card warn-bg page"),
        ("bad", "card bad-bg page"),
        ("info", "card info-bg"),
    ];
    for (scheme, text) in [("light", light), ("dark", &dark[..dark.find("* {").unwrap()])] {
        let colour = |name: &str| {
            let at = text.find(&format!("--{name}:")).unwrap_or_else(|| panic!("{scheme} {name}"));
            let from = at + text[at..].find('#').unwrap();
            &text[from..from + 7]
        };
        for (name, on) in backgrounds {
            for background in on.split(' ') {
                let found = contrast(colour(name), colour(background));
                assert!(found >= 4.5, "{scheme}: {name} on {background} has {found:.2}");
            }
        }
    }
}

#[tokio::test]
async fn a_page_leads_to_grafana_where_the_configuration_says_so() {
    let links = ", grafana: { queue: 'https://g.example/d/x?var-queue={queue}', sink: 'https://g.example/d/y?var-sink={sink}' }";
    let world = World::with(false, links).await;
    let page = async |path: &str| world.send("GET", path, &[("host", "127.0.0.1")], "").await.text();
    assert!(page("/queues/orders").await.contains(r#"href="https://g.example/d/x?var-queue=orders""#));
    assert!(page("/sinks/out").await.contains(r#"href="https://g.example/d/y?var-sink=out""#));
    let without = World::start(false).await.send("GET", "/queues/orders", &[("host", "127.0.0.1")], "").await.text();
    assert!(!without.contains("Grafana"));
}

#[tokio::test]
async fn a_proxy_that_passes_its_path_on_reaches_the_page() {
    let world = World::with(true, ", base_path: /ops/queues").await;
    let status = async |path: &str| world.send("GET", path, &[], "").await.status;
    for (path, expected) in [
        ("/ops/queues/", 200),
        ("/ops/queues/queues/orders", 200),
        ("/ops/queues/assets/style.css", 200),
        // For who comes past the proxy.
        ("/", 200),
        ("/ops/queues/nowhere", 404),
        ("/ops/queuesx/", 404),
        ("/ops/", 404),
    ] {
        assert_eq!(status(path).await, expected, "{path}");
    }
    // Links are relative to the path with the slash.
    let answer = world.send("GET", "/ops/queues", &[], "").await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "queues/"));
    let answer = world.send("POST", "/ops/queues/login", &[FORM, ORIGIN], &format!("token={TOKEN}&to=")).await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "./"), "{}", answer.text());
    let token = format!("Bearer {TOKEN}");
    let answer = world.send("GET", "/ops/queues/v1/queues", &[("authorization", &token)], "").await;
    assert_eq!((answer.status, &answer.json()["total"]), (200, &2.into()));
}

#[tokio::test]
async fn the_cookie_is_secure_where_the_browser_is_at_https() {
    let world = World::start(true).await;
    let at_https = [FORM, ("host", "queues.example"), ("origin", "https://queues.example")];
    for (headers, secure) in [(&at_https[..], true), (&[FORM, ORIGIN][..], false)] {
        let answer = world.send("POST", "/login", headers, &format!("token={TOKEN}&to=")).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        let cookie = &answer.headers["set-cookie"];
        assert_eq!(cookie.ends_with("; Secure"), secure, "{cookie}");
    }
}
