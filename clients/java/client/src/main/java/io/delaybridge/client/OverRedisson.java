package io.delaybridge.client;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionStage;
import org.redisson.RedissonObject;
import org.redisson.api.RObject;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;

/** Runs scripts over a Redisson client, version 3.16 to 4.x. */
public final class OverRedisson implements RedisScripts {
    private final RedissonClient client;
    private final RScript scripts;

    /** The client is neither configured nor shut down here. */
    public OverRedisson(RedissonClient client) {
        this.client = client;
        scripts = client.getScript(ByteArrayCodec.INSTANCE);
    }

    /**
     * The delayed queue of a destination queue, as {@code client.getDelayedQueue(destination)}: with its codec and its
     * mapped name.
     */
    public static <T> DelayedOffers.Builder<T> builder(RedissonClient client, RObject destination) {
        return DelayedOffers.builder(new OverRedisson(client), mapped(destination), codec(destination.getCodec()));
    }

    /** A codec of Redisson's. */
    public static <T> ValueCodec<T> codec(Codec codec) {
        return value -> {
            ByteBuf encoded = codec.getValueEncoder().encode(value);
            try {
                return ByteBufUtil.getBytes(encoded);
            } finally {
                encoded.release();
            }
        };
    }

    private static String mapped(RObject object) {
        if (object instanceof RedissonObject) {
            return ((RedissonObject) object).getRawName();
        }
        throw new IllegalArgumentException("map a name: " + object.getClass() + " is not an object of Redisson's");
    }

    @Override
    public CompletionStage<Object> run(Script script, List<String> keys, List<byte[]> arguments) {
        RScript.ReturnType type = script.answersWithList() ? Types.LIST : Types.LONG;
        // The first name is for the slot alone, which a mapper does not change: it leaves the hash tag.
        String slot = keys.get(0);
        List<Object> names = new ArrayList<>(keys);
        if (!keys.stream().allMatch(key -> key.equals(mapped(client.getBucket(key))))) {
            // Names would go through the NameMapper, in most versions; bytes do not.
            names.replaceAll(key -> ((String) key).getBytes(StandardCharsets.UTF_8));
        }
        Object[] values = arguments.toArray();
        try {
            return Script.orByText(
                    scripts.evalShaAsync(slot, RScript.Mode.READ_WRITE, script.sha(), type, names, values),
                    () -> scripts.evalAsync(slot, RScript.Mode.READ_WRITE, script.text(), type, names, values));
        } catch (ClassCastException e) {
            throw new UnsupportedOperationException(
                    "run a script beside a NameMapper: this version of Redisson would map the keys of scripts too; use 3.27.2 "
                            + "or later, or OverLettuce",
                    e);
        }
    }

    /** 4.0 renamed them. */
    private static final class Types {
        static final RScript.ReturnType LIST = named("LIST", "MULTI");
        static final RScript.ReturnType LONG = named("LONG", "INTEGER");

        private static RScript.ReturnType named(String now, String before) {
            for (RScript.ReturnType type : RScript.ReturnType.values()) {
                if (type.name().equals(now)) {
                    return type;
                }
            }
            return RScript.ReturnType.valueOf(before);
        }
    }
}
