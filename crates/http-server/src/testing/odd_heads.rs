//! Heads of requests that browsers, proxies and strangers send, and the answers of both listeners that have no tokens.

use std::net::SocketAddr;

use super::Client;

/// A head, and what becomes of it.
pub struct OddHead {
    /// The text before the path: none, or the beginning of an absolute URI.
    pub before_path: &'static str,
    /// The headers, in lines.
    pub headers: &'static [u8],
    /// Whether the page of operators lets it look.
    pub looks: bool,
    /// Whether the API of operators lets it change something.
    pub changes: bool,
    /// Whether the job queue takes it as a program of this machine.
    pub is_program: bool,
}

const fn head(before_path: &'static str, headers: &'static [u8], [looks, changes, is_program]: [bool; 3]) -> OddHead {
    OddHead { before_path, headers, looks, changes, is_program }
}

const ALL: [bool; 3] = [true; 3];
const NONE: [bool; 3] = [false; 3];
/// A page of the listener itself: operators have one, the job queue has none.
const OWN_PAGE: [bool; 3] = [true, true, false];
/// From another machine: without tokens it may look, as a person at a proxy does.
const PASSED_ON: [bool; 3] = [true, false, false];

/// The table.
pub const ODD_HEADS: &[OddHead] = &[
    head("", b"host: localhost\r\n", ALL),
    head("", b"", NONE),
    head("", b"host: localhost\r\nhost: evil.example\r\n", NONE),
    head("", b"host: evil.example\r\nhost: localhost\r\n", NONE),
    head("", b"host: localhost\r\nhost: localhost\r\n", NONE),
    // The host of an absolute URI counts, whatever is beside it.
    head("http://evil.example", b"host: localhost\r\n", NONE),
    head("http://evil.example", b"", NONE),
    head("http://localhost", b"host: evil.example\r\n", ALL),
    head("", b"host: 127.0.0.1.evil.example\r\n", NONE),
    head("", b"host: localhost.\r\n", NONE),
    head("", b"host: LOCALHOST:80\r\n", ALL),
    head("", b"host: [::1]\r\n", ALL),
    head("", b"host: [::1]:7\r\n", ALL),
    head("", b"host: 0x7f.1\r\n", NONE),
    head("", b"host: 127.1\r\n", NONE),
    head("", b"host: 2130706433\r\n", NONE),
    head("", b"host: 127.0.0.1:0\r\n", ALL),
    head("", b"host: 127.0.0.1:x\r\n", NONE),
    head("", b"host: 127.0.0.1:80:90\r\n", NONE),
    head("", b"host: user@localhost\r\n", NONE),
    head("", b"host: localhost/evil\r\n", NONE),
    head("", b"host:\r\n", NONE),
    head("", b"host: \xff\r\n", NONE),
    head("", b"host: localhost\r\nsec-fetch-site: cross-site\r\n", NONE),
    head("", b"host: localhost\r\nsec-fetch-site: same-site\r\n", NONE),
    head("", b"host: localhost\r\nsec-fetch-site: CROSS-SITE\r\n", NONE),
    head("", b"host: localhost\r\nsec-fetch-site:\r\n", NONE),
    head("", b"host: localhost\r\nsec-fetch-site: \xff\r\n", NONE),
    head("", b"host: localhost\r\nsec-fetch-site: none\r\n", ALL),
    head("", b"host: localhost\r\nsec-fetch-site: none\r\nsec-fetch-site: cross-site\r\n", NONE),
    head("", b"host: localhost\r\nsec-fetch-site: same-origin\r\n", OWN_PAGE),
    head("", b"host: localhost\r\norigin: http://localhost\r\n", OWN_PAGE),
    head("", b"host: localhost\r\norigin: http://evil.example\r\n", NONE),
    head("", b"host: localhost\r\norigin: http://localhost\r\norigin: http://evil.example\r\n", NONE),
    head("", b"host: localhost\r\norigin: http://\xff\r\n", NONE),
    head("", b"host: localhost\r\nhost: localhost\r\norigin: a\r\norigin: b\r\n", NONE),
    head("", b"host: localhost\r\nx-forwarded-for:\r\n", PASSED_ON),
    head("", b"host: localhost\r\nx-forwarded-for: 10.0.0.7\r\n", PASSED_ON),
    head("", b"host: localhost\r\nforwarded: for=127.0.0.1\r\n", PASSED_ON),
    head("", b"host: localhost\r\nx-real-ip: 127.0.0.1\r\n", PASSED_ON),
    head("", b"host: localhost\r\nvia: 1.1 proxy\r\n", PASSED_ON),
    head("", b"host: localhost\r\nX-Forwarded-Host: jobs.example\r\n", PASSED_ON),
    head("", b"host: localhost\r\nx-forwarded-proto: https\r\n", PASSED_ON),
];

impl OddHead {
    /// Sends it with this method, path and body, by both versions of HTTP. Returns whether it was not refused.
    pub async fn is_let_in(&self, address: SocketAddr, method: &str, path: &str, body: &str) -> bool {
        let mut answers = Vec::new();
        for version in ["1.0", "1.1"] {
            let line =
                format!("{method} {}{path} HTTP/{version}\r\ncontent-length: {}\r\n", self.before_path, body.len());
            let mut client = Client::connect(address).await;
            client.raw(&[line.as_bytes(), self.headers, b"\r\n", body.as_bytes()].concat()).await;
            let answer = client.answer().await.expect("an answer");
            assert!(matches!(answer.status, 200 | 201 | 403), "{}: {}", self.text(), answer.text());
            answers.push(answer.status != 403);
        }
        assert_eq!(answers[0], answers[1], "{}", self.text());
        answers[0]
    }

    /// Returns the head for a person.
    pub fn text(&self) -> String {
        format!("{} {}", self.before_path, self.headers.escape_ascii())
    }
}
