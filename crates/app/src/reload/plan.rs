//! The plan of a reload: a pure function of the running configuration and the file.
//!
//! A difference outside of queues and sinks needs a restart: then nothing is applied.

use std::collections::HashSet;
use std::sync::Arc;

use delaybridge_config::Loaded;
use delaybridge_model::{Config, Difference, Parts};
use delaybridge_settings::problem::Problem;

/// A configuration that can replace the running one, and the difference between them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: Arc<Config>,
    pub(super) parts: Parts,
    /// The queues that are added, changed and removed.
    pub(super) queues: Difference,
    /// The sinks that are added, changed and removed.
    pub(super) sinks: Difference,
    /// The warnings about the file.
    pub(super) warnings: Vec<Problem>,
}

impl Plan {
    /// Compares the loaded file with the running configuration. `file` is the name for problems. An error has the
    /// changed keys that need a restart.
    pub(super) fn new(running: &Config, parts: &Parts, loaded: Loaded, file: &str) -> Result<Plan, Vec<Problem>> {
        let Loaded { config, warnings, parts: new } = loaded;
        let fixed = parts.other_changes(&new).into_iter().map(|(path, position)| Problem {
            file: file.to_owned(),
            position,
            path: path.to_owned(),
            message: "the key differs from what runs, and a reload cannot change it".to_owned(),
            help: Some("restart the daemon, or take the change back; nothing of the file was applied".to_owned()),
        });
        let fixed: Vec<_> = fixed.collect();
        if !fixed.is_empty() {
            return Err(fixed);
        }
        let mut queues = parts.queue_changes(&new, &config);
        queues.added = in_order(queues.added, &config);
        queues.changed = in_order(queues.changed, &config);
        queues.removed = in_order(queues.removed, running);
        Ok(Plan { queues, sinks: parts.sink_changes(&new), config: Arc::new(config), parts: new, warnings })
    }
}

