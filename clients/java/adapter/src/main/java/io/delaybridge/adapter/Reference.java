package io.delaybridge.adapter;

import static io.delaybridge.adapter.Lines.JSON;
import static io.delaybridge.adapter.Lines.value;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;

/**
 * Drives Redisson itself for the conformance kit, so that the kit is held to what it must accept. Redisson adds delays to the
 * clock of its machine, has no handles, and cannot move an element.
 */
public final class Reference implements Lines.Producer {
    private RedissonClient client;
    private RDelayedQueue<Object> queue;

    private Reference() {}

    public static void main(String[] arguments) throws Exception {
        Lines.serve(new Reference());
    }

    @Override
    public ObjectNode answer(JsonNode command) throws Exception {
        String op = command.get("op").asText();
        ObjectNode answer = JSON.createObjectNode();
        if (op.equals("open")) {
            return open(command, answer);
        }
        if (op.equals("close")) {
            close();
            return answer;
        }
        if (queue == null) {
            throw new IllegalStateException(op + ": no queue is open");
        }
        if (op.equals("offer") && !command.hasNonNull("id")) {
            Object value = value(command.get("value"));
            queue.offer(value, delay(command), TimeUnit.MILLISECONDS);
            return answer.putNull("offer");
        }
        if (op.equals("cancel") && command.has("value")) {
            return answer.put("removed", queue.remove(value(command.get("value"))) ? 1 : 0);
        }
        throw new Lines.Unsupported("Redisson has no such " + op);
    }

    /** Redisson adds it to the time of the call, so a due time is met if the call is in the same millisecond. */
    private static long delay(JsonNode command) throws Lines.Unsupported {
        if (command.has("delay_ms")) {
            return command.get("delay_ms").asLong();
        }
        // At the beginning of one.
        long before = System.currentTimeMillis();
        long now = before;
        while (now == before) {
            now = System.currentTimeMillis();
        }
        long delay = command.get("due_ms").asLong() - now;
        if (delay < 0) {
            throw new Lines.Unsupported("Redisson has no due times in the past");
        }
        return delay;
    }

    private ObjectNode open(JsonNode command, ObjectNode answer) throws Exception {
        if (command.path("clock").asText().equals("redis") || command.path("clock_offset_ms").asLong() != 0) {
            throw new Lines.Unsupported("Redisson uses the clock of its machine");
        }
        close();
        String version = version();
        client = Connections.redisson(command);
        RBlockingQueue<Object> destination =
                client.getBlockingQueue(command.get("queue").asText(), Connections.codec(command));
        queue = client.getDelayedQueue(destination);
        answer.putArray("features").add("cancel_value");
        return answer.put("name", "redisson " + version).put("layout", isOld(version) ? "old" : "current");
    }

    private static String version() {
        String[] parts = RedissonClient.class.getProtectionDomain().getCodeSource().getLocation().getPath().split("/redisson-");
        return parts[parts.length - 1].replace(".jar", "");
    }

    /** The layout changed in 3.21.1. */
    private static boolean isOld(String version) {
        String[] parts = version.split("\\.");
        int[] number = new int[3];
        for (int i = 0; i < 3; i++) {
            number[i] = Integer.parseInt(parts[i]);
        }
        return number[0] < 3 || number[0] == 3 && (number[1] < 21 || number[1] == 21 && number[2] == 0);
    }

    @Override
    public void close() {
        if (queue != null) {
            queue.destroy();
        }
        if (client != null) {
            client.shutdown(0, 2, TimeUnit.SECONDS);
        }
        queue = null;
        client = null;
    }
}
