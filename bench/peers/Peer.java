import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * A Java consumer or producer as applications use it today, also together with the daemon.
 *
 * <pre>
 * Peer forward REDIS KAFKA QUEUE TOPIC take|drainTo COUNT SECONDS
 * Peer offer   REDIS QUEUE PER_SECOND SECONDS LEAST_MS MOST_MS BYTES
 * </pre>
 *
 * {@code forward} moves elements from a delayed queue to a Kafka producer, until COUNT records are acknowledged or SECONDS
 * are over. {@code offer} offers at a fixed rate, with random delays; a payload begins with its due time, 13 digits. Both
 * print one JSON object when they are done, and exit at the end of standard input, so that the client can be kept alive.
 */
public final class Peer {
    /** Maximum number of unanswered offers. */
    private static final int IN_FLIGHT = 512;

    private Peer() {}

    public static void main(String[] a) throws Exception {
        RedissonClient redisson = connect(a[1]);
        if (a[0].equals("forward")) {
            forward(redisson, a[2], a[3], a[4], a[5].equals("drainTo"), Long.parseLong(a[6]), Long.parseLong(a[7]));
        } else {
            offer(redisson, a[2], Long.parseLong(a[3]), Long.parseLong(a[4]), Integer.parseInt(a[5]),
                    Integer.parseInt(a[6]), Integer.parseInt(a[7]));
        }
        while (System.in.read() >= 0) {
            // The owner closes it.
        }
        // halt instead of exit, which would wait for the threads of both clients.
        Runtime.getRuntime().halt(0);
    }

    private static RedissonClient connect(String address) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress(address);
        return Redisson.create(config);
    }

    private static void forward(RedissonClient redisson, String kafka, String queue, String topic, boolean drain,
            long count, long seconds) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", kafka);
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producer.partitionsFor(topic);
        AtomicLong acknowledged = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        Callback callback = (metadata, error) -> (error == null ? acknowledged : failed).incrementAndGet();
        RBlockingQueue<String> ready = redisson.getBlockingQueue(queue);
        double cpu = cpu();
        long start = System.nanoTime();
        // Starts the transfer task.
        redisson.getDelayedQueue(ready);
        Thread consumer = new Thread(() -> {
            List<String> taken = new ArrayList<>();
            while (true) {
                try {
                    taken.clear();
                    if (drain) {
                        ready.drainTo(taken, 100);
                    }
                    if (taken.isEmpty()) {
                        taken.add(ready.take());
                    }
                    for (String payload : taken) {
                        producer.send(new ProducerRecord<>(topic, payload), callback);
                    }
                } catch (InterruptedException e) {
                    return;
                } catch (RuntimeException e) {
                    System.err.println(e);
                }
            }
        });
        consumer.setDaemon(true);
        consumer.start();
        long end = start + TimeUnit.SECONDS.toNanos(seconds);
        while (acknowledged.get() < count && System.nanoTime() < end) {
            Thread.sleep(5);
        }
        System.out.printf(Locale.ROOT, "{\"done\":%d,\"failed\":%d,\"seconds\":%.3f,\"cpu\":%.3f}%n", acknowledged.get(),
                failed.get(), (System.nanoTime() - start) / 1e9, cpu() - cpu);
    }

    private static void offer(RedissonClient redisson, String queue, long perSecond, long seconds, int least, int most,
            int bytes) throws Exception {
        RDelayedQueue<String> delayed = redisson.getDelayedQueue(redisson.getBlockingQueue(queue));
        String rest = "x".repeat(Math.max(0, bytes - 25));
        // On a queue of its own, so that the code is compiled before the measurement.
        RDelayedQueue<String> warm = redisson.getDelayedQueue(redisson.getBlockingQueue(queue + ":warm"));
        for (int n = 0; n < 3_000; n++) {
            warm.offer(rest, 1, TimeUnit.HOURS);
        }
        warm.delete();
        warm.destroy();
        Random random = new Random(1);
        Semaphore window = new Semaphore(IN_FLIGHT);
        AtomicLong offered = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        double cpu = cpu();
        long start = System.nanoTime();
        for (long n = 0; n < perSecond * seconds; n++) {
            long at = start + n * 1_000_000_000L / perSecond;
            for (long left = at - System.nanoTime(); left > 0; left = at - System.nanoTime()) {
                Thread.sleep(Math.min(left / 1_000_000, 1), (int) Math.min(left % 1_000_000, 999_999));
            }
            int delay = least + random.nextInt(most - least + 1);
            window.acquire();
            String payload = String.format("%013d %010d %s", System.currentTimeMillis() + delay, n, rest);
            delayed.offerAsync(payload, delay, TimeUnit.MILLISECONDS).whenComplete((nothing, error) -> {
                (error == null ? offered : failed).incrementAndGet();
                window.release();
            });
        }
        window.acquire(IN_FLIGHT);
        System.out.printf(Locale.ROOT, "{\"done\":%d,\"failed\":%d,\"seconds\":%.3f,\"cpu\":%.3f}%n", offered.get(),
                failed.get(), (System.nanoTime() - start) / 1e9, cpu() - cpu);
    }

    private static double cpu() {
        return ProcessHandle.current().info().totalCpuDuration().map(d -> d.toNanos() / 1e9).orElse(0.0);
    }
}
