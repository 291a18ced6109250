//! The chain of credentials: where AWS's own tools look, in their order.
//!
//! ```text
//! a file or a profile that the configuration names
//! else  variables -> token of a pod -> shared files -> container -> instance
//! then  the role that the configuration names
//! ```
//!
//! The first place where something is decides: if that is refused, no other is tried, because its credentials would be somebody else's.

mod metadata;
mod profile;

#[cfg(test)]
mod tests;

use std::path::Path;

use crate::questions::refused;
use crate::spec::AwsLoginSpec;
use crate::sts::{AwsRole, StsClient};
use crate::{AwsCredentials, AwsVariables};
use delaybridge_core::message::Failure;
use profile::{ProfileEnd, ProfileFiles};

/// The places, and the role that is assumed with what they have.
#[derive(Debug)]
pub(crate) struct CredentialChain {
    variables: AwsVariables,
    files: ProfileFiles,
    role: Option<AwsRole>,
    sts: StsClient,
}

impl CredentialChain {
    pub(crate) fn new(spec: &AwsLoginSpec, variables: AwsVariables) -> CredentialChain {
        let role = spec.role_arn.clone().map(|arn| AwsRole { arn, session: None, external_id: None });
        let files = ProfileFiles::new(&variables, spec.credentials_file.as_deref(), spec.profile.as_deref());
        let sts = StsClient::new(&spec.region, &variables);
        CredentialChain { variables, files, role, sts }
    }

    /// Asks for new credentials. The failure is `TargetPermanent` where a person has to do something, `Transient` where
    /// the server that gives them is away.
    pub(crate) async fn ask(&self) -> Result<AwsCredentials, Failure> {
        let own = self.own().await?;
        match &self.role {
            Some(role) => self.sts.assume(&own, role).await,
            None => Ok(own),
        }
    }

    async fn own(&self) -> Result<AwsCredentials, Failure> {
        let variables = &self.variables;
        if !self.files.is_named {
            if variables.get("AWS_ACCESS_KEY_ID").is_some() || variables.get("AWS_SECRET_ACCESS_KEY").is_some() {
                return of_variables(variables);
            }
            if let (Some(file), Some(arn)) =
                (variables.get("AWS_WEB_IDENTITY_TOKEN_FILE"), variables.get("AWS_ROLE_ARN"))
            {
                let session = variables.get("AWS_ROLE_SESSION_NAME").map(str::to_owned);
                let role = AwsRole { arn: arn.to_owned(), session, external_id: None };
                return self.sts.with_token(Path::new(file), &role).await;
            }
        }
        if let Some(found) = self.of_files().await? {
            return Ok(found);
        }
        if metadata::container_url(variables).is_some() {
            return metadata::of_container(variables).await;
        }
        metadata::of_instance(variables).await?.ok_or_else(|| {
            refused(
                "look for credentials of AWS: there are none in variables, in the shared files, and no container or instance gives \
                 any: set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or give the pod a role",
            )
        })
    }

    async fn of_files(&self) -> Result<Option<AwsCredentials>, Failure> {
        let files = self.files.clone();
        // On a blocking thread: they may be on a slow file system.
        let path =
            tokio::task::spawn_blocking(move || files.path()).await.unwrap_or_else(|error| Err(error.to_string()));
        let path = path.map_err(|why| refused(&format!("look for credentials of AWS: {why}")))?;
        let Some(path) = path else { return Ok(None) };
        let mut found = match path.end {
            ProfileEnd::Key(key) => key,
            ProfileEnd::WebIdentity(file, role) => self.sts.with_token(&file, &role).await?,
            ProfileEnd::Environment => of_variables(&self.variables)?,
            ProfileEnd::Container => metadata::of_container(&self.variables).await?,
            ProfileEnd::Instance => metadata::of_instance(&self.variables).await?.ok_or_else(|| {
                refused("look for credentials of AWS: the profile asks for those of the instance, and there is none")
            })?,
        };
        for role in &path.roles {
            found = self.sts.assume(&found, role).await?;
        }
        Ok(Some(found))
    }
}

fn of_variables(variables: &AwsVariables) -> Result<AwsCredentials, Failure> {
    let value = |name| variables.get(name).unwrap_or_default();
    let token = variables.get("AWS_SESSION_TOKEN");
    AwsCredentials::new(value("AWS_ACCESS_KEY_ID"), value("AWS_SECRET_ACCESS_KEY"), token, None).map_err(|why| {
        refused(&format!("read `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` from the environment: {why}"))
    })
}
