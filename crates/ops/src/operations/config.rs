//! `GET /v1/config`: the settings that a daemon runs with.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::operation::{Operation, Route, Scene, route};

/// The settings that run.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowSettings {}

impl Operation for ShowSettings {
    type Answer = Map<String, Value>;

    const NAME: &'static str = "config";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/config" config ToSee,
        "The configuration that runs, without secrets" => "Defaults are filled in")];

    async fn run(&self, scene: &Scene) -> Result<Map<String, Value>, Error> {
        let unknown = || Error::invalid("read the settings that run: they are known to daemons alone");
        scene.live().map(|live| live.configuration()).ok_or_else(unknown)
    }
}
