//! A provider of tokens: a token endpoint and the public key, over HTTP. What it answers is chosen for each client.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;

use crate::tokens::now;

/// The audience of tokens that the broker takes.
pub(in crate::client) const AUDIENCE: &str = "kafka";

/// The answer to a client.
#[derive(Clone, Debug)]
pub(in crate::client) enum Grant {
    /// A token for this audience that is valid for so long.
    Token(&'static str, Duration),
    Status(u16, &'static str),
    /// The connection ends.
    Away,
}

/// The provider of this test binary.
pub(in crate::client) struct Provider {
    pub(in crate::client) port: u16,
    key: EcdsaKeyPair,
    grants: Mutex<HashMap<String, Grant>>,
    /// The forms that were sent, with the `Authorization` header in front.
    asked: Mutex<Vec<String>>,
}

impl Provider {
    pub(in crate::client) fn get() -> &'static Arc<Provider> {
        static PROVIDER: OnceLock<Arc<Provider>> = OnceLock::new();
        PROVIDER.get_or_init(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let provider = Arc::new(Provider {
                port: listener.local_addr().unwrap().port(),
                key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
                grants: Mutex::default(),
                asked: Mutex::default(),
            });
            let serves = provider.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let provider = serves.clone();
                    std::thread::spawn(move || drop(provider.serve(stream)));
                }
            });
            provider
        })
    }

    /// Where the public key is.
    pub(in crate::client) fn keys(&self) -> String {
        format!("http://127.0.0.1:{}/keys", self.port)
    }

    /// From now on, this client gets this answer.
    pub(in crate::client) fn grant(&self, client: &str, grant: Grant) {
        self.grants.lock().insert(client.to_owned(), grant);
    }

    /// How often this client has asked.
    pub(in crate::client) fn asked(&self, client: &str) -> Vec<String> {
        self.asked.lock().iter().filter(|asked| asked.contains(client)).cloned().collect()
    }

    /// A signed token of this subject.
    pub(in crate::client) fn token(&self, subject: &str, audience: &str, valid: Duration) -> String {
        let now = now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let claims = serde_json::json!({
            "iss": "provider", "sub": subject, "aud": audience, "scope": "produce", "iat": now as u64,
            // In whole seconds, as Kafka reads it.
            "exp": (now + valid.as_secs_f64()).ceil() as u64,
        });
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","typ":"JWT","kid":"one"}"#);
        let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        let mut length = 0;
        let mut proof = String::new();
        reader.read_line(&mut line)?;
        let keys = line.starts_with("GET /keys ");
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match &*name.to_ascii_lowercase() {
                "content-length" => length = value.parse().unwrap_or(0),
                "authorization" => proof = value.to_owned(),
                _ => {}
            }
        }
        let mut form = vec![0; length];
        reader.read_exact(&mut form)?;
        let form = String::from_utf8_lossy(&form).into_owned();
        let (status, body) = if keys { (200, self.public_key()) } else { self.answer(&proof, &form) };
        if status == 0 {
            return Ok(());
        }
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    fn public_key(&self) -> String {
        // 4, then both coordinates.
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
        let [x, y] = [x, y].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        serde_json::json!({ "keys": [{ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "one", "x": x, "y": y }] })
            .to_string()
    }

    fn answer(&self, proof: &str, form: &str) -> (u16, String) {
        let basic = proof.strip_prefix("Basic ").and_then(|text| STANDARD.decode(text).ok());
        let basic = basic.map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
        let of_form = form_urlencoded::parse(form.as_bytes()).find(|(name, _)| name == "client_id");
        let client = basic.split(':').next().filter(|client| !client.is_empty()).map(str::to_owned);
        let client = client.or(of_form.map(|(_, value)| value.into_owned())).unwrap_or_default();
        self.asked.lock().push(format!("{basic} {form}"));
        match self.grants.lock().get(&client).cloned() {
            Some(Grant::Token(audience, valid)) => {
                let token = self.token(&client, audience, valid);
                (
                    200,
                    serde_json::json!({ "access_token": token, "token_type": "Bearer", "expires_in": valid.as_secs() })
                        .to_string(),
                )
            }
            Some(Grant::Status(status, body)) => (status, body.to_owned()),
            Some(Grant::Away) | None => (0, String::new()),
        }
    }
}
