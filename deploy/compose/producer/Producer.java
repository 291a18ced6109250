import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** A service that schedules order time-outs and reminders with Redisson. It takes none of them itself. */
public final class Producer {
    public static void main(String[] arguments) throws InterruptedException {
        Config config = new Config();
        config.useSingleServer().setAddress(System.getenv().getOrDefault("REDIS", "redis://127.0.0.1:6379"));
        RedissonClient redisson = Redisson.create(config);
        RDelayedQueue<String> orders = queue(redisson, "order:timeout");
        RDelayedQueue<String> reminders = queue(redisson, "reminders");
        for (int order = 1; ; order++) {
            int seconds = ThreadLocalRandom.current().nextInt(2, 60);
            orders.offer("{\"orderId\":" + order + ",\"state\":\"unpaid\"}", seconds, TimeUnit.SECONDS);
            if (order % 10 == 0) {
                reminders.offer("reminder " + order / 10, seconds, TimeUnit.SECONDS);
                System.out.println(order + " orders offered");
            }
            Thread.sleep(250);
        }
    }

    private static RDelayedQueue<String> queue(RedissonClient redisson, String name) {
        return redisson.getDelayedQueue(redisson.getBlockingQueue(name, StringCodec.INSTANCE));
    }
}
