package io.delaybridge.client;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Encodes values as the Redisson clients of the queue do. For JSON without types (TypedJsonJacksonCodec) a mapper of
 * Jackson will do: {@code mapper::writeValueAsBytes}.
 */
@FunctionalInterface
public interface ValueCodec<T> {
    byte[] encode(T value) throws Exception;

    /** UTF-8, as StringCodec. */
    static ValueCodec<String> string() {
        return text -> {
            // An encoder refuses a surrogate without its partner, String.getBytes writes a question mark.
            ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            return Arrays.copyOf(bytes.array(), bytes.limit());
        };
    }
}
