//! How a command reaches Redis: as the configuration says, or with another address or login.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

use super::endpoint::endpoint;
use super::failed::Failed;
use delaybridge_config::{Loaded, Needs};
use delaybridge_model::Config;
use delaybridge_settings::problem::ConfigErrors;
use delaybridge_settings::{Secret, secrets};

/// The connection in place of the configuration's.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection to Redis")]
pub struct AccessArgs {
    /// The Redis, in place of that of the configuration
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub redis_url: Option<String>,
    /// The user to log in as, in place of the configuration's
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub username: Option<String>,
    /// A file with the password in its first line, in place of the configuration's
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub password_file: Option<PathBuf>,
}

impl AccessArgs {
    /// Returns the file with the password, as text.
    pub(super) fn password_file(&self) -> Option<String> {
        self.password_file.as_ref().map(|path| path.display().to_string())
    }

    /// Returns the secrets of the configuration that a command with this connection needs.
    fn needs(&self) -> Needs {
        if self.redis_url.is_some() || self.password_file.is_some() { Needs::Nothing } else { Needs::Redis }
    }

    /// Returns the configuration with this connection in it.
    pub(super) fn over(&self, mut config: Config) -> Result<Config, Failed> {
        if self.redis_url.is_none() && self.username.is_none() && self.password_file.is_none() {
            return Ok(config);
        }
        if let Some(url) = &self.redis_url {
            let target = endpoint(url, self.password_file().as_deref(), "--redis-url")?;
            if config.redis.only().is_none() {
                return Err(Failed::usage(
                    "the configuration names several Redis, so that --redis-url cannot replace them; give the login alone with \
                     --username and --password-file",
                ));
            }
            let target = target.with_login(self.username.as_deref(), None);
            config.redis = config.redis.map(|_| target.clone());
            return Ok(config);
        }
        let password = self.password_file.as_deref().map(readable).transpose()?;
        config.redis = config.redis.map(|target| target.with_login(self.username.as_deref(), password.as_ref()));
        Ok(config)
    }

    /// Reads a configuration for commands at its queues.
    pub(super) fn read(&self, path: &std::path::Path) -> Result<Loaded, Failed> {
        let usage = |errors: ConfigErrors| Failed::usage(errors.to_string());
        let loaded = delaybridge_config::load_for(path, &environment, self.needs()).map_err(usage)?;
        Ok(Loaded { config: self.over(loaded.config)?, ..loaded })
    }
}

/// Returns the password in a file that can be read: it is read again at every connect.
fn readable(path: &Path) -> Result<Secret, Failed> {
    secrets::read_file("--password-file", path).map_err(Failed::usage)?;
    Ok(Secret::File(path.to_owned()))
}

/// Returns a variable of the environment.
pub(super) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
