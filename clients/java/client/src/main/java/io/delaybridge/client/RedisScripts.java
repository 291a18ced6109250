package io.delaybridge.client;

import java.util.List;
import java.util.concurrent.CompletionStage;

/** Runs scripts in Redis: over Redisson, Lettuce, Spring Data Redis, or a library of yours. */
public interface RedisScripts {
    /**
     * Runs a script by its SHA-1, or by its text if Redis does not know it. All keys are in one slot.
     *
     * @return a {@code List<byte[]>} if the script answers with a list, otherwise a {@code Long}
     */
    CompletionStage<Object> run(Script script, List<String> keys, List<byte[]> arguments);
}
