//! A proxy that logs people in, before the real binary: the nginx of the documentation, with a login service that answers as
//! oauth2-proxy does.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;

use harness::daemon::Daemon;
use harness::http::{self, Answer};
use harness::ports::free_port;
use harness::process::{self, Process};
use harness::{RedisServer, eventually};

const PATIENCE: Duration = Duration::from_secs(20);
const PAGE: &str = "docs/login-proxy.md";

/// Answers one request of nginx: who has the cookie is logged in.
fn log_in(stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let path = lines.next().transpose()?.unwrap_or_default();
    let mut person = None;
    for line in lines {
        let line = line?.to_lowercase();
        if line.is_empty() {
            break;
        }
        for (name, groups) in [("ann", "shop,staff"), ("bob", "")] {
            person = person.or(line.contains(&format!("session={name}")).then_some((name, groups)));
        }
    }
    let head = match person {
        _ if path.contains(" /oauth2/start") => "302 Found\r\nlocation: https://login.example/".to_owned(),
        Some((name, groups)) => {
            let groups = if groups.is_empty() { String::new() } else { format!("\r\nx-auth-request-groups: {groups}") };
            format!("202 Accepted\r\nx-auth-request-email: {name}@example.com{groups}")
        }
        None => "401 Unauthorized".to_owned(),
    };
    (&stream).write_all(format!("HTTP/1.0 {head}\r\ncontent-length: 0\r\n\r\n").as_bytes())
}

/// Starts the login service; returns its port. It ends with the test's process.
fn login_service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that nginx gave up is none of ours.
            let _ = log_in(stream);
        }
    });
    port
}

/// Starts nginx with the configuration of the documentation, but for the addresses; returns its port.
fn nginx(login: u16, daemon: u16) -> (Process, u16, TempDir) {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/login-proxy.md")).expect("read the page");
    let block = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut text = block.unwrap_or_else(|| panic!("{PAGE} has no block of nginx")).to_owned();
    let dir = TempDir::with_prefix("delaybridge-nginx-").expect("a directory");
    let port = free_port();
    let folder = dir.path().display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String = kinds.map(|kind| format!("{kind}_temp_path {folder}/{kind}; ")).concat();
    for (from, to) in [
        ("listen 8443;", format!("listen 127.0.0.1:{port};")),
        ("127.0.0.1:4180", format!("127.0.0.1:{login}")),
        ("127.0.0.1:9465", format!("127.0.0.1:{daemon}")),
        ("http {\n", format!("http {{ access_log off; {temporary}\n")),
    ] {
        assert!(text.contains(from), "{PAGE} has no `{from}`");
        text = text.replace(from, &to);
    }
    let file = dir.path().join("nginx.conf");
    std::fs::write(&file, text).expect("write the configuration");
    // In /usr/sbin, where an ordinary user does not look.
    let mut command = process::command("/usr/sbin/nginx");
    command.arg("-p").arg(dir.path()).arg("-c").arg(&file).args(["-e", "stderr"]);
    command
        .args(["-g", "daemon off; master_process off; pid nginx.pid;"])
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    (Process::spawn("nginx", command).unwrap_or_else(|e| panic!("start nginx: {e}; run `make setup`")), port, dir)
}

async fn ask(port: u16, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let answer = http::send(port, method, path, headers, body.as_bytes(), PATIENCE).await;
    answer.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn people_log_in_at_the_nginx_of_the_documentation_and_keep_their_names() {
    let redis = RedisServer::start().await;
    let port = free_port();
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n  \
         orders: {{ source: {{ redisson: {{ name: orders }} }}, to: [{{ sink: out }}] }}\n  \
         mails: {{ source: {{ redisson: {{ name: mails }} }}, to: [{{ sink: out, list: sent }}] }}\n",
        redis.url()
    );
    let keys = format!(
        "listen: \"127.0.0.1:{port}\", proxy: {{ addresses: [127.0.0.1], roles: [{{ group: shop, role: operator, queues: orders }}, \
         {{ role: viewer }}, {{ group: root, role: admin }}] }}"
    );
    let mut daemon = Daemon::start_for_operators_with(&keys, &yaml).await;
    daemon.expect_log("refused a request");
    let (_nginx, port, _dir) = nginx(login_service(), port);
    eventually("nginx to listen", PATIENCE, async || http::get(port, "/v1/queues", PATIENCE).await.map(drop)).await;
    let json = ("content-type", "application/json");
    let ann = ("cookie", "session=ann");
    let bob = ("cookie", "session=bob");
    // A browser's own headers, which nginx replaces, or removes where it knows nothing.
    let forged = [("x-forwarded-user", "root@example.com"), ("x-forwarded-groups", "root")];
    let pause = |queue: &str| format!("POST /v1/queues/{queue}/pause");
    let why = r#"{"why":"a test"}"#;
    for (request, headers, body, status) in [
        ("GET /".to_owned(), vec![], "", 302),
        (pause("orders"), vec![json], why, 302),
        (pause("orders"), [&forged[..], &[json]].concat(), why, 302),
        (pause("orders"), vec![json, ann], why, 200),
        (pause("mails"), vec![json, ann], why, 403),
        (pause("mails"), [&forged[..], &[json, ann]].concat(), why, 403),
        (pause("orders"), vec![json, bob], why, 403),
        (pause("mails"), [&forged[..], &[json, bob]].concat(), why, 403),
        ("GET /queues/mails".to_owned(), vec![bob], "", 200),
    ] {
        let answer = ask(port, &request, &headers, body).await;
        assert_eq!(answer.status, status, "{request} {headers:?}: {}", answer.body);
    }
    let audit = ask(port, "GET /v1/audit?queue=orders", &[bob], "").await.body;
    assert!(audit.contains(r#""by":"ann@example.com""#), "{audit}");
    // A form of the page comes from where the page is, by the name in the browser.
    let host = format!("127.0.0.1:{port}");
    let origin = format!("http://{host}");
    for (origin, status) in [(origin.as_str(), 303), ("http://evil.example", 403)] {
        let form =
            [("host", host.as_str()), ("origin", origin), ("content-type", "application/x-www-form-urlencoded"), ann];
        let answer = ask(port, "POST /queues/orders/resume", &form, "").await;
        assert_eq!(answer.status, status, "{origin}: {}", answer.body);
    }
}
