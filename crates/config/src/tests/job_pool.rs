//! `source: { job_pool }`: the status of a job.

use crate::load_str;

/// What the configuration says of a pool: its settings, or its problems.
fn configured(pool: &str) -> Result<serde_json::Value, String> {
    let text = format!(
        "redis: {{ url: 'redis://h' }}\nsinks: {{ out: {{ stdout: }} }}\nqueues: {{ q: {{ source: {{ job_pool: {pool} }}, \
         to: [{{ sink: out }}] }} }}\n"
    );
    let loaded = load_str(&text, "c.yaml", &|_| None).map_err(|errors| errors.to_string())?;
    let settings = loaded.config.queues[0].source.settings(false);
    Ok(settings["job_pool"].clone())
}

#[test]
fn buckets_are_listed_or_counted() {
    let buckets = |pool: &str| configured(pool).map(|settings| settings["buckets"].to_string());
    assert_eq!(buckets("{ preset: ouqiang, buckets: 2 }").as_deref(), Ok(r#"["dq_bucket_1","dq_bucket_2"]"#));
    assert_eq!(buckets("{ preset: ice, name: a, buckets: 1 }").as_deref(), Ok(r#"["ice:bucket0:a"]"#));
    assert_eq!(buckets("{ preset: youzan, buckets: [x, y] }").as_deref(), Ok(r#"["x","y"]"#));
    let five = buckets("{ preset: youzan, buckets: 5, serializer: string }").expect("a pool");
    assert_eq!(five, r#"["bucket0","bucket1","bucket2","bucket3","bucket4"]"#);
    let format = |pool: &str| configured(pool).map(|settings| settings["record"]["format"].to_string());
    assert_eq!(format("{ preset: youzan, serializer: json }").as_deref(), Ok(r#""json""#));
    assert_eq!(format("{ preset: youzan, serializer: java }").as_deref(), Ok(r#""java""#));
    for (pool, problem) in [
        ("{ preset: asynq, buckets: 3 }", "the buckets have no numbers here"),
        ("{ preset: ouqiang, buckets: 0 }", "0 is out of range"),
        ("{ preset: ouqiang, buckets: three }", "`three` is not a whole number"),
        ("{ preset: ouqiang, buckets: [] }", "expected a list, found an empty list"),
        ("{ preset: ouqiang, serializer: json }", "`serializer` has no effect without `preset: youzan`"),
    ] {
        let found = configured(pool).expect_err(pool);
        assert!(found.contains(problem), "{pool}: {found}");
    }
}

#[test]
fn a_status_is_written_where_the_design_has_one_and_refused_where_it_cannot_be() {
    let status = |pool: &str| configured(pool).map(|settings| settings["status"].to_string());
    let states = r#"{"field":"status","reserved":"RESERVED","delay":"DELAY"}"#;
    for preset in ["youzan", "youzan_json", "ice"] {
        assert_eq!(status(&format!("{{ preset: {preset} }}")).as_deref(), Ok(states), "{preset}");
    }
    let asynq = r#"{"hash_field":"state","reserved":"active","delay":"scheduled"}"#;
    assert_eq!(status("{ preset: asynq }").as_deref(), Ok(asynq));
    assert_eq!(status("{ preset: yii2 }").as_deref(), Ok("null"));
    let own = r#"{"field":"state","reserved":"r","delay":"d"}"#;
    assert_eq!(status("{ preset: youzan_json, status: { field: state, reserved: r, delay: d } }").as_deref(), Ok(own));
    for (pool, problem) in [
        (
            "{ preset: yii2, status: { field: a, reserved: r, delay: d } }",
            "no status can be written into a record of `ttr`",
        ),
        ("{ preset: ice, status: { hash_field: a, reserved: r, delay: d } }", "the jobs have none"),
        ("{ preset: ice, status: { reserved: r, delay: d } }", "a status is in one place"),
        ("{ preset: ice, status: { field: a, hash_field: b, reserved: r, delay: d } }", "a status is in one place"),
        ("{ preset: ice, status: { field: a, reserved: r } }", "`delay` is missing"),
    ] {
        let found = configured(pool).expect_err(pool);
        assert!(found.contains(problem), "{pool}: {found}");
    }
}
