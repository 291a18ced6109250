//! The keys of `sinks.NAME.kafka.sasl`: a login with a password, or with tokens.

use std::path::PathBuf;

use secrecy::SecretString;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use delaybridge_aws::AwsLoginSpec;
use delaybridge_aws::spec::login as aws_login;
use delaybridge_http_client::{HttpOrigin, split};
use delaybridge_settings::keys::{Key, Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::words;
use delaybridge_settings::{Secret, Settings, secrets};

/// A login to Kafka.
#[derive(Debug, Clone, Settings)]
#[settings(sasl, at = "sinks.NAME.kafka.sasl")]
pub struct KafkaSasl {
    /// `OAUTHBEARER` needs `oidc` or `aws_msk_iam`, the others `username`, and `password` or `password_file`.
    #[key(word::<SaslMechanism>(), required)]
    pub mechanism: SaslMechanism,
    /// The proof.
    #[settings(keys(USERNAME, secrets::PASSWORD, secrets::PASSWORD_FILE, OIDC, AWS_MSK_IAM), read = login, flatten)]
    pub login: KafkaLogin,
}

const USERNAME: Key = key("username", Kind::Text, "User, where the mechanism has a password.");
const OIDC: Key = key("oidc", Kind::Section(&oidc::TABLE), "Tokens of an OpenID provider.");
const AWS_MSK_IAM: Key = key("aws_msk_iam", Kind::Section(&aws_msk_iam::TABLE), "Tokens of AWS for MSK.");

words! {
    /// SASL mechanisms of this version, by their names in Kafka.
    pub enum SaslMechanism {
        /// The password itself; only sensible over TLS.
        Plain = "PLAIN",
        /// Challenge and response over SHA-256.
        ScramSha256 = "SCRAM-SHA-256",
        /// Challenge and response over SHA-512.
        ScramSha512 = "SCRAM-SHA-512",
        /// A token; only sensible over TLS.
        OAuthBearer = "OAUTHBEARER",
    }
    later "GSSAPI"
}

impl SaslMechanism {
    /// Returns whether who reads the connection could log in as well.
    pub(super) fn shows_the_proof(self) -> bool {
        matches!(self, SaslMechanism::Plain | SaslMechanism::OAuthBearer)
    }
}

impl KafkaSasl {
    /// Returns whether there is what the mechanism needs; what is missing has been reported.
    pub(super) fn is_complete(&self) -> bool {
        match &self.login {
            KafkaLogin::Password { username, .. } => !username.is_empty(),
            KafkaLogin::Tokens(TokenSpec::Oidc(spec)) => spec.token_url.is_some() || spec.token_file.is_some(),
            KafkaLogin::Tokens(TokenSpec::AwsMskIam(spec)) => !spec.login.region.is_empty(),
        }
    }

    /// Returns the name of the proof in a sentence.
    pub(super) fn proof(&self) -> &'static str {
        match &self.login {
            KafkaLogin::Password { .. } => "password",
            KafkaLogin::Tokens(_) => "token",
        }
    }
}

/// The proof of a login.
#[derive(Debug, Clone)]
pub enum KafkaLogin {
    /// A user with a password.
    Password {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// Tokens.
    Tokens(TokenSpec),
}

/// The source of tokens.
#[derive(Debug, Clone)]
pub enum TokenSpec {
    /// An OpenID provider, or a file.
    Oidc(Box<OidcSpec>),
    /// AWS.
    AwsMskIam(Box<MskIamSpec>),
}

impl TokenSpec {
    /// Returns the key of the source, with its settings.
    fn shown(&self) -> (&'static str, Map<String, Value>) {
        match self {
            TokenSpec::Oidc(spec) => (OIDC.name, spec.shown()),
            TokenSpec::AwsMskIam(spec) => (AWS_MSK_IAM.name, spec.shown()),
        }
    }
}

/// Logins to MSK by IAM, with tokens of 15 minutes. The role needs `kafka-cluster:Connect`, `DescribeTopic`,
/// `WriteData` and `WriteDataIdempotently`.
#[derive(Debug, Clone, Default, Settings)]
#[settings(aws_msk_iam, at = "sinks.NAME.kafka.sasl.aws_msk_iam")]
pub struct MskIamSpec {
    /// Region, and where the credentials are from.
    #[settings(group = aws_login::OWN, read = of_aws, flatten)]
    pub login: AwsLoginSpec,
}

fn of_aws(section: &Section<'_>) -> AwsLoginSpec {
    AwsLoginSpec::in_region(section, None)
}

impl Serialize for KafkaLogin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = Map::new();
        match self {
            KafkaLogin::Password { username, password } => {
                shown.insert(USERNAME.name.to_owned(), username.as_str().into());
                if let Ok(Value::Object(password)) = serde_json::to_value(password) {
                    shown.extend(password);
                }
            }
            KafkaLogin::Tokens(spec) => {
                let (name, spec) = spec.shown();
                shown.insert(name.to_owned(), spec.into());
            }
        }
        shown.serialize(serializer)
    }
}

