package io.delaybridge.adapter;

import static io.delaybridge.adapter.Lines.JSON;
import static io.delaybridge.adapter.Lines.value;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.delaybridge.client.DelayedOffers;
import io.delaybridge.client.Layout;
import io.delaybridge.client.Offer;
import io.delaybridge.client.OfferId;
import io.delaybridge.client.OverLettuce;
import io.delaybridge.client.OverRedisson;
import io.delaybridge.client.OverSpring;
import io.delaybridge.client.RedisScripts;
import io.delaybridge.client.ValueCodec;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.codec.ByteArrayCodec;
import java.net.URI;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RedissonClient;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** Drives the Java producer for the conformance kit. The argument is the library: redisson, lettuce or spring. */
public final class Adapter implements Lines.Producer {
    private static final String[] FEATURES = {
        "batch", "cancel", "cancel_value", "reschedule", "ids", "clock_redis", "clock_offset"
    };

    private final String library;
    private DelayedOffers<Object> offers;
    private Runnable closing = () -> {};

    private Adapter(String library) {
        this.library = library;
    }

    public static void main(String[] arguments) throws Exception {
        Lines.serve(new Adapter(arguments.length > 0 ? arguments[0] : "redisson"));
    }

    @Override
    public ObjectNode answer(JsonNode command) throws Exception {
        String op = command.get("op").asText();
        ObjectNode answer = JSON.createObjectNode();
        if (op.equals("open")) {
            open(command);
            answer.put("name", "java 0.1.0 " + library).put("layout", layout(command).name().toLowerCase());
            answer.set("features", JSON.valueToTree(FEATURES));
            return answer;
        }
        if (op.equals("close")) {
            close();
            return answer;
        }
        if (offers == null) {
            throw new IllegalStateException(op + ": no queue is open");
        }
        switch (op) {
            case "offer":
                return answer.put("offer", offers.offerAll(Collections.singletonList(offer(command))).get(0).toString());
            case "offer_batch":
                List<Offer<Object>> batch = new ArrayList<>();
                for (JsonNode one : command.get("offers")) {
                    batch.add(offer(one));
                }
                ArrayNode ids = answer.putArray("offers");
                offers.offerAll(batch).forEach(id -> ids.add(id.toString()));
                return answer;
            case "cancel":
                if (command.has("offer")) {
                    return answer.put("removed", offers.cancel(OfferId.parse(command.get("offer").asText())) ? 1 : 0);
                }
                return answer.put("removed", offers.cancelValue(value(command.get("value"))));
            case "reschedule":
                OfferId id = OfferId.parse(command.get("offer").asText());
                Optional<OfferId> moved = offers.reschedule(id, Instant.ofEpochMilli(command.get("due_ms").asLong()));
                return answer.put("moved", moved.isPresent()).put("offer", moved.orElse(id).toString());
            default:
                throw new Lines.Unsupported("no command " + op);
        }
    }

    private static Offer<Object> offer(JsonNode command) throws Exception {
        Object value = value(command.get("value"));
        Offer<Object> offer = command.has("due_ms")
                ? Offer.at(Instant.ofEpochMilli(command.get("due_ms").asLong()), value)
                : Offer.in(Duration.ofMillis(command.get("delay_ms").asLong()), value);
        return command.hasNonNull("id") ? offer.withIdentity(command.get("id").asText()) : offer;
    }

    private static Layout layout(JsonNode command) {
        return command.path("layout").asText().equals("old") ? Layout.OLD : Layout.CURRENT;
    }

    private void open(JsonNode command) {
        close();
        DelayedOffers.Builder<Object> builder;
        String queue = command.get("queue").asText();
        boolean text = command.get("codec").asText().equals("string");
        if (library.equals("redisson")) {
            RedissonClient client = Connections.redisson(command);
            closing = () -> client.shutdown(0, 2, TimeUnit.SECONDS);
            // Redisson's JSON codecs leave out members that are null.
            builder = text
                    ? OverRedisson.builder(client, client.getQueue(queue, Connections.codec(command)))
                    : DelayedOffers.builder(new OverRedisson(client), queue, JSON::writeValueAsBytes);
        } else {
            RedisScripts redis = library.equals("spring") ? spring(command) : lettuce(command);
            ValueCodec<Object> codec =
                    text ? value -> ValueCodec.string().encode((String) value) : JSON::writeValueAsBytes;
            builder = DelayedOffers.builder(redis, queue, codec);
        }
        builder.layout(layout(command));
        builder.clock(Clock.offset(Clock.systemUTC(), Duration.ofMillis(command.path("clock_offset_ms").asLong())));
        if (command.path("clock").asText().equals("redis")) {
            builder.redisClock();
        }
        offers = builder.build();
    }

    private RedisScripts lettuce(JsonNode command) {
        if (command.hasNonNull("cluster")) {
            List<RedisURI> nodes = new ArrayList<>();
            command.get("cluster").forEach(node -> nodes.add(RedisURI.create("redis://" + node.asText())));
            RedisClusterClient client = RedisClusterClient.create(nodes);
            closing = () -> client.shutdown(0, 2, TimeUnit.SECONDS);
            return new OverLettuce(client.connect(ByteArrayCodec.INSTANCE).async());
        }
        RedisURI uri;
        if (command.hasNonNull("sentinel")) {
            RedisURI.Builder sentinels = RedisURI.builder().withSentinelMasterId(command.get("sentinel").get("master").asText());
            for (String node : nodes(command.get("sentinel").get("nodes"))) {
                URI address = URI.create("redis://" + node);
                sentinels.withSentinel(address.getHost(), address.getPort());
            }
            uri = sentinels.build();
        } else {
            uri = RedisURI.create(command.get("redis").asText());
        }
        RedisClient client = RedisClient.create(uri);
        closing = () -> client.shutdown(0, 2, TimeUnit.SECONDS);
        return new OverLettuce(client.connect(ByteArrayCodec.INSTANCE).async());
    }

    private RedisScripts spring(JsonNode command) {
        LettuceConnectionFactory factory;
        if (command.hasNonNull("sentinel")) {
            JsonNode sentinel = command.get("sentinel");
            factory = new LettuceConnectionFactory(
                    new RedisSentinelConfiguration(sentinel.get("master").asText(), nodes(sentinel.get("nodes"))));
        } else if (command.hasNonNull("cluster")) {
            factory = new LettuceConnectionFactory(new RedisClusterConfiguration(nodes(command.get("cluster"))));
        } else {
            URI uri = URI.create(command.get("redis").asText());
            RedisStandaloneConfiguration one = new RedisStandaloneConfiguration(uri.getHost(), uri.getPort());
            if (uri.getPath() != null && uri.getPath().length() > 1) {
                one.setDatabase(Integer.parseInt(uri.getPath().substring(1)));
            }
            factory = new LettuceConnectionFactory(one);
        }
        factory.afterPropertiesSet();
        closing = factory::destroy;
        return new OverSpring(factory);
    }

    private static Set<String> nodes(JsonNode nodes) {
        Set<String> texts = new HashSet<>();
        nodes.forEach(node -> texts.add(node.asText()));
        return texts;
    }

    @Override
    public void close() {
        closing.run();
        closing = () -> {};
        offers = null;
    }
}
