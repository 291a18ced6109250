//! The page in a real browser, with and without its script, by keyboard, on a phone, in the dark.

use redis::AsyncCommands;
use serde_json::json;

use super::browser::Browser;
use super::start;
use harness::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_the_way_in_a_real_browser() {
    let redis = RedisServer::start().await;
    let (mut daemon, port) = start(&redis).await;
    let page = format!("http://127.0.0.1:{port}/");
    let mut browser = Browser::start();

    // Without scripts: everything is there, and the page reloads itself if it is asked to.
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.open(&page);
    let text = browser.eval("document.body.innerText");
    let text = text.as_str().expect("a text");
    for expected in ["orders", "evil", "Scheduled", "Ready", "out"] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    let refresh = "document.querySelector('head noscript meta[http-equiv=refresh]')?.content";
    assert!(browser.eval(refresh).is_null(), "it has a field: a reload would take away what is being written");
    assert_eq!(browser.eval("document.querySelectorAll('a[href^=\"/\"], a[href^=\"http\"]').length"), 0);
    browser.open(&format!("{page}?reload=1"));
    assert_eq!(browser.eval(refresh), "5");
    browser.open(&format!("{page}queues/orders"));
    assert!(browser.eval(refresh).is_null());

    // With scripts: a change appears without a reload, and the focus stays.
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": false }));
    browser.open(&page);
    browser.eval("window.mark = 1; document.querySelector('tbody a').focus(); 0");
    let _: () = redis.client().await.zadd("orders", r#"{"id":"new"}"#, 9_100_000_000_000_u64).await.expect("schedule");
    browser.eval("new Promise(done => setTimeout(done, 1100))");
    browser.eval("document.dispatchEvent(new Event('visibilitychange')); 0");
    browser.until("the new number", "document.querySelector('[data-label=Scheduled]').innerText.trim().endsWith('31')");
    assert_eq!(browser.eval("window.mark"), 1, "the page was loaded once more");
    assert_eq!(browser.eval("document.activeElement.innerText"), "orders");

    // What is written stays, also while the keyboard is on the button behind it.
    browser.open(&format!("{page}queues/orders"));
    browser.eval(
        "document.querySelector('details.act').open = true; document.querySelector('[name=why]').value = 'a reason'; 0",
    );
    browser.eval("document.querySelector('details.act button').focus(); document.dispatchEvent(new Event('visibilitychange')); 0");
    browser.until(
        "the page to wait",
        "document.querySelector('[data-state]').innerText.includes('while a field is filled')",
    );
    assert_eq!(browser.eval("document.querySelector('[name=why]').value"), "a reason");

    // With the keyboard alone: past the head to the first queue, into it, and a pause.
    browser.open(&page);
    browser.press("Tab");
    assert_eq!(browser.eval("document.activeElement.innerText"), "Skip to the content");
    browser.skip();
    for _ in 0..20 {
        browser.press("Tab");
        if browser.eval("document.activeElement.innerText") == "orders" {
            break;
        }
    }
    assert_ne!(browser.eval("getComputedStyle(document.activeElement).outlineStyle"), "none");
    browser.enter("the queue", "location.pathname === '/queues/orders'");
    assert!(browser.eval("document.querySelectorAll('.bars svg rect').length").as_u64() > Some(0));
    browser.eval("document.querySelector('details.act summary').focus(); 0");
    browser.press("Enter");
    browser.press("Tab");
    browser.write("a <b>deployment</b>");
    browser.enter("the pause", "document.querySelector('.notes')?.innerText.includes('by local: a <b>deployment</b>')");

    // A payload is shown as text, whatever it contains.
    browser.open(&format!("{page}queues/evil/elements"));
    assert!(browser.eval("document.querySelector('main td.line').innerText.includes('window.pwned=1')") == true);
    assert_eq!(browser.eval("typeof window.pwned"), "undefined");
    assert_eq!(browser.eval("document.querySelectorAll('main img, main script').length"), 0);
    // Even otherwise, the policy lets nothing run that is written into the page.
    browser.eval("document.body.append(Object.assign(document.createElement('div'), { innerHTML: '<img src=x onerror=\"window.pwned=1\">' })); new Promise(done => setTimeout(done, 50))");
    assert_eq!(browser.eval("typeof window.pwned"), "undefined");
    let refused = browser.complaints.drain(..).filter(|text| text.contains("Content Security Policy")).count();
    assert!(refused > 0, "the policy has refused the handler");

    // The events of an element appear at once, and its payload is text there too.
    browser.open(&format!("{page}events"));
    let payload = r#"{"id":"e2","note":"<img src=x onerror=window.pwned=2>"}"#;
    let _: () = redis.client().await.zadd("evil", payload, 1).await.expect("schedule an element that is due");
    browser.until("the event", "document.querySelector('#events').innerText.includes('delivered')");
    let row = browser.eval("document.querySelector('#events tr').innerText");
    let row = row.as_str().expect("a row");
    assert!(["evil", "e2", "out", "onerror=window.pwned=2"].iter().all(|text| row.contains(text)), "{row}");
    assert_eq!(browser.eval("document.querySelectorAll('#events img').length"), 0);
    assert_ne!(browser.eval("window.pwned"), 2);
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.open(&format!("{page}events?fate=delivered"));
    let row = browser.eval("document.querySelector('#events tr').innerText");
    assert!(row.as_str().is_some_and(|row| row.contains("e2") && row.contains("delivered")), "{row}");
    assert_eq!(browser.eval(refresh), "5");
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": false }));

    // On a phone there is no horizontal scrolling, and in dark mode the page is dark.
    let phone = json!({ "width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true });
    browser.call("Emulation.setDeviceMetricsOverride", phone);
    let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
    browser.call("Emulation.setEmulatedMedia", dark);
    for path in ["", "events", "queues/orders", "queues/evil/elements", "queues/orders/dead", "queues/gone"] {
        browser.open(&format!("{page}{path}"));
        let width = browser.eval("document.documentElement.scrollWidth");
        assert!(width.as_u64() <= Some(360), "{path} is {width} wide");
        assert_eq!(browser.eval("getComputedStyle(document.body).backgroundColor"), "rgb(15, 19, 24)", "{path}");
        assert!(browser.eval("document.querySelectorAll('h1').length") == 1, "{path}");
    }
    let unexpected: Vec<_> = browser.complaints.iter().filter(|text| !text.contains("404")).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    drop(browser);
    assert_eq!(daemon.stop().await, 0);
    let log = daemon.log().all().join("\n");
    assert!(log.contains(r#""what":"pause","of":"orders","which":"queue","by":"local""#), "{log}");
}
