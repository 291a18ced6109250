//! The variables of the environment that AWS's own tools read, as they are when a login is made.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

const NAMES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ENDPOINT_URL",
    "HOME",
];

/// The values of those that are set.
#[derive(Clone, Default)]
pub struct AwsVariables(HashMap<&'static str, String>);

impl AwsVariables {
    /// Returns the variables of this process.
    pub fn of_process() -> AwsVariables {
        let set = NAMES.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
        AwsVariables(set.collect())
    }

    /// Creates the variables with these values, for tests.
    pub fn of(values: &[(&'static str, &str)]) -> AwsVariables {
        AwsVariables(values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }

    /// Returns the value, if there is one that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        debug_assert!(NAMES.contains(&name), "{name} is not read");
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the path in a variable, or that of a file below `~/.aws`.
    pub(crate) fn file(&self, name: &str, below_aws: &str) -> PathBuf {
        let home = || PathBuf::from(self.get("HOME").unwrap_or("/")).join(".aws").join(below_aws);
        self.get(name).map_or_else(home, PathBuf::from)
    }
}

/// The names alone: some of the values are secrets.
impl fmt::Debug for AwsVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