/// Tokens of an OpenID provider. With `token_url` they are fetched by the grant *client credentials*, and renewed after
/// half of their time. `token_file` alone is kept up to date by another program, as Kubernetes does for service
/// accounts. With both, the file replaces the secret, as for a workload identity of Entra ID.
#[derive(Debug, Clone, Default, Settings)]
#[settings(oidc, at = "sinks.NAME.kafka.sasl.oidc")]
pub struct OidcSpec {
    /// Token endpoint, as `https://login.example.com/oauth2/token`.
    #[key(Kind::Text, read = token_url, show = shown_url)]
    pub token_url: Option<TokenUrl>,
    /// Id of the client.
    #[key(Kind::Text)]
    pub client_id: Option<String>,
    /// The client's secret.
    #[settings(keys(CLIENT_SECRET, CLIENT_SECRET_FILE), read = client_secret, flatten)]
    pub client_secret: ClientSecret,
    /// Requested scopes, separated by spaces.
    #[key(Kind::Text)]
    pub scope: Option<String>,
    /// Requested audience, if the provider wants it.
    #[key(Kind::Text)]
    pub audience: Option<String>,
    /// Certificate authorities of the provider in PEM. Default: those of the system.
    #[key(Kind::File, read = ca_file)]
    pub ca_file: Option<PathBuf>,
    /// File with a token in its first line, read for each token.
    #[key(Kind::File, read = token_file)]
    pub token_file: Option<PathBuf>,
}

const CLIENT_SECRET: Key = key("client_secret", Kind::Secret, "Secret of the client, preferably as `${VAR}`.");
const CLIENT_SECRET_FILE: Key =
    key("client_secret_file", Kind::File, "File with the client's secret in its first line, read for each token.");

/// A token endpoint. It is shown without its query, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenUrl {
    /// The server.
    pub origin: HttpOrigin,
    /// Path and query.
    pub path: String,
}

impl TokenUrl {
    /// Returns the URL without its query, for messages.
    pub fn shown(&self) -> String {
        format!("{}{}", self.origin, self.path.split('?').next().unwrap_or_default())
    }
}

/// The secret of a client, if it has one.
#[derive(Debug, Clone, Default)]
pub struct ClientSecret(pub Option<Secret>);

impl Serialize for ClientSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = match &self.0 {
            None => None,
            Some(Secret::Literal(_)) => Some((CLIENT_SECRET.name, "(hidden)".to_owned())),
            Some(Secret::File(path)) => Some((CLIENT_SECRET_FILE.name, path.display().to_string())),
        };
        serializer.collect_map(shown)
    }
}

fn shown_url(url: &Option<TokenUrl>) -> Option<Value> {
    Some(url.as_ref()?.shown().into())
}

fn login(section: &Section<'_>) -> KafkaLogin {
    let report = &section.cx.report;
    // The word is read, and checked, as the mechanism.
    let mechanism = section.scalar(&sasl::MECHANISM).map(|scalar| scalar.value);
    let sources = [&OIDC, &AWS_MSK_IAM];
    let has_tokens = || sources.iter().any(|key| section.has(key));
    if mechanism.as_deref().map_or_else(has_tokens, |word| word == SaslMechanism::OAuthBearer.as_str()) {
        for key in [&USERNAME, &secrets::PASSWORD, &secrets::PASSWORD_FILE].into_iter().filter(|key| section.has(key)) {
            let message = format!("`{}` is there, and OAUTHBEARER logs in with a token", key.name);
            report.problem(&section.spot(key), message, "remove it, or choose another `mechanism`");
        }
        return KafkaLogin::Tokens(tokens(section));
    }
    for key in sources.into_iter().filter(|key| section.has(key)) {
        let help = "write `mechanism: OAUTHBEARER`, or remove it";
        let message = format!("`{}` is there, and the mechanism has a password", key.name);
        report.problem(&section.spot(key), message, help);
    }
    // Read, so that no key in them counts as unknown.
    let _ = section.opt_section(&OIDC).map(|tokens| OidcSpec::of(&tokens));
    let _ = section.opt_section(&AWS_MSK_IAM).map(|tokens| MskIamSpec::of(&tokens));
    let username = section.text(&USERNAME).map(|text| text.value);
    if username.is_none() && !section.has(&USERNAME) {
        report.problem(&section.spot, "`username` is missing", "write `username: NAME`");
    }
    KafkaLogin::Password { username: username.unwrap_or_default(), password: password(section) }
}

