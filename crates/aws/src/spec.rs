//! What a configuration says of a login: the keys that every section with a login has, and their values.

use std::path::PathBuf;

use crate::is_region;
use delaybridge_settings::Settings;
use delaybridge_settings::reader::Section;

/// A login: the region, and the place of the credentials.
#[derive(Debug, Clone, Default, Settings)]
#[settings(login, at = "sinks.NAME.sqs")]
pub struct AwsLoginSpec {
    /// Region, as `eu-west-1`.
    #[key(Kind::Text)]
    pub region: String,
    /// Role to assume with the credentials.
    #[key(Kind::Text)]
    pub role_arn: Option<String>,
    /// Profile of the shared files with the credentials. Default: they are looked for as AWS's tools do, in variables, the
    /// token of a pod, the shared files, and the metadata of container or instance.
    #[key(Kind::Text)]
    pub profile: Option<String>,
    /// Shared file of credentials, in place of `~/.aws/credentials`.
    #[key(Kind::File)]
    pub credentials_file: Option<PathBuf>,
}

impl AwsLoginSpec {
    /// Reads a section that must name its region, unless another key does.
    pub fn in_region(section: &Section<'_>, known: Option<&str>) -> AwsLoginSpec {
        let report = &section.cx.report;
        let mut login = AwsLoginSpec::of(section);
        let is_written = section.has(&login::REGION);
        if known.is_none() && !is_written {
            report.problem(&section.spot, "`region` is missing", "write `region: eu-west-1`");
        }
        if !login.region.is_empty() && !is_region(&login.region) {
            report.problem(&section.spot(&login::REGION), "it is no region of AWS", "write one, as `eu-west-1`");
        }
        if login.role_arn.as_deref().is_some_and(|arn| !arn.starts_with("arn:")) {
            let help = "write it as `arn:aws:iam::ACCOUNT:role/NAME`";
            report.problem(&section.spot(&login::ROLE_ARN), "it is no ARN", help);
        }
        if login.region.is_empty() {
            login.region = known.unwrap_or_default().to_owned();
        }
        login
    }
}
