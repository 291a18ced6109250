//! What a configuration says of a login: the keys that every section with a login has, and their values.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::is_region;
use delaybridge_settings::keys::{Key, Kind, key};
use delaybridge_settings::reader::Section;

/// The region.
pub const REGION: Key = key("region", Kind::Text, "Region, as `eu-west-1`.");
/// The role.
pub const ROLE_ARN: Key = key("role_arn", Kind::Text, "Role to assume with the credentials.");
/// The profile.
pub const PROFILE: Key = key(
    "profile",
    Kind::Text,
    "Profile of the shared files with the credentials. Default: they are looked for as AWS's tools do, in variables, the token of a pod, the shared files, and the metadata of container or instance.",
);
/// The shared file.
pub const CREDENTIALS_FILE: Key =
    key("credentials_file", Kind::File, "Shared file of credentials, in place of `~/.aws/credentials`.");

/// A login: the region, and the place of the credentials.
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

impl AwsLoginSpec {
    /// Reads a section that must name its region.
    pub fn of(section: &Section<'_>) -> AwsLoginSpec {
        AwsLoginSpec::in_region(section, None)
    }

    /// Reads a section that need not name its region where another key does.
    pub fn in_region(section: &Section<'_>, known: Option<&str>) -> AwsLoginSpec {
        let report = &section.cx.report;
        let text = |key: &Key| section.text(key).map(|text| text.value);
        let written = text(&REGION);
        if written.is_none() && known.is_none() && !section.has(&REGION) {
            report.problem(&section.spot, "`region` is missing", "write `region: eu-west-1`");
        }
        if written.as_deref().is_some_and(|region| !is_region(region)) {
            report.problem(&section.spot(&REGION), "it is no region of AWS", "write one, as `eu-west-1`");
        }
        let role_arn = text(&ROLE_ARN);
        if role_arn.as_deref().is_some_and(|arn| !arn.starts_with("arn:")) {
            let help = "write it as `arn:aws:iam::ACCOUNT:role/NAME`";
            report.problem(&section.spot(&ROLE_ARN), "it is no ARN", help);
        }
        AwsLoginSpec {
            region: written.or_else(|| known.map(str::to_owned)).unwrap_or_default(),
            role_arn,
            profile: text(&PROFILE),
            credentials_file: section.file(&CREDENTIALS_FILE).map(|(path, _content)| path),
        }
    }
}

/// As it is written. To be flattened into the map where the keys are.
impl Serialize for AwsLoginSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let file = self.credentials_file.as_ref().map(|file| file.display().to_string());
        let all = [
            (REGION.name, Some(self.region.clone())),
            (ROLE_ARN.name, self.role_arn.clone()),
            (PROFILE.name, self.profile.clone()),
            (CREDENTIALS_FILE.name, file),
        ];
        serializer.collect_map(all.into_iter().filter_map(|(name, value)| Some((name, value?))))
    }
}
