//! The configuration as commands read it: whole, for the daemon, or only for the queues.

use std::time::Duration;

use delaybridge_config::Loaded;
use delaybridge_model::Config;
use delaybridge_ops::{Queue, Session};
use delaybridge_settings::problem::ConfigErrors;

use super::access::environment;
use super::failed::Failed;
use super::global::Global;
use super::person::actor;
use super::run;

/// The exit code where files that the configuration names are not there: EX_TEMPFAIL of sysexits.h, after which a service manager
/// starts the daemon again.
const ABSENT: u8 = 75;
/// Time for which the start waits for such files, and the time after which it looks again.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(500);

/// Reads the whole configuration: all of it has to be right, and every secret has to be there.
///
/// # Errors
///
/// Exit code 2, with everything that is wrong.
pub(crate) fn load(global: &Global) -> Result<Loaded, Failed> {
    let loaded = read(global).map_err(|errors| Failed::usage(errors.to_string()))?;
    Ok(Loaded { config: global.redis.over(loaded.config)?, ..loaded })
}

/// Reads the configuration for the daemon. Files that are not there are waited for, because a volume with secrets may be mounted late;
/// `stopped` ends the wait.
///
/// # Errors
///
/// Exit code 2, with everything that is wrong; 75 if only files are not there in the end.
pub fn load_for_run(global: &Global, mut stopped: impl FnMut() -> bool) -> Result<Loaded, Failed> {
    let mut waited = Duration::ZERO;
    loop {
        let errors = match read(global) {
            Ok(loaded) => return Ok(Loaded { config: global.redis.over(loaded.config)?, ..loaded }),
            Err(errors) => errors,
        };
        if !errors.may_pass() {
            return Err(Failed::usage(errors.to_string()));
        }
        if stopped() {
            return Err(Failed { code: 0, message: String::new() });
        }
        if waited >= PATIENCE {
            let message = format!("{errors}\nwaited {} s for what is not there", waited.as_secs());
            return Err(Failed { code: ABSENT, message });
        }
        if waited.is_zero() {
            run::log_absent(&errors.problems);
        }
        std::thread::sleep(AGAIN);
        waited += AGAIN;
    }
}

/// Reads the configuration.
///
/// # Errors
///
/// Everything that is wrong.
pub fn read(global: &Global) -> Result<Loaded, ConfigErrors> {
    delaybridge_config::load_with_clients(&global.config, &environment)
}

/// Reads the configuration for a command at its queues: it needs no secret but those that lead to Redis.
pub(crate) fn load_queues(global: &Global) -> Result<Config, Failed> {
    Ok(global.redis.read(&global.config)?.config)
}

/// Reads the configuration, finds the queue and connects.
pub(crate) async fn on_queue(global: &Global, id: &str) -> Result<(Session, Queue), Failed> {
    Ok(Session::on_queue(load_queues(global)?, id, &actor()).await?)
}
