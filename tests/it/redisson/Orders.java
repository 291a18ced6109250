package shop;

import java.math.BigDecimal;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.codec.Kryo5Codec;
import org.redisson.config.Config;

/** An application with a delayed queue of its own objects, in Redisson's default codec: {@code Orders URL QUEUE COUNT}. */
public final class Orders {
    public enum Status {
        OPEN,
        PAID
    }

    public static class Party {
        protected UUID key;
        protected String name;
    }

    public static final class Line {
        String sku;
        int count;
        double weight;
    }

    public static class Order extends Party {
        long id;
        BigDecimal amount;
        Status status;
        Date created;
        Instant due;
        List<Line> lines = new ArrayList<>();
        Map<String, Integer> stock = new LinkedHashMap<>();
        int[] marks;
        Order parent;
        Object note;
        boolean urgent;
    }

    private static Order order(int n) {
        Order order = new Order();
        order.id = n;
        order.key = new UUID(1, n);
        order.name = "Bestellung für " + n;
        order.amount = new BigDecimal(n).movePointLeft(2);
        order.status = n % 2 == 0 ? Status.OPEN : Status.PAID;
        order.created = new Date(1_700_000_000_000L + n);
        order.due = Instant.ofEpochSecond(1_700_000_000L + n);
        for (int i = 0; i < n % 4; i++) {
            Line line = new Line();
            line.sku = "sku-" + i;
            line.count = i * n;
            line.weight = i + 0.25;
            order.lines.add(line);
            order.stock.put(line.sku, n);
        }
        order.marks = new int[] {n, -n};
        order.note = n % 3 == 0 ? null : "note " + n;
        order.urgent = n % 5 == 0;
        if (n % 7 == 0 && n > 0) {
            order.parent = order(n - 1);
        }
        return order;
    }

    public static void main(String[] arguments) {
        Config config = new Config();
        config.setCodec(new Kryo5Codec());
        config.useSingleServer().setAddress(arguments[0]).setConnectionPoolSize(2).setConnectionMinimumIdleSize(1);
        RedissonClient client = Redisson.create(config);
        RDelayedQueue<Order> queue = client.getDelayedQueue(client.getBlockingQueue(arguments[1]));
        for (int n = 0; n < Integer.parseInt(arguments[2]); n++) {
            queue.offer(order(n), 500, TimeUnit.MILLISECONDS);
        }
        queue.destroy();
        client.shutdown(0, 2, TimeUnit.SECONDS);
        System.exit(0);
    }
}