/// Sorts the queues of these names in the order of the configuration that has them.
fn in_order(names: Vec<Arc<str>>, config: &Config) -> Vec<Arc<str>> {
    let names: HashSet<_> = names.into_iter().collect();
    config.queues.iter().map(|spec| &spec.id).filter(|id| names.contains(*id)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_config::describe_json;

    const FILE: &str = "\
http: { listen: '127.0.0.1:9464' }
shutdown_timeout: 20s
redis: { url: 'redis://h' }
retry:
  slow: { max_attempts: 3 }
sinks:
  one: { redis: { list: 'done:${queue}' } }
  two: { redis: { url: 'redis://:secret@other', stream: s } }
queues:
  a: { source: { redisson: { name: a } }, to: [{ sink: one }] }
  b: { source: { redisson: { name: b } }, to: [{ sink: one }], retry: slow }
  c: { source: { redisson: { name: c } }, to: [{ sink: two }], lease: 40s }
";

    fn loaded(text: &str) -> Loaded {
        delaybridge_config::load_str(text, "c.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Checks what a file leads to after these replacements (from, to): added, changed and removed queues, the same of
    /// sinks; or the keys that need a restart.
    fn check(replace: &[(&str, &str)], expected: Result<[&str; 6], &[&str]>) {
        let before = loaded(FILE);
        let text = replace.iter().fold(FILE.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        let plan = Plan::new(&before.config, &before.parts, loaded(&text), "c.yaml");
        let got = plan.map(|plan| {
            let names = |of: &Difference| [&of.added, &of.changed, &of.removed].map(|names| names.join(" "));
            assert_eq!(plan.parts.queue_changes(&plan.parts, &plan.config).unchanged, plan.config.queues.len());
            assert_eq!(describe_json(&plan.config), describe_json(&loaded(&text).config));
            [names(&plan.queues), names(&plan.sinks)].concat()
        });
        match (got, expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{replace:?}"),
            (Err(problems), Err(expected)) => {
                let keys: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
                assert_eq!(keys, expected, "{replace:?}");
            }
            (got, expected) => panic!("{replace:?}: got {got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn only_what_differs_is_in_the_plan() {
        let nothing = ["", "", "", "", "", ""];
        check(&[], Ok(nothing));
        // A comment and an empty line change nothing.
        check(&[("  one:", "  # words\n  one:"), ("20s\n", "20s\n\n")], Ok(nothing));
        check(&[("lease: 40s", "lease: 50s")], Ok(["", "c", "", "", "", ""]));
        // A policy is a part of the queues that use it.
        check(&[("max_attempts: 3", "max_attempts: 4")], Ok(["", "b", "", "", "", ""]));
        // So is a sink.
        check(&[("stream: s", "stream: t")], Ok(["", "c", "", "", "two", ""]));
        check(&[("secret", "other")], Ok(["", "c", "", "", "two", ""]));
        check(&[("done:${queue}", "gone:${queue}")], Ok(["", "a b", "", "", "one", ""]));
        check(&[("  b: {", "  d: {"), ("name: b", "name: d")], Ok(["d", "", "b", "", "", ""]));
        // A sink that no queue uses counts as removed.
        check(&[("sink: two", "sink: one")], Ok(["", "c", "", "", "", "two"]));
        check(&[("  c: {", "  c.d: {"), ("  a: {", "  c: {")], Ok(["c.d", "c", "a", "", "", ""]));
    }

    /// Builds two thousand queues in the order of their numbers, which differs from the order of their names.
    fn two_thousand(prefix: &str, lease: &str) -> Loaded {
        let queue = |n: u32| {
            format!(
                "  {prefix}{n}: {{ source: {{ redisson: {{ name: n{n} }} }}, to: [{{ sink: one }}], lease: {lease} }}\n"
            )
        };
        let queues: String = (0..2_000).map(queue).collect();
        loaded(&format!(
            "redis: {{ url: 'redis://h' }}\nsinks: {{ one: {{ redis: {{ list: l }} }} }}\nqueues:\n{queues}"
        ))
    }

    #[test]
    fn many_queues_are_planned_in_the_order_of_their_files() {
        let before = two_thousand("q", "30s");
        let names = |prefix: &str| (0..2_000).map(|n| format!("{prefix}{n}").into()).collect::<Vec<Arc<str>>>();
        let plan = |new| Plan::new(&before.config, &before.parts, new, "c.yaml").unwrap().queues;
        assert_eq!(plan(two_thousand("q", "30s")).unchanged, 2_000);
        let changed = plan(two_thousand("q", "40s"));
        assert_eq!((changed.changed, changed.unchanged), (names("q"), 0));
        let renamed = plan(two_thousand("r", "30s"));
        assert_eq!((renamed.added, renamed.removed, renamed.unchanged), (names("r"), names("q"), 0));
    }

    #[test]
    fn keys_that_need_a_restart_are_named_and_nothing_else_is_applied() {
        check(&[("20s", "21s"), ("lease: 40s", "lease: 50s")], Err(&["shutdown_timeout"]));
        check(&[("127.0.0.1:9464", "127.0.0.1:9465"), ("redis://h", "redis://g")], Err(&["http.listen", "redis.url"]));
        check(
            &[("shutdown_timeout: 20s\n", "limits: { in_flight: 5 }\n")],
            Err(&["limits.in_flight", "shutdown_timeout"]),
        );
        check(
            &[("redis: { url: 'redis://h' }", "redis: { url: 'redis://h', command_timeout: 4s }")],
            Err(&["redis.command_timeout"]),
        );
    }

    #[test]
    fn a_file_with_other_contents_is_another_secret() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.yaml");
        let secret = directory.path().join("password");
        let text = FILE.replace("url: 'redis://:secret@other'", "url: 'redis://other', password_file: password");
        std::fs::write(&path, text).unwrap();
        let read = |password: &str| {
            std::fs::write(&secret, password).unwrap();
            delaybridge_config::load(&path, &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
        };
        let before = read("old\n");
        let same = read("old\n");
        let other = read("new\n");
        let plan = |loaded| Plan::new(&before.config, &before.parts, loaded, "c.yaml").unwrap();
        assert!(plan(same).queues.is_empty());
        let plan = plan(other);
        assert_eq!((plan.queues.changed, plan.sinks.changed), (vec!["c".into()], vec!["two".into()]));
    }
}
