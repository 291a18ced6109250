//! Signature Version 4: the proof of a request in its headers, or in a URL. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use aws_lc_rs::{digest, hmac};

use crate::AwsCredentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The parts that a proof is made with.
#[derive(Debug, Clone, Copy)]
pub struct AwsSigner<'a> {
    /// The credentials of who asks.
    pub credentials: &'a AwsCredentials,
    /// Name of the service in proofs: `sqs`.
    pub service: &'a str,
    /// Region of the service.
    pub region: &'a str,
    /// Time of the proof, in seconds since the epoch.
    pub at: u64,
}

impl AwsSigner<'_> {
    /// Returns the headers that prove a `POST` to `/` of a host, to be added to these. The names are in lower case.
    pub fn headers(&self, host: &str, headers: &[(&'static str, &str)], body: &[u8]) -> Vec<(&'static str, String)> {
        let mut added = vec![("x-amz-date", self.time())];
        if let Some(token) = self.credentials.token() {
            added.push(("x-amz-security-token", token.to_owned()));
        }
        let mut all: Vec<(&str, &str)> = headers.to_vec();
        all.push(("host", host));
        all.extend(added.iter().map(|(name, value)| (*name, value.as_str())));
        all.sort_unstable();
        let names = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines = all.iter().fold(String::new(), |text, (name, value)| text + name + ":" + value.trim() + "\n");
        let body = digest::digest(&digest::SHA256, body);
        let request = format!("POST\n/\n\n{lines}\n{names}\n{}", hex::encode(body));
        let key = self.credentials.key_id();
        let scope = self.scope();
        let signature = self.signature(&request);
        let proof = format!("{ALGORITHM} Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}");
        added.push(("authorization", proof));
        added
    }

    /// Returns the signed path and query of a `GET` of a host, valid for this long. `query` is in the order of its
    /// names, which come before `X-Amz`.
    pub fn presigned(&self, host: &str, query: &[(&str, &str)], valid: Duration) -> String {
        let credential = format!("{}/{}", self.credentials.key_id(), self.scope());
        let time = self.time();
        let valid = valid.as_secs().to_string();
        let mut all = query.to_vec();
        all.extend([
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &time),
            ("X-Amz-Expires", &valid),
        ]);
        all.extend(self.credentials.token().map(|token| ("X-Amz-Security-Token", token)));
        all.push(("X-Amz-SignedHeaders", "host"));
        let query = all.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&");
        let body = digest::digest(&digest::SHA256, b"");
        let request = format!("GET\n/\n{query}\nhost:{host}\n\nhost\n{}", hex::encode(body));
        format!("/?{query}&X-Amz-Signature={}", self.signature(&request))
    }

    /// Returns the time, as `20261125T123456Z`.
    fn time(&self) -> String {
        let time = std::time::UNIX_EPOCH + Duration::from_secs(self.at);
        humantime::format_rfc3339_seconds(time).to_string().replace(['-', ':'], "")
    }

    fn scope(&self) -> String {
        let time = self.time();
        let day = time.get(..8).unwrap_or_default();
        format!("{day}/{}/{}/aws4_request", self.region, self.service)
    }

    fn signature(&self, request: &str) -> String {
        let request = digest::digest(&digest::SHA256, request.as_bytes());
        let text = format!("{ALGORITHM}\n{}\n{}\n{}", self.time(), self.scope(), hex::encode(request));
        let first = format!("AWS4{}", self.credentials.secret());
        let sign = |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
        let scope = self.scope();
        let key = scope.split('/').fold(None::<hmac::Tag>, |key, part| {
            Some(sign(key.as_ref().map_or(first.as_bytes(), AsRef::as_ref), part))
        });
        hex::encode(sign(key.as_ref().map_or(first.as_bytes(), AsRef::as_ref), &text))
    }
}

