//! The page without a script, by keyboard alone, with more queues than fit on a screen.

use std::time::Duration;

use redis::AsyncCommands;

use super::browser::Browser;
use harness::daemon::Daemon;
use harness::{RedisServer, eventually, http};

/// Whether what has the keyboard is outlined and on the screen. The browser itself has it behind the last element.
const VISIBLE: &str = "(() => { const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect(); \
    return at === document.body || (style.outlineStyle !== 'none' && box.width > 0 && box.left >= 0 && box.top >= 0 && \
    box.top < innerHeight) })()";

/// Queues of the list. `DELAYBRIDGE_LONG` has as many as the page is measured with.
fn queues() -> usize {
    if std::env::var_os("DELAYBRIDGE_LONG").is_some() { 10_000 } else { 120 }
}

/// Presses Enter, and waits for the page whose address has this part.
fn enter_to(browser: &mut Browser, part: &str) {
    browser.enter(part, &format!("location.href.includes('{part}')"));
}

/// Presses Enter on a button, and waits until the notes of the page that comes back have this text.
fn enter_for_note(browser: &mut Browser, text: &str) {
    browser.enter(text, &format!("document.querySelector('.notes')?.innerText.includes('{text}')"));
}

/// Presses Tab until the focused element has this text or id; returns the number of presses. The focus is visible all the
/// way, and never stays where it is.
fn tab_to(browser: &mut Browser, wanted: &str) -> usize {
    let mut last = String::new();
    for presses in 1..200 {
        browser.press("Tab");
        // The page is scrolled to it.
        browser.until("a focus that can be seen", VISIBLE);
        let seen = browser.eval(
            "(() => { const at = document.activeElement; return [at.id || at.innerText || at.name || at.tagName, \
             at.tagName + [...document.querySelectorAll('*')].indexOf(at)] })()",
        );
        let text = seen[0].as_str().unwrap_or_default();
        let place = seen[1].to_string();
        assert_ne!(place, last, "the focus stays on `{text}`");
        if text.trim() == wanted {
            return presses;
        }
        last = place;
    }
    panic!("Tab does not lead to `{wanted}`");
}

/// Passes the head of the page by a skip link; returns the number of presses.
fn skip(browser: &mut Browser, link: &str) -> usize {
    let presses = tab_to(browser, link);
    browser.skip();
    presses + 1
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_without_script_and_mouse_finds_repairs_and_comes_back() {
    let redis = RedisServer::start().await;
    let mut client = redis.client().await;
    let count = queues();
    let queue = |n| {
        format!(
            "  q-{n:05}: {{ source: {{ zset: {{ key: q{n}, score: ms, id: \"${{payload.id}}\" }} }}, codec: json, \
             to: [{{ sink: out }}] }}\n"
        )
    };
    // With rights for each of ten thousand queues, the server would look through all of them at each command.
    let login = if count > 1_000 { ", username: default, password: '${DELAYBRIDGE_TEST_PASSWORD}'" } else { "" };
    let yaml = format!(
        "redis: {{ url: \"{}\"{login} }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n{}",
        redis.url(),
        (0..count).map(queue).collect::<String>()
    );
    let troubled = format!("q-{:05}", count - 7);
    for n in 0..30_u64 {
        let key = format!("q{}", count - 7);
        let member = format!(r#"{{"id":"e{n}","orderId":{n}}}"#);
        let _: () = client.zadd(key, member, 9_000_000_000_000 + n).await.expect("schedule an element");
    }
    let (mut daemon, port) = Daemon::start_for_operators(&yaml).await;
    let page = format!("http://127.0.0.1:{port}/");
    eventually("the listener, which starts last", Duration::from_secs(60), async || {
        http::get(port, "/v1/queues?limit=1", Duration::from_secs(30)).await.map(drop)
    })
    .await;
    let mut browser = Browser::start();
    browser.call("Emulation.setScriptExecutionDisabled", serde_json::json!({ "value": true }));
    let mut told = Vec::new();

    // The page does not reload while a person is on it, unless asked to, and then keeps its filter.
    browser.open(&page);
    let refresh = "document.querySelector('head noscript meta[http-equiv=refresh]')?.content";
    assert!(browser.eval(refresh).is_null(), "a reload takes the keyboard back to the top");
    let weight = browser.eval(
        "(() => { const n = performance.getEntriesByType('navigation')[0]; \
         return [n.decodedBodySize, Math.round(n.responseEnd - n.requestStart)] })()",
    );
    println!("{count} queues: the overview has {} bytes and took {} ms", weight[0], weight[1]);
    assert!(weight[0].as_u64().is_some_and(|bytes| (1..150_000).contains(&bytes)), "{weight}");

    // Filter by name.
    let mut presses = skip(&mut browser, "Skip to the content") + tab_to(&mut browser, "like");
    browser.write(&troubled[..6]);
    enter_to(&mut browser, "like=q");
    told.push(("filter by name", presses + 1));
    let filtered = browser.eval("location.search").as_str().expect("an address").to_owned();

    // To a queue of the list.
    presses = skip(&mut browser, "Skip to the list") + tab_to(&mut browser, &troubled);
    enter_to(&mut browser, &format!("/queues/{troubled}").replace('-', "%2D"));
    told.push(("go to a queue", presses + 1));

    // Find an element by a field of its payload.
    presses = skip(&mut browser, "Skip to the content") + tab_to(&mut browser, "field");
    browser.write("orderId=17");
    enter_to(&mut browser, "/search?field=");
    presses += skip(&mut browser, "Skip to the content") + tab_to(&mut browser, "e17");
    enter_to(&mut browser, "/elements/e17");
    told.push(("find an element", presses + 2));

    // Back to its queue, which is paused and resumed.
    presses = skip(&mut browser, "Skip to the content") + tab_to(&mut browser, &troubled);
    enter_to(&mut browser, &format!("/queues/{troubled}").replace('-', "%2D"));
    presses += skip(&mut browser, "Skip to the content") + tab_to(&mut browser, "Pause …");
    browser.press("Enter");
    presses += 1 + tab_to(&mut browser, "why");
    browser.write("a deployment");
    enter_for_note(&mut browser, "a deployment");
    told.push(("back, and pause the queue", presses + 2));
    presses = skip(&mut browser, "Skip to the content") + tab_to(&mut browser, "Resume");
    enter_for_note(&mut browser, "Delivers");
    told.push(("resume the queue", presses + 1));

    // Back to the list as it was.
    presses = skip(&mut browser, "Skip to the content") + tab_to(&mut browser, "Queues");
    enter_to(&mut browser, "like=q");
    told.push(("back to the filtered list", presses + 1));
    assert_eq!(browser.eval("document.querySelector('#like').value"), &troubled[..6], "{filtered}");
    for (step, presses) in &told {
        println!("{step}: {presses} presses");
        assert!(*presses <= 40, "{step} takes {presses} presses");
    }

    // The reload that a person asks for keeps the filter, and so does its end.
    browser.press("Tab");
    tab_to(&mut browser, "Reload it every 5 seconds");
    enter_to(&mut browser, "reload=1");
    assert_eq!(browser.eval(refresh), "5");
    assert_eq!(browser.eval("document.querySelector('#like').value"), &troubled[..6]);
    browser.until(
        "the reload",
        "document.readyState === 'complete' && \
         (performance.getEntriesByType('navigation')[0].type === 'reload' || performance.now() > 7000)",
    );
    assert_eq!(browser.eval("document.querySelector('#like').value"), &troubled[..6]);
    drop(browser);
    assert_eq!(daemon.stop().await, 0);
}
