//! The input against a real RabbitMQ: the contract.

use std::sync::Arc;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};

use super::{AmqpInputSpec, DeadLetterExchange};
use crate::client::tests::rabbit::{Admin, Node, Trouble};
use delaybridge_input::{Input, InputConnector};
use delaybridge_testing::input::InputRig;
use delaybridge_testing::input_contract_tests;

/// A queue with dead letters, on a node that no other test uses meanwhile.
struct RabbitInputRig {
    node: Node,
    queue: String,
    dead: String,
    trouble: Option<Trouble>,
}

impl RabbitInputRig {
    async fn new() -> RabbitInputRig {
        let node = Node::alone().await;
        let queue = node.name("delay-in");
        let dead = node.name("dead");
        let admin = node.admin().await;
        admin.queue(&dead, &[]).await;
        admin.queue(&queue, &[("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", &dead)]).await;
        RabbitInputRig { node, queue, dead, trouble: None }
    }

    async fn admin(&self) -> Admin {
        self.node.admin().await
    }
}

impl InputRig for RabbitInputRig {
    fn input(&self) -> Arc<dyn Input> {
        let spec = AmqpInputSpec {
            queue: self.queue.clone(),
            prefetch: 100,
            prefetch_bytes: 64 << 20,
            dead_letter_exchange: DeadLetterExchange::Argument,
            broker: Arc::new(self.node.spec()),
        };
        spec.input()
    }

    async fn publish(&mut self, id: &str, headers: &[(&str, &str)], body: &str) {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), AMQPValue::LongString((*value).into()));
        }
        let admin = self.admin().await;
        admin.channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let properties =
            BasicProperties::default().with_message_id(id.into()).with_delivery_mode(2).with_headers(table);
        let options = BasicPublishOptions::default();
        let sent =
            admin.channel.basic_publish("".into(), self.queue.as_str().into(), options, body.as_bytes(), properties);
        assert!(sent.await.unwrap().await.unwrap().is_ack());
    }

    async fn left(&mut self) -> usize {
        // The broker takes back what its consumer had a moment after that is gone.
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.admin().await.length(&self.queue).await as usize
    }

    async fn refused(&mut self) -> usize {
        self.admin().await.length(&self.dead).await as usize
    }

    async fn outage(&mut self) {
        self.trouble = Some(self.node.stop_app().await);
    }

    async fn recover(&mut self) {
        if let Some(trouble) = self.trouble.take() {
            trouble.over().await;
        }
    }
}

input_contract_tests!(RabbitInputRig::new().await);