/// Returns a value in a query, with all but the letters that mean nothing there percent-encoded.
fn encoded(value: &str) -> String {
    value.bytes().fold(String::with_capacity(value.len() + 16), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "FwoGZXIvYXdzEXAMPLE/token+with=signs==";
    /// 2026-11-25T12:34:56Z.
    const AT: u64 = 1_795_610_096;

    fn credentials(token: Option<&str>) -> AwsCredentials {
        AwsCredentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token, None).unwrap()
    }

    fn signature(headers: &[(&'static str, String)]) -> (String, String) {
        let proof = &headers.iter().find(|(name, _)| *name == "authorization").unwrap().1;
        let part = |name: &str| proof.split_once(name).unwrap().1.split(',').next().unwrap().to_owned();
        (part("SignedHeaders="), part("Signature="))
    }

    /// The expected values are those of botocore 1.44.8 for the same requests (`botocore.auth.SigV4Auth.add_auth` with its clock set to
    /// `AT`).
    #[test]
    fn a_request_is_signed_as_botocore_signs_it() {
        let sqs = [("content-type", "application/x-amz-json-1.0"), ("x-amz-target", "AmazonSQS.SendMessageBatch")];
        let sns = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
        let check = |token: Option<&str>, names: (&str, &str), expected: (&str, &str)| {
            let credentials = credentials(token);
            let signer = AwsSigner { credentials: &credentials, service: "sqs", region: "eu-west-1", at: AT };
            let made = signer.headers("sqs.eu-west-1.amazonaws.com", &sqs, b"{\"QueueUrl\":\"u\"}");
            assert_eq!(signature(&made), (names.0.to_owned(), expected.0.to_owned()));
            let signer = AwsSigner { service: "sns", region: "us-east-2", ..signer };
            let made = signer.headers("127.0.0.1:4566", &sns, b"Action=PublishBatch");
            assert_eq!(signature(&made), (names.1.to_owned(), expected.1.to_owned()));
            assert_eq!(made[0], ("x-amz-date", "20261125T123456Z".to_owned()));
        };
        check(
            None,
            ("content-type;host;x-amz-date;x-amz-target", "content-type;host;x-amz-date"),
            (
                "fffca7dc3e1e025a5b9f3574ef55a6c53509c2387f431c2c9420653a949c7d6e",
                "453e891ddefb4a7c7ea78d52f4f61ffd2a00fb8d6d773e805c7dc796991237c6",
            ),
        );
        check(
            Some(TOKEN),
            (
                "content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
                "content-type;host;x-amz-date;x-amz-security-token",
            ),
            (
                "096e861f62f831a390f4c715915d6a2321b831bad957bb0a5fcca66e061e1859",
                "607e40de3e633ad54b73aa2cf4cee9048ced613b310363df71691efc61b49617",
            ),
        );
    }

    /// `post-vanilla` of the test suite that AWS has published for Signature Version 4.
    #[test]
    fn the_published_example_is_signed() {
        let credentials =
            AwsCredentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None, None).unwrap();
        let signer =
            AwsSigner { credentials: &credentials, service: "service", region: "us-east-1", at: 1_440_938_160 };
        let made = signer.headers("example.amazonaws.com", &[], b"");
        let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                        SignedHeaders=host;x-amz-date, \
                        Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b";
        assert_eq!(made[1].1, expected);
    }

    /// As above, of `botocore.auth.SigV4QueryAuth`, which has the token behind the signed headers; AWS sorts them.
    #[test]
    fn a_url_is_signed_as_botocore_signs_it() {
        let signed = |token| {
            let credentials = credentials(token);
            let signer = AwsSigner { credentials: &credentials, service: "kafka-cluster", region: "eu-west-1", at: AT };
            let action = [("Action", "kafka-cluster:Connect")];
            signer.presigned("kafka.eu-west-1.amazonaws.com", &action, Duration::from_secs(900))
        };
        let begin = "/?Action=kafka-cluster%3AConnect&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE\
                     %2F20261125%2Feu-west-1%2Fkafka-cluster%2Faws4_request&X-Amz-Date=20261125T123456Z\
                     &X-Amz-Expires=900";
        let end = "&X-Amz-SignedHeaders=host\
                   &X-Amz-Signature=a820cc88ec4382ef62c4a8a07eb9fe2c336d7beb99f9bd8fd3d9877648387e50";
        assert_eq!(signed(None), format!("{begin}{end}"));
        let end = "&X-Amz-Security-Token=FwoGZXIvYXdzEXAMPLE%2Ftoken%2Bwith%3Dsigns%3D%3D&X-Amz-SignedHeaders=host\
                   &X-Amz-Signature=06ce2973b513f84183832316a81924714ecadb0518128f26468c77b58cde68c5";
        assert_eq!(signed(Some(TOKEN)), format!("{begin}{end}"));
    }
}
