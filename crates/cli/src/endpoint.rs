//! A Redis that an argument names in place of the configuration.

use super::failed::Failed;
use delaybridge_link::RedisTarget;
use delaybridge_model::Config;

/// Returns the settings behind a URL, read by the rules of the configuration.
pub(super) fn endpoint(url: &str, password_file: Option<&str>, option: &str) -> Result<RedisTarget, Failed> {
    let text = |text: &str| serde_json::Value::from(text.replace("${", "$${")).to_string();
    let file = password_file.map(|file| format!(", password_file: {}", text(file))).unwrap_or_default();
    // The queue is never read; a configuration has one.
    let yaml = format!(
        "http: none\nredis: {{ url: {}{file} }}\nqueues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, mode: rescue }} }}\n",
        text(url)
    );
    match delaybridge_config::load_str(&yaml, option, &|_| None) {
        Ok(loaded) => only(loaded.config, option),
        Err(errors) => {
            let words = errors.problems.iter().map(|problem| {
                problem.help.iter().fold(problem.message.clone(), |words, help| format!("{words}; {help}"))
            });
            Err(Failed::usage(format!("read {option}: {}", words.collect::<Vec<_>>().join("; "))))
        }
    }
}

/// Returns the Redis of a configuration that names no more than one.
pub(super) fn only(config: Config, option: &str) -> Result<RedisTarget, Failed> {
    let several =
        || Failed::usage(format!("the configuration names several Redis: say with {option} which one is meant"));
    config.redis.only().cloned().ok_or_else(several)
}