/// Returns the source of tokens; what is missing is reported.
fn tokens(section: &Section<'_>) -> TokenSpec {
    let oidc = section.opt_section(&OIDC).map(|tokens| spec(&tokens));
    let iam = section.opt_section(&AWS_MSK_IAM).map(|tokens| MskIamSpec::of(&tokens));
    match (oidc, iam) {
        (Some(oidc), None) => TokenSpec::Oidc(Box::new(oidc)),
        (None, Some(iam)) => TokenSpec::AwsMskIam(Box::new(iam)),
        (None, None) => {
            let help = "write `oidc: { token_url: URL, client_id: ID, client_secret_file: PATH }`";
            section.cx.report.problem(&section.spot, "OAUTHBEARER has no source of tokens", help);
            TokenSpec::Oidc(Box::default())
        }
        (Some(_), Some(iam)) => {
            let message = "there are two sources of tokens";
            section.cx.report.problem(&section.spot(&AWS_MSK_IAM), message, "keep one of `oidc` and `aws_msk_iam`");
            TokenSpec::AwsMskIam(Box::new(iam))
        }
    }
}

fn password(section: &Section<'_>) -> Secret {
    let password = secrets::password(section, "KAFKA_PASSWORD");
    if !section.has(&secrets::PASSWORD) && !section.has(&secrets::PASSWORD_FILE) {
        let help = "write `password_file: PATH`, or `password: ${KAFKA_PASSWORD}`";
        section.cx.report.problem(&section.spot, "there is a login, but no password", help);
    }
    password.unwrap_or_else(|| Secret::Literal(SecretString::default()))
}

/// Returns the source of tokens under `section`.
fn spec(section: &Section<'_>) -> OidcSpec {
    let spec = OidcSpec::of(section);
    let report = &section.cx.report;
    let proofs = usize::from(spec.client_secret.0.is_some()) + usize::from(section.has(&oidc::TOKEN_FILE));
    if !section.has(&oidc::TOKEN_URL) {
        if !section.has(&oidc::TOKEN_FILE) {
            let help = "write `token_url: URL`, or `token_file: PATH`";
            report.problem(&section.spot, "there is neither `token_url` nor `token_file`", help);
        }
        let asked =
            [&oidc::CLIENT_ID, &oidc::SCOPE, &oidc::AUDIENCE, &oidc::CA_FILE, &CLIENT_SECRET, &CLIENT_SECRET_FILE];
        for key in asked.into_iter().filter(|key| section.has(key)) {
            let message = format!("`{}` is there, and no token is asked for without `token_url`", key.name);
            report.problem(&section.spot(key), message, "add `token_url`, or remove it");
        }
        return spec;
    }
    if spec.client_id.is_none() {
        report.problem(&section.spot, "`client_id` is missing", "write `client_id: ID`");
    }
    match proofs {
        0 => {
            let help = "write `client_secret_file: PATH`, or `token_file: PATH` with a signed proof";
            report.problem(&section.spot, "the client has no secret", help);
        }
        1 => {}
        _ => {
            let message = "there is both a client's secret and `token_file`, which would be its proof";
            report.problem(&section.spot(&oidc::TOKEN_FILE), message, "keep one of them");
        }
    }
    if let Some(url) = &spec.token_url {
        if !url.origin.tls {
            let message = "without `https://` the network sees the client's proof, and the tokens";
            report.warning(&section.spot(&oidc::TOKEN_URL), message, "write `https://`");
        }
        if spec.ca_file.is_some() && !url.origin.tls {
            let message = "there is `ca_file`, and the URL begins with `http://`";
            report.problem(&section.spot(&oidc::CA_FILE), message, "write `https://`, or remove it");
        }
    }
    spec
}

fn token_url(section: &Section<'_>, key: &Key) -> Option<TokenUrl> {
    let text = section.text(key)?;
    match split(&text.value) {
        Ok((origin, path)) if !path.contains('$') => Some(TokenUrl { origin, path }),
        Ok(_) => {
            section.cx.report.problem(&text.spot, "a token endpoint is no template", "write the URL itself");
            None
        }
        Err((message, help)) => {
            section.cx.report.problem(&text.spot, message, help);
            None
        }
    }
}

fn client_secret(section: &Section<'_>) -> ClientSecret {
    ClientSecret(secrets::either(section, &CLIENT_SECRET, &CLIENT_SECRET_FILE, "KAFKA_CLIENT_SECRET"))
}

fn ca_file(section: &Section<'_>, key: &Key) -> Option<PathBuf> {
    let (path, content) = section.file(key)?;
    if !String::from_utf8_lossy(&content).contains("-----BEGIN CERTIFICATE-----") {
        let message = "the file has no PEM section `CERTIFICATE`";
        section.cx.report.problem(&section.spot(key), message, "the file begins with `-----BEGIN CERTIFICATE-----`");
    }
    Some(path)
}

fn token_file(section: &Section<'_>, key: &Key) -> Option<PathBuf> {
    let (path, content) = section.file(key)?;
    if content.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii().is_empty() {
        section.cx.report.problem(&section.spot(key), "the first line of the file is empty", "it is the token");
    }
    Some(path)
}
