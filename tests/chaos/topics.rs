//! The topics of a Kafka with two brokers, and their problems.
//!
//! Daemons log in, with rights that can be removed. The run itself uses the listener without a login, and may do
//! everything.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use brokers::kafka::{NewTopic, Operation, Resource};
use brokers::{Kafka, KafkaOptions};
use tokio::time::{Instant, sleep, sleep_until};

use crate::disk::Disk;
use crate::offers::QUEUES;
use crate::target::{blocking, place};
use crate::what::Ailment;
use harness::kafka::read_topic;
use harness::oracle::Delivery;

/// The nodes: the first is also the controller, the second only a broker.
const NODES: [usize; 2] = [1, 2];
/// The node that is no controller.
const OTHER: usize = 2;
const USER: &str = "alice";
/// `max.message.bytes` of the topics: more than the sink's limit.
const LARGEST: &str = "5000000";
/// Number of partitions of a topic: one on each broker.
const PARTITIONS: i32 = 2;
/// Number of replicas of each queue's partitions. Without one broker, half of the partitions of two topics are offline;
/// those of the third are led by the other broker.
const REPLICAS: [i16; QUEUES.len()] = [1, 1, 2];
/// The queue whose topic has two replicas.
const COPIED: usize = 2;
/// Time-out for the brokers to be complete again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum additional time for which a disk is full, until its broker has exited.
const ENDS: Duration = Duration::from_secs(10);
/// Time after which the controller notices a missing broker, with a margin.
const MISSED: Duration = Duration::from_secs(2);
/// The poll interval.
const LOOK: Duration = Duration::from_millis(100);
/// Number of observations without a new record before a topic is deleted.
const LOOKS: usize = 3;

/// The brokers, and the records of deleted topics.
pub struct Topics {
    kafka: Kafka,
    /// The disk of the second broker, if it can be full.
    disk: Option<Disk>,
    kept: Mutex<[Vec<Delivery>; QUEUES.len()]>,
}

impl Topics {
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

    /// The destination of a queue. One queue has keys, which determine the partition; for the others the daemon chooses
    /// it.
    pub fn route(queue: &str) -> String {
        let key = if queue == QUEUES[1] { ", key: '${payload.k}'" } else { "" };
        format!("topic: {}{key}", place(queue))
    }

    /// The arrivals from this queue, including the records of deleted topics.
    pub async fn deliveries(&self, queue: usize) -> Vec<Delivery> {
        let here = self.read(queue).await;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut kept[queue]).into_iter().chain(here).collect()
    }

    async fn read(&self, queue: usize) -> Vec<Delivery> {
        let topic = place(QUEUES[queue]);
        read_topic(&self.kafka.bootstrap(), &topic).await.unwrap_or_else(|e| panic!("read {topic}: {e}"))
    }

    /// Causes a problem of the brokers, and undoes it; returns how often it struck.
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
            Ailment::Full | Ailment::Disconnect | Ailment::NameServer => panic!("a fault of another broker, for Kafka"),
        }
        1
    }

    /// Fills the disk of the second broker; returns whether the broker exited, as it does without another disk. It is
    /// started when there is space again.
    async fn fill(self: &Arc<Self>, lasts: Duration) -> u64 {
        let disk = self.disk.as_ref().expect("a disk that can be full");
        let began = Instant::now();
        let until = Instant::now() + lasts + ENDS;
        disk.fill();
        // The next record that needs more space makes it exit.
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

    /// Requires two replicas of the topic, of which one exists, so that the remaining broker refuses all records.
    async fn refuse(self: &Arc<Self>, lasts: Duration) {
        let topic = || place(QUEUES[COPIED]);
        self.work(move |topics| topics.kafka.alter_topic(&topic(), &[("min.insync.replicas", "2")])).await;
        // On a busy machine a broker may be missed only because it was not scheduled.
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

    /// Waits for this time; returns whether no topic received a record.
    async fn takes_nothing(self: &Arc<Self>, lasts: Duration) -> u64 {
        const ALL: [usize; QUEUES.len()] = [0, 1, 2];
        // Records accepted before are in the log by then.
        sleep(LOOK).await;
        let before = self.ends(&ALL).await;
        sleep(lasts).await;
        u64::from(self.ends(&ALL).await == before)
    }

    /// Number of records that each partition has received.
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
        // Only when the controller is resumed, it notices the missing brokers; before that, all seem to be there.
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

    /// Deletes the topics with one replica, and creates them again. Before they are read for the last time, the daemons
    /// lose their right to write, so that no record is missed. They get it back while there are no topics.
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

    /// All records of a topic that receives no more. With one replica, a record can be read as soon as it is in the
    /// log.
    async fn read_all(self: &Arc<Self>, queue: usize) -> Vec<Delivery> {
        let mut before = self.ends(&[queue]).await;
        let mut quiet = 0;
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
        // The broker's time of arrival instead of the producer's.
        let configs = &[("max.message.bytes", LARGEST), ("message.timestamp.type", "LogAppendTime")];
        let name = &place(QUEUES[queue]);
        self.kafka.create_topics(&[NewTopic { name, partitions: PARTITIONS, replication: REPLICAS[queue], configs }])
    }

    fn allow(&self) -> brokers::Result<()> {
        // A look reads.
        let operations = [Operation::Write, Operation::Describe, Operation::Read];
        self.kafka.add_acl(USER, Resource::Topic("*"), &operations)
    }

    fn deny(&self) -> brokers::Result<()> {
        self.kafka.remove_acl(USER, Resource::Topic("*"), &[Operation::Write])
    }

    /// Waits for a condition, which `what` names in the panic after the time-out.
    async fn until(
        self: &Arc<Self>,
        what: &str,
        holds: impl Fn(&Topics) -> brokers::Result<bool> + Clone + Send + 'static,
    ) {
        let until = Instant::now() + PATIENCE;
        loop {
            let holds = holds.clone();
            // A starting broker responds with errors.
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

    /// Whether every partition has a leader and all of its replicas.
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
