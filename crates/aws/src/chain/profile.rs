//! Profiles of the shared files, `~/.aws/credentials` and `~/.aws/config`, and how one leads to credentials. Pure, but for the reading.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::sts::AwsRole;
use crate::{AwsCredentials, AwsVariables};
use delaybridge_settings::files;

/// Roles that lead from one to the next, at most.
const LONGEST: usize = 5;

/// The files, and the profile that is asked for.
#[derive(Debug, Clone)]
pub(super) struct ProfileFiles {
    credentials: PathBuf,
    config: PathBuf,
    profile: String,
    /// A person named the file or the profile, so that nothing else will do.
    pub(super) is_named: bool,
}

/// The way from a profile to credentials: those that it ends with, and the roles to assume with them, one after the other.
#[derive(Debug)]
pub(super) struct ProfilePath {
    pub(super) end: ProfileEnd,
    pub(super) roles: Vec<AwsRole>,
}

/// The credentials that a profile ends with.
#[derive(Debug)]
pub(super) enum ProfileEnd {
    /// The key of the profile itself.
    Key(AwsCredentials),
    /// A token of a file, with the role that it is for.
    WebIdentity(PathBuf, AwsRole),
    /// The credentials in the variables.
    Environment,
    Container,
    Instance,
}

type Profiles = HashMap<String, HashMap<String, String>>;

impl ProfileFiles {
    /// Finds the files and the profile of the variables, unless others are named.
    pub(super) fn new(variables: &AwsVariables, file: Option<&Path>, profile: Option<&str>) -> ProfileFiles {
        let credentials = || variables.file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let named = profile.or_else(|| variables.get("AWS_PROFILE"));
        ProfileFiles {
            credentials: file.map_or_else(credentials, Path::to_owned),
            config: variables.file("AWS_CONFIG_FILE", "config"),
            profile: named.unwrap_or("default").to_owned(),
            is_named: file.is_some() || named.is_some(),
        }
    }

    /// Finds the way to credentials; `None` if the profile is not there, or has none. An error never has its values.
    pub(super) fn path(&self) -> Result<Option<ProfilePath>, String> {
        let mut profiles = parse(&read(&self.config)?, true);
        for (name, values) in parse(&read(&self.credentials)?, false) {
            profiles.entry(name).or_default().extend(values);
        }
        let found = resolve(&profiles, &self.profile).map_err(|(profile, why)| {
            let one = self.credentials.display();
            let other = self.config.display();
            format!("profile `{profile}` of {one} and {other}: {why}")
        })?;
        match found {
            None if self.is_named => Err(format!(
                "there is no profile `{}` with credentials in {}",
                self.profile,
                self.credentials.display()
            )),
            found => Ok(found),
        }
    }
}

/// Reads the text of a file; empty where there is none.
fn read(path: &Path) -> Result<String, String> {
    match files::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8 text", path.display())),
        Err(error) if error.absent => Ok(String::new()),
        Err(error) => Err(format!("read {}: {error}", path.display())),
    }
}

/// Returns the profiles in a file. In `config` the sections are named `profile NAME`, except `default`.
fn parse(text: &str, is_config: bool) -> Profiles {
    let mut profiles = Profiles::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            let name = name.trim();
            current = match name.strip_prefix("profile ") {
                Some(name) if is_config => Some(name.trim().to_owned()),
                None if !is_config || name == "default" => Some(name.to_owned()),
                _ => None,
            };
            continue;
        }
        // Settings of `s3` and the like are indented below their key.
        if let (Some(profile), Some((name, value)), false) = (&current, line.split_once('='), is_nested) {
            let value = value.split(" #").next().unwrap_or_default().trim();
            profiles.entry(profile.clone()).or_default().insert(name.trim().to_ascii_lowercase(), value.to_owned());
        }
    }
    profiles
}

fn resolve(profiles: &Profiles, first: &str) -> Result<Option<ProfilePath>, (String, String)> {
    let mut name = first.to_owned();
    let mut roles = Vec::new();
    loop {
        let wrong = |why: &str| Err((name.clone(), why.to_owned()));
        let Some(profile) = profiles.get(&name) else {
            return if roles.is_empty() { Ok(None) } else { wrong("it is named as `source_profile`, and not there") };
        };
        let value = |key: &str| profile.get(key).map(String::as_str).filter(|value| !value.is_empty());
        let key = || match (value("aws_access_key_id"), value("aws_secret_access_key")) {
            (Some(id), Some(secret)) => AwsCredentials::new(id, secret, value("aws_session_token"), None).map(Some),
            (None, None) => Ok(None),
            _ => Err("of `aws_access_key_id` and `aws_secret_access_key` one is missing"),
        };
        let Some(arn) = value("role_arn") else {
            let found = key().map_err(|why| (name.clone(), why.to_owned()))?;
            return match (found, roles.is_empty()) {
                (Some(key), _) => Ok(Some(path(ProfileEnd::Key(key), roles))),
                (None, _) if value("credential_process").is_some() => {
                    wrong("`credential_process` is not available here")
                }
                (None, _) if value("sso_session").is_some() || value("sso_start_url").is_some() => {
                    wrong("a login by a browser (SSO) is not available here")
                }
                (None, true) => Ok(None),
                (None, false) => wrong("it is named as `source_profile`, and has no key"),
            };
        };
        let text = |key: &str| value(key).map(str::to_owned);
        let role =
            AwsRole { arn: arn.to_owned(), session: text("role_session_name"), external_id: text("external_id") };
        if let Some(file) = value("web_identity_token_file") {
            return Ok(Some(path(ProfileEnd::WebIdentity(file.into(), role), roles)));
        }
        roles.push(role);
        if roles.len() > LONGEST {
            return wrong("its `source_profile` leads on and on");
        }
        let end = match (value("source_profile"), value("credential_source")) {
            (Some(source), None) if source == name => match key().map_err(|why| (name.clone(), why.to_owned()))? {
                Some(key) => ProfileEnd::Key(key),
                None => return wrong("it is its own `source_profile`, and has no key"),
            },
            (Some(source), None) => {
                name = source.to_owned();
                continue;
            }
            (None, Some("Environment")) => ProfileEnd::Environment,
            (None, Some("EcsContainer")) => ProfileEnd::Container,
            (None, Some("Ec2InstanceMetadata")) => ProfileEnd::Instance,
            _ => {
                return wrong(
                    "a role needs one of `source_profile`, `credential_source` and `web_identity_token_file`",
                );
            }
        };
        return Ok(Some(path(end, roles)));
    }
}

