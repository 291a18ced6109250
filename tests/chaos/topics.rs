//! The topics of a Kafka with two brokers, and what goes wrong with them.
//!
//! Daemons log in and have rights that can be taken away. The run itself comes over the listener without a login, and may do everything.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use brokers::kafka::{NewTopic, Operation, Resource};
use brokers::{Kafka, KafkaOptions};
use tokio::time::{Instant, sleep, sleep_until};

use crate::disk::Disk;
use crate::kafka::read_topic;
use crate::offers::QUEUES;
use crate::oracle::Delivery;
use crate::plan::Ailment;
use crate::target::{blocking, place};

/// The first is the controller as well, the second only a broker.
const NODES: [usize; 2] = [1, 2];
/// The one that is no controller.
const OTHER: usize = 2;
/// Who the daemons are.
const USER: &str = "alice";
/// `max.message.bytes` of the topics: larger than what the sink sends.
const LARGEST: &str = "5000000";
/// Partitions of a topic: one on each broker.
const PARTITIONS: i32 = 2;
/// Copies of each queue's partitions. Of two topics, half of the partitions are away with a broker; of the third, the other broker leads
/// them then.
const REPLICAS: [i16; QUEUES.len()] = [1, 1, 2];
/// The queue whose topic has two.
const COPIED: usize = 2;
/// How long the brokers may take until they are whole again.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much longer than planned a disk may be full until its broker has ended.
const ENDS: Duration = Duration::from_secs(10);
/// After so long the controller misses a broker, and a little more.
const MISSED: Duration = Duration::from_secs(2);
/// Pause between two looks at them.
const LOOK: Duration = Duration::from_millis(100);
/// How often no new record must be seen before a topic is deleted.
const LOOKS: usize = 3;

/// The brokers, and what was in topics that were deleted.
pub struct Topics {
    kafka: Kafka,
    /// Of the second broker, if it can be full.
    disk: Option<Disk>,
    kept: Mutex<[Vec<Delivery>; QUEUES.len()]>,
}

impl Topics {
    /// Starts the brokers, and makes the topics.
    pub async fn start(disk: Option<Disk>) -> Arc<Topics> {
        let topics = blocking(|| {
            let volume = disk.as_ref().map(|disk| disk.volume(OTHER));
            let options = KafkaOptions { nodes: NODES.len(), sasl: true, acl: true, volume, ..KafkaOptions::default() };
            let topics = Topics { kafka: Kafka::start_with(options)?, disk, kept: Mutex::default() };
            topics.allow()?;
            (0..QUEUES.len()).try_for_each(|queue| topics.create(queue))?;
            Ok(topics)
        });
        Arc::new(topics.await)
    }

    /// The keys of the sink under `kafka` that name the brokers and the user.
    pub fn login(&self) -> String {
        format!(
            "brokers: ['{}'], sasl: {{ mechanism: SCRAM-SHA-256, username: {USER}, password: {} }}",
            self.kafka.bootstrap_sasl(),
            Kafka::password(USER)
        )
    }

    /// The destination of a queue. One queue has keys, which choose the partition; of the others the daemon chooses it.
    pub fn route(queue: &str) -> String {
        let key = if queue == QUEUES[1] { ", key: '${payload.k}'" } else { "" };
        format!("topic: {}{key}", place(queue))
    }

