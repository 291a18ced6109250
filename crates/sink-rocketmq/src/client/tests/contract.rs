//! The contract of sinks. Clauses that break nothing share clusters; the others have one in turns. Each has a topic of its own.

use std::sync::Arc;
use std::time::Duration;

use brokers::RocketMq;
use tokio::sync::MutexGuard;

use super::cluster::Cluster;
use super::{keyed, topic};
use crate::RocketMqSink;
use delaybridge_sink::{Destination, HeaderRules, Sink, header_rules};
use delaybridge_testing::sink::{ReceivedMessage, Rig};

/// A topic of a cluster.
struct RocketRig {
    cluster: Cluster,
    topic: String,
    /// The turn of a test that breaks its cluster.
    _turn: Option<MutexGuard<'static, ()>>,
}

impl RocketRig {
    async fn on(cluster: Cluster) -> RocketRig {
        let topic = cluster.topic(4).await;
        RocketRig { cluster, topic, _turn: None }
    }

    async fn breaking() -> RocketRig {
        let (cluster, turn) = Cluster::to_break().await;
        RocketRig { _turn: Some(turn), ..RocketRig::on(cluster).await }
    }
}

impl Rig for RocketRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        Arc::new(RocketMqSink::new(Arc::new(self.cluster.spec()), timeout))
    }

    fn destination(&self) -> Destination {
        // One queue, which keeps the order.
        keyed(&self.topic, "A-7")
    }

    fn refusing(&self) -> Destination {
        topic("missing")
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        self.cluster.bodies(&self.topic).await
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::ROCKETMQ
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let messages = self.cluster.messages(&self.topic).await.into_iter();
        messages.map(|message| (message.body, message.properties)).collect()
    }

    async fn outage(&mut self) {
        self.cluster.does(|cluster| cluster.kill(0)).await;
    }

    async fn recover(&mut self) {
        self.cluster.does(|cluster| cluster.restart(0).unwrap()).await;
    }

    async fn stall(&mut self) {
        self.cluster.does(|cluster| cluster.freeze(0)).await;
    }

    async fn resume(&mut self) {
        self.cluster.does(|cluster: &RocketMq| cluster.thaw(0)).await;
    }
}

mod version_5 {
    use delaybridge_testing::sink_contract_tests;

    use super::*;

    sink_contract_tests! { RocketRig::on(Cluster::shared().await).await,
        confirms_what_has_arrived,
        a_refused_element_is_the_only_one_that_fails,
        a_thousand_at_once_arrive_once_each,
        bodies_arrive_byte_for_byte,
        a_closed_sink_takes_nothing_more,
        a_batch_has_an_answer_for_each_place,
        batches_arrive_in_the_order_in_which_they_began,
        stale_elements_of_a_batch_are_not_sent,
        an_element_for_another_kind_fails_alone,
        headers_pass_as_the_table_says,
    }

    sink_contract_tests! { RocketRig::breaking().await,
        an_outage_fails_deliveries_and_ends,
        a_silent_destination_is_ambiguous_in_time,
        a_dropped_delivery_hurts_no_other,
        an_outage_in_the_middle_of_a_batch_confirms_only_what_arrived,
        a_batch_at_a_silent_destination_is_answered_in_time,
        a_dropped_batch_hurts_no_other,
    }
}

mod version_4 {
    use delaybridge_testing::sink_contract_tests;

    use super::*;

    sink_contract_tests! { RocketRig::on(Cluster::shared_four().await).await,
        confirms_what_has_arrived,
        a_refused_element_is_the_only_one_that_fails,
        a_thousand_at_once_arrive_once_each,
        bodies_arrive_byte_for_byte,
        a_batch_has_an_answer_for_each_place,
        batches_arrive_in_the_order_in_which_they_began,
    }
}
