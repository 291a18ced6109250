//! `jobs`: its listeners, and what topics have.

use std::time::Duration;

use super::{GOOD, load};
use crate::load_str;
use delaybridge_model::Face;

fn loaded(jobs: &str) -> Result<delaybridge_model::Config, String> {
    let text = format!("redis: {{ url: 'redis://h' }}\njobs: {jobs}\n");
    load_str(&text, "c.yaml", &|_| None).map(|loaded| loaded.config).map_err(|errors| errors.to_string())
}

#[test]
fn the_job_queue_has_up_to_three_addresses() {
    let listeners = |jobs: &str| {
        let config = loaded(jobs).expect(jobs);
        config.api.into_iter().map(|spec| (spec.key, spec.listen.port(), spec.faces)).collect::<Vec<_>>()
    };
    assert_eq!(listeners("{}"), []);
    assert_eq!(listeners("{ listen: '127.0.0.1:7' }"), [("jobs.listen", 7, vec![Face::Own])]);
    let compatible = vec![Face::Own, Face::Ouqiang, Face::Lmstfy, Face::LmstfyAdmin];
    assert_eq!(listeners("{ listen: '127.0.0.1:7', compat: [ouqiang, lmstfy] }"), [("jobs.listen", 7, compatible)]);
    assert_eq!(
        listeners("{ lmstfy: { listen: '127.0.0.1:8', admin: '127.0.0.1:9' } }"),
        [("jobs.lmstfy.listen", 8, vec![Face::Lmstfy]), ("jobs.lmstfy.admin", 9, vec![Face::LmstfyAdmin])]
    );
    for (jobs, problem) in [
        ("{ compat: [lmstfy] }", "`compat` has no effect without `listen`"),
        ("{ lmstfy: { admin: '127.0.0.1:9' } }", "`listen` is missing"),
        ("{ listen: here }", "`here` is not an address with a port"),
        ("{ http: { listen: '127.0.0.1:7' } }", "unknown key"),
    ] {
        let found = loaded(jobs).expect_err(jobs);
        assert!(found.contains(problem), "{jobs}: {found}");
    }
}

#[test]
fn topics_have_what_the_default_says() {
    for jobs in [
        "{ topics: { mail: { tries: 5 }, default: { ttr: 120s, tries: 3 } } }",
        "{ topics: { mail: { tries: 5 } }, defaults: { ttr: 120s, tries: 3 } }",
    ] {
        let settings = loaded(jobs).expect(jobs).jobs.expect("a job queue");
        let of = |topic: &str| {
            let of = settings.of(&topic.parse().expect("a topic"));
            (of.ttr.as_secs(), of.tries)
        };
        assert_eq!((of("mail"), of("other"), settings.topics.len()), ((120, 5), (120, 3), 1), "{jobs}");
    }
    let twice = loaded("{ topics: { default: { tries: 3 } }, defaults: { tries: 4 } }").expect_err("both");
    assert!(twice.contains("`defaults` and `topics.default` mean the same"), "{twice}");
}

/// The file with these keys of `jobs` and this drain, where the variable of the chart has this value.
fn with_delay(keys: &str, drain: &str, variable: Option<&str>) -> Result<Duration, String> {
    let jobs = format!("shutdown_timeout: {drain}\njobs: {{ listen: '127.0.0.1:0'{keys} }}\n");
    let env = |name: &str| (name == "DELAYBRIDGE_JOBS_SHUTDOWN_DELAY").then(|| variable.map(Into::into)).flatten();
    let loaded = load_str(&(jobs + GOOD), "c.yaml", &env);
    loaded.map(|loaded| loaded.config.api[0].shutdown_delay).map_err(|errors| errors.to_string())
}

#[test]
fn the_time_after_the_stop_leaves_the_drain_half_of_its_own() {
    let seconds = |found: Result<Duration, String>| found.map(|delay| delay.as_secs_f64());
    assert_eq!(seconds(with_delay("", "25s", None)), Ok(0.0));
    assert_eq!(seconds(with_delay(", shutdown_delay: 10s", "25s", Some("5s"))), Ok(10.0));
    let refused = with_delay(", shutdown_delay: 13s", "25s", None).unwrap_err();
    assert!(refused.contains("jobs.shutdown_delay") && refused.contains("write at most 12500ms"), "{refused}");
    // The chart's default makes room by itself.
    for (drain, variable, expected) in [("25s", "5s", 5.0), ("4s", "5s", 2.0), ("25s", "", 0.0)] {
        assert_eq!(seconds(with_delay("", drain, Some(variable))), Ok(expected), "{drain} {variable}");
    }
    let wrong = with_delay("", "25s", Some("soon")).unwrap_err();
    assert!(wrong.contains("DELAYBRIDGE_JOBS_SHUTDOWN_DELAY"), "{wrong}");
    let nowhere = load(&("jobs: { shutdown_delay: 1s }\n".to_owned() + GOOD)).unwrap_err().to_string();
    assert!(nowhere.contains("`shutdown_delay` has no effect without `listen`"), "{nowhere}");
}
