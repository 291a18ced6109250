//! Commands that have a name but no function yet: refused, never accepted and ignored.

use clap::Args;

use super::Failed;

/// Not available in this version.
#[derive(Debug, Args)]
pub struct Refused {
    /// Not looked at.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub rest: Vec<String>,
}

/// The refusal.
pub(super) fn refuse(name: &str) -> Result<u8, Failed> {
    Err(Failed::usage(format!(
        "{name}: not available in this version; `delaybridge --help` lists the commands that are"
    )))
}
