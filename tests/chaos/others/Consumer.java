import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * A typical consumer of a delayed queue. Arguments: address, queue, {@code take} or {@code drain}, and the time for handling an
 * element in ms. Prints each handled element.
 */
public final class Consumer {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        Config config = new Config();
        config.setThreads(2).setNettyThreads(2);
        config.useSingleServer().setAddress(arguments[0]).setConnectionMinimumIdleSize(2).setConnectionPoolSize(8);
        RedissonClient client = Redisson.create(config);
        RBlockingQueue<String> queue = client.getBlockingQueue(arguments[1], StringCodec.INSTANCE);
        // Moves due elements to the queue while it exists.
        RDelayedQueue<String> delayed = client.getDelayedQueue(queue);
        long work = Long.parseLong(arguments[3]);
        while (delayed != null) {
            try {
                List<String> batch = new ArrayList<>();
                if (arguments[2].equals("take")) {
                    batch.add(queue.take());
                } else if (queue.drainTo(batch, 100) == 0) {
                    TimeUnit.MILLISECONDS.sleep(100);
                }
                for (String element : batch) {
                    TimeUnit.MILLISECONDS.sleep(work);
                    out.println(element);
                }
            } catch (RuntimeException e) {
                TimeUnit.MILLISECONDS.sleep(200);
            }
        }
    }
}
