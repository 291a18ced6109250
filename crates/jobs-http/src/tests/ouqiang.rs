//! The five endpoints of ouqiang/delay-queue.

use serde_json::{Value, json};

use super::World;

async fn post(world: &World, path: &str, body: Value) -> Value {
    let answer = world.client().await.ask("POST", path, &[], body.to_string().as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_job_goes_the_way_of_its_clients() {
    let world = World::start().await;
    let job = json!({ "topic": " order ", "id": "15702398321", "delay": 1, "ttr": 3, "body": " {\"uid\":1} " });
    let added = json!({ "code": 0, "message": "添加成功", "data": null });
    assert_eq!(post(&world, "/push", job.clone()).await, added);
    // The same again is no mistake; another body under the id is, and the first one stays.
    assert_eq!(post(&world, "/push", job.clone()).await, added);
    let other = json!({ "topic": "order", "id": "15702398321", "delay": 1, "ttr": 3, "body": "other" });
    assert_eq!(post(&world, "/push", other).await["code"], 1);

    let seen = post(&world, "/get", json!({ "id": "15702398321" })).await;
    assert_eq!((&seen["data"]["topic"], &seen["data"]["body"]), (&json!("order"), &json!("{\"uid\":1}")));
    assert!(seen["data"]["delay"].as_i64().unwrap() > world.queue.now_ms() / 1000 - 2);
    let popped = post(&world, "/pop", json!({ "topic": "other,order" })).await;
    let expected = json!({ "code": 0, "message": "操作成功", "data": { "id": "15702398321", "body": "{\"uid\":1}" } });
    assert_eq!(popped, expected);
    let done = json!({ "code": 0, "message": "操作成功", "data": null });
    let put = world.client().await.ask("PUT", "/get", &[], br#"{"id":"15702398321"}"#).await;
    assert_eq!((put.status, &put.json()["data"]["topic"]), (200, &json!("order")), "the method does not matter");
    assert_eq!(post(&world, "/finish", json!({ "id": "15702398321" })).await, done);
    assert_eq!(post(&world, "/finish", json!({ "id": "15702398321" })).await, done);
    assert_eq!(post(&world, "/get", json!({ "id": "15702398321" })).await, done);
    assert_eq!(world.sizes("order").await, [0; 4]);
}

#[tokio::test]
async fn a_job_that_another_process_added_is_found() {
    let world = World::start().await;
    world.add("first", r#"{"id":"x","body":"x"}"#).await;
    world.add("order", r#"{"id":"mine","body":"x"}"#).await;
    assert_eq!(post(&world, "/delete", json!({ "id": "mine" })).await["code"], 0);
    assert_eq!((world.sizes("order").await, world.sizes("first").await[1]), ([0; 4], 1));
}

#[tokio::test]
async fn mistakes_have_a_code_and_a_message() {
    let world = World::start().await;
    let check = async |path: &str, body: Value, message: &str| {
        assert_eq!(post(&world, path, body).await, json!({ "code": 1, "message": message, "data": null }), "{path}");
    };
    let job = |id: &str, topic: &str, delay: i64, ttr: i64| json!({ "id": id, "topic": topic, "delay": delay, "ttr": ttr, "body": "" });
    check("/push", json!([]), "解析json失败").await;
    check("/push", job(" ", "t", 1, 1), "job id不能为空").await;
    check("/push", job("a", "", 1, 1), "topic不能为空").await;
    check("/push", job("a", "t", 0, 1), "delay 取值范围1 - (2^31 - 1)").await;
    check("/push", job("a", "t", 1, 86_401), "ttr 取值范围1 - 86400").await;
    check("/pop", json!({ "topic": "" }), "topic不能为空").await;
    check("/finish", json!({ "id": "" }), "job id不能为空").await;
    assert_eq!(world.sizes("t").await, [0; 4]);
}

/// An id that two topics have means neither: the wrong job would be gone, and its client told that it is done.
#[tokio::test]
async fn an_id_in_two_topics_is_refused_until_a_topic_is_named() {
    let world = World::start().await;
    for topic in ["mine", "theirs"] {
        world.add(topic, r#"{"id":"7","body":"x"}"#).await;
    }
    for path in ["/finish", "/delete", "/get"] {
        let refused = post(&world, path, json!({ "id": "7" })).await;
        let message = refused["message"].as_str().unwrap();
        assert!(
            refused["code"] == 1 && message.contains("mine and theirs") && message.contains("`topic`"),
            "{message}"
        );
    }
    assert_eq!((world.sizes("mine").await[1], world.sizes("theirs").await[1]), (1, 1));
    assert_eq!(post(&world, "/finish", json!({ "id": "7", "topic": "mine" })).await["code"], 0);
    assert_eq!((world.sizes("mine").await[1], world.sizes("theirs").await[1]), (0, 1));
    let job = json!({ "topic": "mine", "id": "7", "delay": 1, "ttr": 3, "body": "x" });
    let refused = post(&world, "/push", job.clone()).await;
    assert!(refused["code"] == 1 && refused["message"].as_str().unwrap().contains("theirs"), "{refused}");
    assert_eq!(world.sizes("mine").await, [0; 4]);
    assert_eq!(post(&world, "/finish", json!({ "id": "7" })).await["code"], 0, "one topic has it");
    assert_eq!(world.sizes("theirs").await, [0; 4]);
}