/// Creates the path of assumed roles, from the last one that was found to the first.
fn path(end: ProfileEnd, mut roles: Vec<AwsRole>) -> ProfilePath {
    roles.reverse();
    ProfilePath { end, roles }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "# comment\n[default]\nregion = eu-west-1\ns3 =\n  role_arn = nested\n\
        [profile deploy]\nrole_arn = arn:d\nsource_profile = base\nexternal_id = x\n\
        [profile base]\nrole_arn=arn:b # the base\nsource_profile=keys\nrole_session_name = me\n\
        [profile box]\nrole_arn = arn:x\ncredential_source = Ec2InstanceMetadata\n\
        [profile pod]\nrole_arn = arn:p\nweb_identity_token_file = /token\n\
        [profile self]\nrole_arn = arn:s\nsource_profile = self\n\
        [profile round]\nrole_arn = arn:r\nsource_profile = trip\n[profile trip]\nrole_arn = arn:t\nsource_profile = round\n\
        [profile gone]\nrole_arn = arn:g\nsource_profile = nobody\n\
        [profile sso]\nsso_session = corp\n[profile process]\ncredential_process = /bin/x\n[deploy]\nrole_arn = wrong\n";
    const CREDENTIALS: &str = "[keys]\naws_access_key_id = AKIAK\naws_secret_access_key = geheim\n\
        [self]\naws_access_key_id = AKIAS\naws_secret_access_key = geheim\naws_session_token = t\n\
        [half]\naws_access_key_id = AKIAH\n[profile odd]\naws_access_key_id = a\naws_secret_access_key = s\n";

    fn found(profile: &str) -> Result<String, String> {
        let mut profiles = parse(CONFIG, true);
        for (name, values) in parse(CREDENTIALS, false) {
            profiles.entry(name).or_default().extend(values);
        }
        let found = resolve(&profiles, profile).map_err(|(name, why)| format!("{name}: {why}"))?;
        let Some(ProfilePath { end, roles }) = found else { return Ok("none".to_owned()) };
        let end = match end {
            ProfileEnd::Key(key) => format!("{} {:?}", key.key_id(), key.token()),
            ProfileEnd::WebIdentity(file, role) => format!("{} {}", file.display(), role.arn),
            end => format!("{end:?}"),
        };
        let roles = roles.iter().map(|role| format!(" > {} {:?} {:?}", role.arn, role.session, role.external_id));
        Ok(end + &roles.collect::<String>())
    }

    #[test]
    fn a_profile_leads_to_credentials_over_roles() {
        let check = |profile: &str, expected: &str| assert_eq!(found(profile).as_deref(), Ok(expected), "{profile}");
        check("keys", "AKIAK None");
        check("deploy", "AKIAK None > arn:b Some(\"me\") None > arn:d None Some(\"x\")");
        check("box", "Instance > arn:x None None");
        check("pod", "/token arn:p");
        check("self", "AKIAS Some(\"t\") > arn:s None None");
        check("default", "none");
        check("nobody", "none");
        check("odd", "none");
    }

    #[test]
    fn what_leads_nowhere_is_said_without_its_values() {
        let check = |profile: &str, expected: &str| {
            let why = found(profile).unwrap_err();
            assert!(why.contains(expected) && !why.contains("geheim"), "{profile}: {why}");
        };
        check("half", "one is missing");
        check("round", "leads on and on");
        check("gone", "nobody: it is named as `source_profile`, and not there");
        check("sso", "SSO");
        check("process", "credential_process");
    }

    #[test]
    fn a_named_profile_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let variables = AwsVariables::of(&[("HOME", folder.path().to_str().unwrap())]);
        let of = |file: Option<&Path>, profile| ProfileFiles::new(&variables, file, profile).path();
        assert!(of(None, None).unwrap().is_none(), "no file, nothing named");
        assert!(of(None, Some("x")).unwrap_err().contains("no profile `x`"));
        assert!(of(Some(&file), None).unwrap_err().contains("no profile `default`"));
        std::fs::write(&file, "[default]\naws_access_key_id=a\naws_secret_access_key=s\n").unwrap();
        assert!(of(Some(&file), None).unwrap().is_some());
    }
}
