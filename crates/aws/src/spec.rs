//! What a configuration says of a login.

use std::path::PathBuf;

/// Who logs in, and where.
#[derive(Debug, Clone, Default)]
pub struct AwsLoginSpec {
    /// The region.
    pub region: String,
    /// A role to assume with the credentials.
    pub role_arn: Option<String>,
    /// The profile in the shared files, in place of what the environment says.
    pub profile: Option<String>,
    /// The shared file, in place of what the environment says.
    pub credentials_file: Option<PathBuf>,
}
