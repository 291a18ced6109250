//! What the scripts of the page add: the reader's zone.

use redis::AsyncCommands;
use serde_json::json;

use super::browser::Browser;
use harness::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_time_is_entered_in_the_readers_zone_and_a_filter_waits_on_a_phone() {
    let redis = RedisServer::start().await;
    let mut client = redis.client().await;
    let (mut daemon, port) = super::start(&redis).await;
    let page = format!("http://127.0.0.1:{port}/queues/orders");
    let mut browser = Browser::start();
    browser.call("Emulation.setTimezoneOverride", json!({ "timezoneId": "Asia/Tokyo" }));

    browser.open(&format!("{page}/elements/o1"));
    let label = browser.eval("document.querySelector('[name=at]').closest('label').innerText");
    assert_eq!(label.as_str().map(str::trim), Some("or at (your time)"));
    browser.eval("document.querySelector('[name=at]').value = '2031-02-03T13:00'");
    browser.eval("document.querySelector('button[value=reschedule]').focus()");
    browser.enter("the element with its new time", "document.body.innerText.includes('2031-02-03 04:00')");
    let due: u64 = client.zscore("orders", r#"{"id":"o1"}"#).await.expect("its due time");
    assert_eq!(browser.eval("Date.parse('2031-02-03T04:00Z')"), due);

    browser.open(&format!("{page}/dead"));
    for (width, shown) in [(1200, true), (390, false)] {
        let screen = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", screen);
        assert_eq!(browser.eval("document.querySelector('.filters').checkVisibility()"), shown, "{width} wide");
    }
    browser.open(&format!("{page}/dead?code=timeout"));
    assert_eq!(browser.eval("document.querySelector('.filters').checkVisibility()"), true, "a filter that is set");
    assert_eq!(browser.complaints, [""; 0]);
    drop(browser);
    assert_eq!(daemon.stop().await, 0);
}
