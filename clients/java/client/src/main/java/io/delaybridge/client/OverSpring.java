package io.delaybridge.client;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.function.Supplier;
import org.springframework.data.redis.connection.RedisConnection;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.ReturnType;

/**
 * Runs scripts over Spring Data Redis. Its connections wait for the answer, so the caller's thread does too, in the
 * asynchronous methods as well, unless there is an executor.
 */
public final class OverSpring implements RedisScripts {
    private static final byte[][] NONE = new byte[0][];

    private final RedisConnectionFactory factory;
    private final Executor executor;

    public OverSpring(RedisConnectionFactory factory) {
        this(factory, Runnable::run);
    }

    /** With threads that wait instead of the caller's. */
    public OverSpring(RedisConnectionFactory factory, Executor executor) {
        this.factory = factory;
        this.executor = executor;
    }

    @Override
    public CompletionStage<Object> run(Script script, List<String> keys, List<byte[]> arguments) {
        ReturnType type = script.answersWithList() ? ReturnType.MULTI : ReturnType.INTEGER;
        List<byte[]> all = new ArrayList<>();
        keys.forEach(key -> all.add(key.getBytes(StandardCharsets.UTF_8)));
        all.addAll(arguments);
        byte[][] values = all.toArray(NONE);
        byte[] text = script.text().getBytes(StandardCharsets.UTF_8);
        int n = keys.size();
        return Script.orByText(
                call(connection -> connection.scriptingCommands().evalSha(script.sha(), type, n, values)),
                () -> call(connection -> connection.scriptingCommands().eval(text, type, n, values)));
    }

    private CompletionStage<Object> call(java.util.function.Function<RedisConnection, Object> what) {
        Supplier<Object> call = () -> {
            RedisConnection connection = factory.getConnection();
            try {
                return what.apply(connection);
            } finally {
                connection.close();
            }
        };
        return CompletableFuture.supplyAsync(call, executor);
    }
}
