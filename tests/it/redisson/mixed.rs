//! Elements of two layouts in one queue, as during a rolling upgrade: no Redisson client can transfer them, but the
//! daemon delivers them all.

use serde_json::json;

use super::*;
use harness::{Daemon, JavaClient, Layout};

#[tokio::test]
async fn elements_of_an_old_and_a_new_version_in_one_queue_all_arrive() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let old = JavaClient::connect("3.20.1", &server.url()).await;
    let new = JavaClient::connect("4.7.0", &server.url()).await;
    let by_old = old.queue("q", "Kryo5Codec");
    let by_new = new.queue("q", "Kryo5Codec");
    for n in 0..20 {
        by_old.offer(&json!(format!("old {n}")), LATER).await;
        by_new.offer(&json!(format!("new {n}")), LATER).await;
    }
    assert_eq!((by_old.size().await, by_new.size().await), (40, 40));
    by_old.destroy().await;
    by_new.destroy().await;
    make_due(&mut redis, &queue).await;

    let offered = scheduled(&mut redis, &queue).await;
    let mut daemon = Daemon::start(&yaml(&server, "")).await;
    let deliveries = arrived(&mut redis, 40).await;
    assert_eq!(deliveries.len(), 40);
    for layout in [Layout::Old, Layout::New] {
        let members: Vec<_> = offered.iter().filter_map(|(member, _)| layout.unpack(member)).collect();
        assert_eq!(members.len(), 20, "{layout:?}");
        for (id, payload) in members {
            let delivery = deliveries.iter().find(|delivery| delivery.id == Some(hex::encode(id))).expect("its id");
            assert_eq!(delivery.payload, payload);
        }
    }
    assert_eq!(by_new.size().await, 0);
    assert_eq!(daemon.stop().await, 0);
}
