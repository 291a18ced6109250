import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RBoundedBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RFuture;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.config.Config;

/**
 * Redisson clients with remote control: one command per line on standard input, one answer per line on standard output,
 * both JSON objects with the same "id". Commands run concurrently, so a waiting take blocks no other.
 *
 * <p>Compiled once, against the oldest version, and run with all of them: missing classes are looked up by name.
 *
 * <p>Values travel as JSON: a whole number is a Long, an object a LinkedHashMap; {"$bytes": "00ff"} is a byte[] and
 * {"$order": {...}} an {@link Order}.
 */
public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int IN_FLIGHT = 256;

    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final Map<String, RDelayedQueue<Object>> queues = new ConcurrentHashMap<>();
    private final Map<String, Codec> codecs = new ConcurrentHashMap<>();
    private final PrintStream out;

    /** An object of an application's own class, the most common kind of value. Not final, because Jackson would omit its name. */
    public static class Order implements Serializable {
        private static final long serialVersionUID = 1L;
        public long id;
        public String item;

        @Override
        public boolean equals(Object other) {
            return other instanceof Order && id == ((Order) other).id && Objects.equals(item, ((Order) other).item);
        }

        @Override
        public int hashCode() {
            return Objects.hash(id, item);
        }
    }

    private Client(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        Client client = new Client(new PrintStream(System.out, false, "UTF-8"));
        // Nothing else may write to standard output.
        System.setOut(System.err);
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode command = JSON.readTree(line);
            threads.execute(() -> client.answer(command));
        }
        System.exit(0);
    }

    private void answer(JsonNode command) {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("id", command.get("id"));
        try {
            answer.set("ok", run(command));
        } catch (Missing e) {
            answer.put("missing", e.getMessage());
        } catch (Throwable e) {
            answer.put("error", root(e).toString());
        }
        synchronized (out) {
            out.println(answer);
            out.flush();
        }
    }

    private static Throwable root(Throwable e) {
        return e.getCause() == null ? e : root(e.getCause());
    }

    private JsonNode run(JsonNode command) throws Exception {
        String client = command.path("client").asText();
        String queue = command.path("queue").asText();
        switch (command.get("do").asText()) {
            case "connect":
                clients.put(client, connect(command.get("url").asText()));
                return null;
            case "disconnect":
                queues.keySet().removeIf(key -> key.startsWith(client + " "));
                clients.remove(client).shutdown(0, 2, TimeUnit.SECONDS);
                return null;
            case "encode":
                return JSON.valueToTree(hex(encode(command)));
            case "reads":
                return JSON.valueToTree(reads(command));
            case "listen":
                delayed(command);
                return null;
            case "destroy":
                queues.remove(client + " " + queue + " " + command.get("codec").asText()).destroy();
                return null;
            case "offer":
                offer(command);
                return null;
            case "offer_each":
                return offerEach(command);
            case "remove":
                return JSON.valueToTree(delayed(command).remove(value(command.get("value"))));
            case "contains":
                return JSON.valueToTree(delayed(command).contains(value(command.get("value"))));
            case "size":
                return JSON.valueToTree(delayed(command).size());
            case "read_all":
                ArrayNode all = JSON.createArrayNode();
                delayed(command).readAll().forEach(value -> all.add(json(value)));
                return all;
            case "poll":
                return json(delayed(command).poll());
            case "bound":
                return JSON.valueToTree(bounded(command).trySetCapacity(command.get("capacity").asInt()));
            case "free":
                return JSON.valueToTree(bounded(command).remainingCapacity());
            case "put":
                return JSON.valueToTree(bounded(command).offer(value(command.get("value")),
                        command.get("wait_ms").asLong(), TimeUnit.MILLISECONDS));
            case "take":
                return json(ready(command).poll(command.get("wait_ms").asLong(), TimeUnit.MILLISECONDS));
            default:
                throw new IllegalArgumentException("no command " + command.get("do"));
        }
    }

    /** Connects to a server by its address, {@code cluster:PORT,PORT}, or {@code sentinel:MASTER:PORT,PORT}. */
    private static RedissonClient connect(String url) {
        Config config = new Config();
        config.setThreads(2).setNettyThreads(2);
        if (url.startsWith("cluster:")) {
            config.useClusterServers()
                    .addNodeAddress(local(url.substring("cluster:".length())))
                    .setScanInterval(500)
                    .setConnectTimeout(30_000)
                    .setTimeout(5_000);
            return Redisson.create(config);
        }
        if (url.startsWith("sentinel:")) {
            String[] parts = url.split(":", 3);
            config.useSentinelServers()
                    .setMasterName(parts[1])
                    .addSentinelAddress(local(parts[2]))
                    .setScanInterval(500)
                    .setConnectTimeout(30_000)
                    .setTimeout(5_000);
            return Redisson.create(config);
        }
        config.useSingleServer()
                .setAddress(url)
                .setDnsMonitoringInterval(-1)
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(8)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(2)
                .setSubscriptionsPerConnection(100)
                // A machine that is suspended for seconds has not lost its connection.
                .setConnectTimeout(30_000)
                .setTimeout(30_000);
        return Redisson.create(config);
    }

    private static String[] local(String ports) {
        return java.util.Arrays.stream(ports.split(",")).map(port -> "redis://127.0.0.1:" + port).toArray(String[]::new);
    }

    /** Offers each value with its delay; returns which of the offers were acknowledged. */
    private JsonNode offerEach(JsonNode command) throws Exception {
        RDelayedQueue<Object> queue = delayed(command);
        List<RFuture<Void>> offers = new ArrayList<>();
        for (JsonNode element : command.get("elements")) {
            Object value = value(element.get("value"));
            offers.add(queue.offerAsync(value, element.get("delay_ms").asLong(), TimeUnit.MILLISECONDS));
        }
        ArrayNode acknowledged = JSON.createArrayNode();
        for (RFuture<Void> offer : offers) {
            boolean done;
            try {
                offer.get();
                done = true;
            } catch (java.util.concurrent.ExecutionException failed) {
                done = false;
            }
            acknowledged.add(done);
        }
        return acknowledged;
    }

    /** Offers each value with its delay, many at a time. */
    private void offer(JsonNode command) throws Exception {
        RDelayedQueue<Object> queue = delayed(command);
        List<RFuture<Void>> offers = new ArrayList<>();
        for (JsonNode element : command.get("elements")) {
            Object value = value(element.get("value"));
            offers.add(queue.offerAsync(value, element.get("delay_ms").asLong(), TimeUnit.MILLISECONDS));
            if (offers.size() >= IN_FLIGHT) {
                offers.remove(0).get();
            }
        }
        for (RFuture<Void> offer : offers) {
            offer.get();
        }
    }

    private byte[] encode(JsonNode command) throws Exception {
        ByteBuf bytes = codec(command.get("codec").asText()).getValueEncoder().encode(value(command.get("value")));
        try {
            return ByteBufUtil.getBytes(bytes);
        } finally {
            bytes.release();
        }
    }

    /** Whether the codec can decode its own encoding of the value. */
    private boolean reads(JsonNode command) throws Exception {
        byte[] bytes = encode(command);
        try {
            Object value = codec(command.get("codec").asText())
                    .getValueDecoder()
                    .decode(Unpooled.wrappedBuffer(bytes), null);
            return value != null;
        } catch (Exception e) {
            return false;
        }
    }

    private RBlockingQueue<Object> ready(JsonNode command) throws Exception {
        RedissonClient client = clients.get(command.get("client").asText());
        return client.getBlockingQueue(command.get("queue").asText(), codec(command.get("codec").asText()));
    }

    private RBoundedBlockingQueue<Object> bounded(JsonNode command) throws Exception {
        RedissonClient client = clients.get(command.get("client").asText());
        return client.getBoundedBlockingQueue(command.get("queue").asText(), codec(command.get("codec").asText()));
    }

    /** The delayed queue; its transfer task runs from the first call on. */
    private RDelayedQueue<Object> delayed(JsonNode command) throws Exception {
        String key = command.get("client").asText() + " " + command.get("queue").asText() + " "
                + command.get("codec").asText();
        RBlockingQueue<Object> ready = ready(command);
        return queues.computeIfAbsent(key, unused ->
                clients.get(command.get("client").asText()).getDelayedQueue(ready));
    }

    /** The codec of that class, followed by the wrapped codec in parentheses. */
    private Codec codec(String name) throws Exception {
        Codec known = codecs.get(name);
        if (known != null) {
            return known;
        }
        int wraps = name.indexOf('(');
        Codec made;
        if (wraps >= 0) {
            Codec inner = codec(name.substring(wraps + 1, name.length() - 1));
            made = (Codec) find(name.substring(0, wraps)).getConstructor(Codec.class).newInstance(inner);
        } else if (name.equals("TypedJsonJacksonCodec")) {
            made = (Codec) find(name).getConstructor(Class.class).newInstance(Object.class);
        } else {
            made = (Codec) find(name).getConstructor().newInstance();
        }
        codecs.put(name, made);
        return made;
    }

    private static Class<?> find(String name) throws Missing {
        for (String folder : new String[] {"org.redisson.client.codec.", "org.redisson.codec."}) {
            try {
                return Class.forName(folder + name);
            } catch (ClassNotFoundException e) {
                // The class is in the other package, or missing.
            }
        }
        throw new Missing("this version has no " + name);
    }

    private static final class Missing extends Exception {
        private static final long serialVersionUID = 1L;

        Missing(String message) {
            super(message);
        }
    }

    private static Object value(JsonNode json) {
        if (json.isTextual()) {
            return json.asText();
        } else if (json.isIntegralNumber()) {
            return json.asLong();
        } else if (json.isNumber()) {
            return json.asDouble();
        } else if (json.isBoolean()) {
            return json.asBoolean();
        } else if (json.isArray()) {
            List<Object> list = new ArrayList<>();
            json.forEach(item -> list.add(value(item)));
            return list;
        } else if (json.has("$bytes")) {
            return ByteBufUtil.decodeHexDump(json.get("$bytes").asText());
        } else if (json.has("$order")) {
            Order order = new Order();
            order.id = json.get("$order").get("id").asLong();
            order.item = json.get("$order").get("item").asText();
            return order;
        }
        Map<String, Object> map = new LinkedHashMap<>();
        json.fields().forEachRemaining(field -> map.put(field.getKey(), value(field.getValue())));
        return map;
    }

    private static JsonNode json(Object value) {
        if (value instanceof byte[]) {
            return JSON.createObjectNode().put("$bytes", hex((byte[]) value));
        } else if (value instanceof Order) {
            ObjectNode order = JSON.createObjectNode();
            order.set("$order", JSON.valueToTree(value));
            return order;
        }
        return JSON.valueToTree(value);
    }

    private static String hex(byte[] bytes) {
        return ByteBufUtil.hexDump(bytes);
    }
}