    /// What has arrived from this queue, also what was in a topic that was deleted.
    pub async fn deliveries(&self, queue: usize) -> Vec<Delivery> {
        let here = self.read(queue).await;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut kept[queue]).into_iter().chain(here).collect()
    }

    async fn read(&self, queue: usize) -> Vec<Delivery> {
        let topic = place(QUEUES[queue]);
        read_topic(&self.kafka.bootstrap(), &topic).await.unwrap_or_else(|e| panic!("read {topic}: {e}"))
    }

    /// Makes something wrong with the brokers, and right again; how often it struck.
    pub async fn suffer(self: &Arc<Self>, ailment: Ailment, lasts: Duration) -> u64 {
        match ailment {
            Ailment::Freeze => self.freeze(&NODES, lasts).await,
            Ailment::Kill => self.kill(&NODES, lasts).await,
            Ailment::Half { node, killed: false } => self.freeze(&[node], lasts).await,
            Ailment::Half { node, killed: true } => self.kill(&[node], lasts).await,
            Ailment::Rights => {
                self.work(Topics::deny).await;
                let struck = self.takes_nothing(lasts).await;
                self.work(Topics::allow).await;
                return struck;
            }
            Ailment::Gone => self.lose_topics(lasts).await,
            Ailment::Refuse => self.refuse(lasts).await,
            Ailment::Disk => return self.fill(lasts).await,
            Ailment::Full | Ailment::Disconnect => panic!("a fault of RabbitMQ, for Kafka"),
        }
        1
    }

    /// The disk of the second broker is full; whether it ended by itself, as a broker does that has no other disk. It is started when
    /// there is room.
    async fn fill(self: &Arc<Self>, lasts: Duration) -> u64 {
        let disk = self.disk.as_ref().expect("a disk that can be full");
        let (began, until) = (Instant::now(), Instant::now() + lasts + ENDS);
        disk.fill();
        // The next record that needs more room ends it.
        while Instant::now() < until && self.kafka.answers(OTHER) {
            sleep(LOOK).await;
        }
        let ended = !self.kafka.answers(OTHER);
        sleep_until(began + lasts).await;
        disk.clear();
        self.work(|topics| topics.kafka.restart(OTHER)).await;
        self.until("all are back", Topics::is_whole).await;
        u64::from(ended)
    }

    /// The topic with two copies asks for both, and there is one: the broker that is left refuses all records.
    async fn refuse(self: &Arc<Self>, lasts: Duration) {
        let topic = || place(QUEUES[COPIED]);
        self.work(move |topics| topics.kafka.alter_topic(&topic(), &[("min.insync.replicas", "2")])).await;
        // On a busy machine a broker is missed that only had no turn.
        self.until("all are there", Topics::is_whole).await;
        self.kafka.kill(OTHER);
        self.until("the other broker is missed", move |topics| {
            let partitions = topics.kafka.partitions(&topic())?.unwrap_or_default();
            Ok(partitions.iter().all(|partition| partition.in_sync.len() == 1))
        })
        .await;
        sleep(lasts).await;
        self.work(|topics| topics.kafka.restart(OTHER)).await;
        self.until("all are back", Topics::is_whole).await;
        self.work(move |topics| topics.kafka.alter_topic(&topic(), &[("min.insync.replicas", "1")])).await;
    }

    /// For so long; whether no topic got a record.
    async fn takes_nothing(self: &Arc<Self>, lasts: Duration) -> u64 {
        const ALL: [usize; QUEUES.len()] = [0, 1, 2];
        // What was let in before is in the log by then.
        sleep(LOOK).await;
        let before = self.ends(&ALL).await;
        sleep(lasts).await;
        u64::from(self.ends(&ALL).await == before)
    }

    /// How many records each partition has got.
    async fn ends(self: &Arc<Self>, queues: &[usize]) -> Vec<i64> {
        let topics: Vec<String> = queues.iter().map(|queue| place(QUEUES[*queue])).collect();
        self.work(move |all| {
            topics.iter().try_fold(Vec::new(), |ends, topic| Ok([ends, all.kafka.end_offsets(topic)?].concat()))
        })
        .await
    }

    async fn freeze(self: &Arc<Self>, nodes: &[usize], lasts: Duration) {
        nodes.iter().for_each(|node| self.kafka.freeze(*node));
        sleep(lasts).await;
        nodes.iter().for_each(|node| self.kafka.thaw(*node));
        // When the controller goes on, it finds that brokers were missed; before, all seems well.
        sleep(MISSED).await;
        self.until("all are back", Topics::is_whole).await;
    }

    async fn kill(self: &Arc<Self>, nodes: &[usize], lasts: Duration) {
        nodes.iter().for_each(|node| self.kafka.kill(*node));
        sleep(lasts).await;
        for node in nodes.iter().copied() {
            self.work(move |topics| topics.kafka.restart(node)).await;
        }
        self.until("all are back", Topics::is_whole).await;
    }

    /// The topics with one copy are deleted, and made again. Nothing can come any more when they are read for the last time: first the
    /// daemons may not write. They may again while there are no topics.
    async fn lose_topics(self: &Arc<Self>, lasts: Duration) {
        self.work(Topics::deny).await;
        let lost = || (0..QUEUES.len()).filter(|queue| REPLICAS[*queue] == 1);
        for queue in lost() {
            let last = self.read_all(queue).await;
            self.kept.lock().unwrap_or_else(PoisonError::into_inner)[queue].extend(last);
            self.work(move |topics| topics.kafka.delete_topic(&place(QUEUES[queue]))).await;
        }
        self.work(Topics::allow).await;
        sleep(lasts).await;
        for queue in lost() {
            self.work(move |topics| topics.create(queue)).await;
        }
    }

    /// All records of a topic that gets no more. With one copy, a record can be read as soon as it is in the log.
    async fn read_all(self: &Arc<Self>, queue: usize) -> Vec<Delivery> {
        let (mut before, mut quiet) = (self.ends(&[queue]).await, 0);
        let until = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < until, "records come into a topic that none may write to, or cannot be read");
            sleep(LOOK).await;
            let now = self.ends(&[queue]).await;
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
            if quiet < LOOKS {
                continue;
            }
            let all = self.read(queue).await;
            if i64::try_from(all.len()) == Ok(before.iter().sum()) {
                return all;
            }
        }
    }

    fn create(&self, queue: usize) -> brokers::Result<()> {
        // The broker's time of arrival, and not the producer's.
        let configs = &[("max.message.bytes", LARGEST), ("message.timestamp.type", "LogAppendTime")];
        let name = &place(QUEUES[queue]);
        self.kafka.create_topics(&[NewTopic { name, partitions: PARTITIONS, replication: REPLICAS[queue], configs }])
    }

    fn allow(&self) -> brokers::Result<()> {
        self.kafka.add_acl(USER, Resource::Topic("*"), &[Operation::Write, Operation::Describe])
    }

    fn deny(&self) -> brokers::Result<()> {
        self.kafka.remove_acl(USER, Resource::Topic("*"), &[Operation::Write])
    }

    /// Waits for something; `what` names it if it does not come.
    async fn until(
        self: &Arc<Self>,
        what: &str,
        holds: impl Fn(&Topics) -> brokers::Result<bool> + Clone + Send + 'static,
    ) {
        let until = Instant::now() + PATIENCE;
        loop {
            let holds = holds.clone();
            // A broker that begins answers with errors.
            if self.work(move |topics| Ok(holds(topics).unwrap_or(false))).await {
                return;
            }
            if Instant::now() > until {
                let seen = self.work(|topics| Ok(QUEUES.map(|queue| topics.kafka.partitions(&place(queue))))).await;
                panic!("wait until {what}: not after {PATIENCE:?}: {seen:?}");
            }
            sleep(LOOK).await;
        }
    }

    /// Every partition has a leader and all of its copies.
    fn is_whole(&self) -> brokers::Result<bool> {
        for (queue, copies) in QUEUES.iter().zip(REPLICAS) {
            let Some(partitions) = self.kafka.partitions(&place(queue))? else { return Ok(false) };
            let whole =
                |copy: &brokers::kafka::Partition| copy.leader > 0 && i16::try_from(copy.in_sync.len()) == Ok(copies);
            if !partitions.iter().all(whole) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Topics) -> brokers::Result<T> + Send + 'static,
    ) -> T {
        let topics = Arc::clone(self);
        blocking(move || work(&topics)).await
    }
}
