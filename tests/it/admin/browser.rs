//! A real browser, controlled with its DevTools protocol over two pipes: no port, no client library, one process for
//! all pages.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Time-out for a page to show something, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a page is there that is not the one which was marked as the old one.
const NEW: &str = "!document.old && document.readyState === 'complete' && location.href !== 'about:blank'";

/// A browser with one page, which ends on drop.
pub struct Browser {
    process: Child,
    send: ChildStdin,
    receive: BufReader<ChildStdout>,
    session: String,
    next: u64,
    /// The browser's complaints: violations of the policy, failed requests, errors of scripts.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    pub fn start() -> Browser {
        let profile = TempDir::with_prefix("delaybridge-browser-").expect("a directory");
        // The browser uses the descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.arg("-c").arg("exec chromium \"$@\" 3<&0 4>&1 >/dev/null 2>&1 </dev/null").arg("chromium");
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-proxy-server",
        ]);
        command.args(["--remote-debugging-pipe", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = process.unwrap_or_else(|error| panic!("start chromium: {error}; run `make setup`"));
        let send = process.stdin.take().expect("it is piped");
        let receive = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut browser = Browser {
            process,
            send,
            receive,
            session: String::new(),
            next: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends one command; returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let sent = self.send.write_all(format!("{message}\0").as_bytes());
        sent.unwrap_or_else(|error| panic!("speak to chromium: {error}; is it installed? run `make setup`"));
        loop {
            let message = self.read();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.receive.read_until(0, &mut bytes).expect("read from chromium");
        assert_eq!(bytes.pop(), Some(0), "chromium has ended; is it installed? run `make setup`");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"]["text"].to_string());
            }
            "Runtime.exceptionThrown" => self.complaints.push(params["exceptionDetails"].to_string()),
            _ => {}
        }
    }

    /// Opens a page, and waits until it is loaded.
    pub fn open(&mut self, url: &str) {
        self.eval("document.old = true");
        let answer = self.call("Page.navigate", json!({ "url": url }));
        assert!(answer.get("errorText").is_none(), "{url}: {answer}");
        self.until("the page", NEW);
    }

    /// Presses Enter, and waits until another page is there that satisfies the condition. The old page may satisfy it
    /// too: a queue's address is the beginning of its elements' addresses.
    pub fn enter(&mut self, what: &str, condition: &str) {
        self.eval("document.old = true");
        self.press("Enter");
        self.until(what, &format!("{NEW} && {condition}"));
    }

    /// Presses Enter on a skip link, and waits until the focus is behind it. The browser moves it and scrolls after it
    /// has handled the key: a Tab before that would leave the focus where the page is scrolled away from.
    pub fn skip(&mut self) {
        let target = self.eval("document.activeElement.hash");
        self.press("Enter");
        self.until("the focus behind the skip link", &format!("'#' + document.activeElement.id === {target}"));
    }

    pub fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, what: &str, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        // The page may go away during the call.
        loop {
            let asked = json!({ "expression": expression, "returnByValue": true });
            if self.call("Runtime.evaluate", asked)["result"]["value"] == json!(true) {
                return;
            }
            if Instant::now() > deadline {
                let text = self.eval("document.documentElement.innerText");
                panic!("waited {PATIENCE:?} in vain for {what}: {expression}\n{text}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => panic!("the key {key} is not known here"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Types text into the focused element.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }
}
