//! The places of the chain in their order, against servers that answer a fixed text.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use delaybridge_core::message::Class;

/// A server that answers each request by its first line. What was asked is kept.
async fn server(answers: &'static [(&'static str, &'static str)]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let kept = seen.clone();
    tokio::task::spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 8 << 10];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            let found = answers.iter().find(|(line, _)| request.starts_with(line));
            let (status, body) = found.map_or(("404 Not Found", ""), |(_, body)| ("200 OK", *body));
            kept.lock().push(request);
            let text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(text.as_bytes()).await;
        }
    });
    (url, seen)
}

fn chain(variables: &[(&'static str, &str)], spec: AwsLoginSpec) -> CredentialChain {
    let spec = AwsLoginSpec { region: "eu-west-1".to_owned(), ..spec };
    CredentialChain::new(&spec, AwsVariables::of(variables))
}

fn runs(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

const KEY: &str = r#"{"AccessKeyId":"ASIAC","SecretAccessKey":"s","Token":"t","Expiration":"2099-01-01T00:00:00Z"}"#;
const ROLE: &str = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAR</AccessKeyId><SecretAccessKey>s\
    </SecretAccessKey><SessionToken>t</SessionToken></Credentials></AssumeRoleResult></AssumeRoleResponse>";
const POD: &str = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAP\
    </AccessKeyId><SecretAccessKey>s</SecretAccessKey></Credentials></AssumeRoleWithWebIdentityResult>\
    </AssumeRoleWithWebIdentityResponse>";

#[test]
fn the_first_place_with_something_decides() {
    runs(async {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        std::fs::write(&file, "[default]\naws_access_key_id=AKIAF\naws_secret_access_key=s\n").unwrap();
        let path = file.to_str().unwrap();
        let folder = home.path().to_str().unwrap();
        let (url, _) = server(&[("GET /c ", KEY)]).await;
        let container = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*format!("{url}/c"));
        let shared = ("AWS_SHARED_CREDENTIALS_FILE", path);
        let key = [("AWS_ACCESS_KEY_ID", "AKIAV"), ("AWS_SECRET_ACCESS_KEY", "s"), ("HOME", folder)];
        let id = async |variables: &[(&'static str, &str)], spec| {
            chain(variables, spec).ask().await.unwrap().key_id().to_owned()
        };
        let all = [&key[..], &[container, shared]].concat();
        assert_eq!(id(&all, AwsLoginSpec::default()).await, "AKIAV");
        assert_eq!(id(&[container, shared], AwsLoginSpec::default()).await, "AKIAF");
        assert_eq!(id(&[container, ("HOME", folder)], AwsLoginSpec::default()).await, "ASIAC");
        let named = AwsLoginSpec { credentials_file: Some(file.clone()), ..AwsLoginSpec::default() };
        assert_eq!(id(&all, named).await, "AKIAF", "a file that the configuration names comes before the variables");
        let half = chain(&[key[0], shared], AwsLoginSpec::default()).ask().await.unwrap_err();
        assert!(half.message.contains("AWS_SECRET_ACCESS_KEY"), "{half}");
        let nowhere = [("HOME", folder), ("AWS_EC2_METADATA_DISABLED", "true")];
        let none = chain(&nowhere, AwsLoginSpec::default()).ask().await.unwrap_err();
        assert_eq!((none.class, none.code), (Class::TargetPermanent, "credentials_refused"), "{none}");
    });
}

#[test]
fn a_role_is_asked_for_with_the_token_of_a_pod_or_with_a_key() {
    runs(async {
        let home = tempfile::tempdir().unwrap();
        let token = home.path().join("token");
        std::fs::write(&token, "e30.geheim.sig\n").unwrap();
        let (url, seen) = server(&[("POST / ", POD)]).await;
        let variables = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/pod"),
            ("AWS_ENDPOINT_URL_STS", &*url),
        ];
        assert_eq!(chain(&variables, AwsLoginSpec::default()).ask().await.unwrap().key_id(), "ASIAP");
        let asked = seen.lock().pop().unwrap();
        assert!(asked.contains("WebIdentityToken=e30.geheim.sig") && !asked.contains("authorization:"), "{asked}");
        std::fs::remove_file(&token).unwrap();
        let gone = chain(&variables, AwsLoginSpec::default()).ask().await.unwrap_err();
        assert!(gone.message.contains("/token: No such file"), "{gone}");

        let (url, seen) = server(&[("POST / ", ROLE)]).await;
        let variables =
            [("AWS_ACCESS_KEY_ID", "AKIAV"), ("AWS_SECRET_ACCESS_KEY", "geheim"), ("AWS_ENDPOINT_URL", &*url)];
        let spec = AwsLoginSpec { role_arn: Some("arn:aws:iam::1:role/b".to_owned()), ..AwsLoginSpec::default() };
        assert_eq!(chain(&variables, spec).ask().await.unwrap().key_id(), "ASIAR");
        let asked = seen.lock().pop().unwrap();
        assert!(asked.contains("Credential=AKIAV/") && asked.contains("/eu-west-1/sts/aws4_request"), "{asked}");
        assert!(asked.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fb&RoleSessionName=delaybridge"), "{asked}");
        assert!(!asked.contains("geheim"));
    });
}

#[test]
fn an_instance_gives_the_credentials_of_its_role() {
    runs(async {
        let role = "GET /latest/meta-data/iam/security-credentials/box ";
        let list = "GET /latest/meta-data/iam/security-credentials/ ";
        let answers = Box::leak(Box::new([("PUT /latest/api/token ", "session"), (list, "box\n"), (role, KEY)]));
        let (url, seen) = server(answers).await;
        let home = tempfile::tempdir().unwrap();
        let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*url), ("HOME", home.path().to_str().unwrap())];
        assert_eq!(chain(&variables, AwsLoginSpec::default()).ask().await.unwrap().key_id(), "ASIAC");
        assert!(seen.lock().last().unwrap().contains("x-aws-ec2-metadata-token: session"));
        let (url, _) = server(&[("PUT /latest/api/token ", "session")]).await;
        let without = [variables[1], ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*url)];
        let failure = chain(&without, AwsLoginSpec::default()).ask().await.unwrap_err();
        assert!(failure.message.contains("it has no role"), "{failure}");
    });
}

#[test]
fn a_container_is_asked_with_its_token_and_only_beside_it() {
    runs(async {
        let home = tempfile::tempdir().unwrap();
        let token = home.path().join("token");
        std::fs::write(&token, "proof\n").unwrap();
        let (url, seen) = server(&[("GET /c ", KEY)]).await;
        let url = format!("{url}/c");
        let home = home.path().to_str().unwrap().to_owned();
        let file = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap());
        let variables = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*url), file, ("HOME", &*home)];
        assert_eq!(chain(&variables, AwsLoginSpec::default()).ask().await.unwrap().key_id(), "ASIAC");
        assert!(seen.lock()[0].contains("authorization: proof\r\n"));
        let elsewhere = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/c"), file, ("HOME", &*home)];
        let failure = chain(&elsewhere, AwsLoginSpec::default()).ask().await.unwrap_err();
        assert!(failure.message.contains("not beside the container"), "{failure}");
    });
}
