//! The requests and the answers of a token endpoint, and the tokens of files.

use super::*;
use crate::login::{ClientSecret, MskIamSpec};
use delaybridge_aws::AwsLoginSpec;
use delaybridge_http_client::HttpOrigin;

fn spec() -> OidcSpec {
    let origin = HttpOrigin { tls: false, host: "127.0.0.1".to_owned(), port: 1 };
    OidcSpec {
        token_url: Some(TokenUrl { origin, path: "/token?tenant=geheim".to_owned() }),
        client_id: Some("a client".to_owned()),
        client_secret: ClientSecret(Some(Secret::Literal("ge/heim:é".into()))),
        scope: Some("one two".to_owned()),
        audience: None,
        ca_file: None,
        token_file: None,
    }
}

fn endpoint(spec: &OidcSpec) -> Box<TokenEndpoint> {
    match TokenSource::of_oidc(spec) {
        TokenSource::Endpoint(endpoint) => endpoint,
        TokenSource::File(_) | TokenSource::Aws(_) => panic!("an endpoint was meant"),
    }
}

async fn body(request: Request<Full<Bytes>>) -> String {
    use http_body_util::BodyExt;
    String::from_utf8(request.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn a_secret_goes_into_the_header_and_a_signed_proof_into_the_form() {
    let request = endpoint(&spec()).request().unwrap();
    assert_eq!(request.uri(), "/token?tenant=geheim");
    let basic = request.headers()[AUTHORIZATION].to_str().unwrap().strip_prefix("Basic ").unwrap().to_owned();
    assert_eq!(STANDARD.decode(basic).unwrap(), b"a+client:ge%2Fheim%3A%C3%A9");
    assert_eq!(body(request).await, "grant_type=client_credentials&scope=one+two");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("proof");
    std::fs::write(&file, "e30.e30.sig\n").unwrap();
    let signed = OidcSpec {
        client_secret: ClientSecret(None),
        token_file: Some(file.clone()),
        audience: Some("kafka".into()),
        ..spec()
    };
    let request = endpoint(&signed).request().unwrap();
    assert!(request.headers().get(AUTHORIZATION).is_none());
    assert_eq!(
        body(request).await,
        "grant_type=client_credentials&scope=one+two&audience=kafka&client_id=a+client&client_assertion_type=\
         urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=e30.e30.sig"
    );
    std::fs::remove_file(&file).unwrap();
    let failure = endpoint(&signed).request().unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "secret"), "{failure}");
}

#[test]
fn every_answer_has_its_class_and_shows_no_secret() {
    let endpoint = endpoint(&spec());
    let asked = |status, body: &str| endpoint.token("ask", status, serde_json::from_str(body).ok());
    for body in [r#"{"access_token":"abc","expires_in":20}"#, r#"{"access_token":"abc","expires_in":"20","x":[{}]}"#] {
        assert_eq!(asked(200, body).unwrap().left(now()).as_secs_f64().ceil(), 20.0, "{body}");
    }
    let refused = [
        (200, ""),
        (200, "{}"),
        (200, r#"{"access_token":"abc"}"#),
        (200, r#"{"access_token":"abc","expires_in":-1}"#),
        (200, r#"{"access_token":"a b c","expires_in":20}"#),
        (302, ""),
        (400, r#"{"error":"invalid_scope","error_description":"geheim"}"#),
        (401, r#"{"error":"invalid_client"}"#),
        (403, "<html>geheim"),
        (404, ""),
    ];
    for (status, body) in refused {
        let failure = asked(status, body).unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "token_refused"), "{status} {body}");
        assert!(!failure.message.contains("geheim") && !failure.message.contains("abc"), "{failure}");
    }
    assert!(asked(401, r#"{"error":"invalid_client"}"#).unwrap_err().message.contains("401, invalid_client; check"));
    assert!(!asked(401, r#"{"error":"Geheim !"}"#).unwrap_err().message.contains("Geheim"));
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let failure = asked(status, r#"{"error":"temporarily_unavailable"}"#).unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Transient, "token_unavailable"), "{status}");
    }
}

#[tokio::test]
async fn a_provider_that_is_away_is_an_outage_and_a_file_without_a_valid_token_is_not() {
    let failure = TokenSource::of_oidc(&spec()).ask().await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::Transient, "token_unavailable"), "{failure}");
    assert!(
        failure.message.contains("http://127.0.0.1:1/token for a token") && !failure.message.contains("geheim"),
        "{failure}"
    );

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let source = TokenSource::of_oidc(&OidcSpec { token_url: None, token_file: Some(file.clone()), ..spec() });
    let signed = |exp: u64| {
        format!("e30.{}.sig\n", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{exp}}}")))
    };
    for text in [None, Some(String::new()), Some("opaque".to_owned()), Some(signed(1_000))] {
        if let Some(text) = &text {
            std::fs::write(&file, text).unwrap();
        }
        let failure = source.ask().await.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "token_file"), "{text:?} {failure}");
    }
    std::fs::write(&file, signed(4_000_000_000)).unwrap();
    assert_eq!(source.ask().await.unwrap().until_ms(), 4_000_000_000_000);
}

#[tokio::test]
async fn a_token_for_msk_is_signed_with_the_credentials_of_a_file() {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("credentials");
    std::fs::write(&file, "[default]\naws_access_key_id = AKIAM\naws_secret_access_key = geheim\n").unwrap();
    let login = AwsLoginSpec {
        region: "eu-west-1".to_owned(),
        credentials_file: Some(file.clone()),
        ..AwsLoginSpec::default()
    };
    let source = TokenSource::of(&TokenSpec::AwsMskIam(Box::new(MskIamSpec { login })));
    let token = source.ask().await.unwrap();
    assert_eq!((token.principal(), token.left(now()).as_secs_f64().ceil()), ("AKIAM", 900.0));
    let url = String::from_utf8(URL_SAFE_NO_PAD.decode(token.expose()).unwrap()).unwrap();
    assert!(url.starts_with("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&"), "{url}");
    assert!(url.contains("Credential=AKIAM%2F") && url.contains("%2Fkafka-cluster%2Faws4_request&"), "{url}");
    std::fs::write(&file, "").unwrap();
    let source = TokenSource::of(&TokenSpec::AwsMskIam(Box::new(MskIamSpec {
        login: AwsLoginSpec { credentials_file: Some(file), ..AwsLoginSpec::default() },
    })));
    let failure = source.ask().await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "credentials_refused"), "{failure}");
}
