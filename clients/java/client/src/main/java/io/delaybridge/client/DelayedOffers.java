package io.delaybridge.client;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.regex.Pattern;

/**
 * Schedules, cancels and moves elements of a delayed queue of Redisson. Unlike {@code getDelayedQueue} it starts no transfer
 * task: another Redisson client, or delaybridge, takes the elements when they are due.
 *
 * <p>Every method runs one script; only {@link #cancelValue} reads the queue before. Threads may share an instance. A failure
 * of the client may leave open whether an offer was made (a time-out): repeat it with the same identity.
 */
public final class DelayedOffers<T> {
    private static final long MOST = 1L << 53;
    /** Visible ASCII without braces and the characters of patterns, and a colon at the end. */
    private static final Pattern PREFIXES = Pattern.compile("[!#-&(-)+->@-Z_-z|~]{0,63}:");

    private final RedisScripts redis;
    private final ValueCodec<? super T> codec;
    private final Layout layout;
    private final boolean redisClock;
    private final Clock clock;
    private final long window;
    private final String delayed;
    private final String list;
    private final String channel;
    private final String offers;

    private DelayedOffers(Builder<T> builder) {
        redis = builder.redis;
        codec = builder.codec;
        layout = builder.layout;
        redisClock = builder.redisClock;
        clock = builder.clock;
        window = Math.max(1, millis(builder.window));
        String tagged = builder.name.contains("{") ? builder.name : "{" + builder.name + "}";
        delayed = "redisson_delay_queue_timeout:" + tagged;
        list = "redisson_delay_queue:" + tagged;
        channel = "redisson_delay_queue_channel:" + tagged;
        offers = builder.keyPrefix + "offer:" + tagged + ":";
    }

    /**
     * Begins with what every queue needs.
     *
     * @param name the name of the destination queue, as Redisson's NameMapper maps it
     */
    public static <T> Builder<T> builder(RedisScripts redis, String name, ValueCodec<? super T> codec) {
        return new Builder<>(redis, name, codec);
    }

    /** The settings of a queue. */
    public static final class Builder<T> {
        private final RedisScripts redis;
        private final String name;
        private final ValueCodec<? super T> codec;
        private Layout layout = Layout.CURRENT;
        private boolean redisClock;
        private Clock clock = Clock.systemUTC();
        private Duration window = Duration.ofMinutes(10);
        private String keyPrefix = "delaybridge:";

        private Builder(RedisScripts redis, String name, ValueCodec<? super T> codec) {
            this.redis = Objects.requireNonNull(redis, "redis");
            this.name = Objects.requireNonNull(name, "name");
            this.codec = Objects.requireNonNull(codec, "codec");
            if (name.isEmpty()) {
                throw new IllegalArgumentException("name of the delayed queue: empty");
            }
        }

        /** The layout of the Redisson clients that use the queue; otherwise {@link Layout#CURRENT}. */
        public Builder<T> layout(Layout layout) {
            this.layout = Objects.requireNonNull(layout, "layout");
            return this;
        }

        /** Delays are added to this clock; otherwise to the system's, as Redisson does. */
        public Builder<T> clock(Clock clock) {
            this.clock = Objects.requireNonNull(clock, "clock");
            return this;
        }

        /** Delays are added to the clock of the Redis server. */
        public Builder<T> redisClock() {
            this.redisClock = true;
            return this;
        }

        /** How long an offer with an identity is remembered after it was made; otherwise ten minutes. */
        public Builder<T> window(Duration window) {
            this.window = Objects.requireNonNull(window, "window");
            return this;
        }

        /**
         * What the keys begin with that remember identities, as {@code redis.key_prefix} of the daemon; otherwise {@code delaybridge:}. The
         * same for all producers of the queue.
         */
        public Builder<T> keyPrefix(String keyPrefix) {
            if (!PREFIXES.matcher(keyPrefix).matches()) {
                throw new IllegalArgumentException("key prefix " + keyPrefix
                        + ": up to 64 visible ASCII characters without braces, ending with ':'");
            }
            this.keyPrefix = keyPrefix;
            return this;
        }

        public DelayedOffers<T> build() {
            return new DelayedOffers<>(this);
        }
    }

    /** Schedules a value after a delay. */
    public OfferId offer(T value, Duration delay) {
        return join(offerAsync(value, delay));
    }

    /** Schedules a value at a time. */
    public OfferId offer(T value, Instant due) {
        return join(offerAsync(value, due));
    }

    /** Schedules a value after a delay. */
    public CompletionStage<OfferId> offerAsync(T value, Duration delay) {
        return offerAllAsync(Collections.singletonList(Offer.in(delay, value))).thenApply(ids -> ids.get(0));
    }

    /** Schedules a value at a time. */
    public CompletionStage<OfferId> offerAsync(T value, Instant due) {
        return offerAllAsync(Collections.singletonList(Offer.at(due, value))).thenApply(ids -> ids.get(0));
    }

    /** Schedules all values in one script: all or none of them. A thousand at a time is a good number. */
    public List<OfferId> offerAll(Collection<Offer<T>> all) {
        return join(offerAllAsync(all));
    }

    /** Schedules all values in one script: all or none of them. A thousand at a time is a good number. */
    public CompletionStage<List<OfferId>> offerAllAsync(Collection<Offer<T>> all) {
        if (all.isEmpty()) {
            return CompletableFuture.completedFuture(Collections.emptyList());
        }
        List<String> identities = new ArrayList<>(all.size());
        List<String> keys = new ArrayList<>(Arrays.asList(delayed, list));
        List<byte[]> arguments = new ArrayList<>(Arrays.asList(bytes(channel), bytes(window)));
        for (Offer<T> offer : all) {
            byte[] payload = encode(offer.value);
            byte[] id;
            long key = 0;
            if (offer.identity == null) {
                id = Element.newId(layout);
            } else {
                id = identity(offer.identity);
                if (layout == Layout.CURRENT && payload.length == 0 && Element.isAmbiguous(id)) {
                    throw new IllegalArgumentException(
                            "identity " + offer.identity + ": with an empty payload it cannot end with 4301 or c301");
                }
                keys.add(offers + offer.identity);
                key = keys.size();
            }
            identities.add(String.format("%016x", new BigInteger(1, id)));
            arguments.add(bytes(time(offer)));
            arguments.add(Element.pack(layout, id, payload));
            arguments.add(bytes(key));
        }
        return redis.run(Script.OFFER, keys, arguments).thenApply(answer -> {
            List<?> dues = (List<?>) answer;
            List<OfferId> ids = new ArrayList<>(identities.size());
            for (int i = 0; i < identities.size(); i++) {
                ids.add(new OfferId(identities.get(i), Long.parseLong(text(dues.get(i)))));
            }
            return ids;
        });
    }

    /** Cancels an offer; returns whether it was still scheduled. */
    public boolean cancel(OfferId offer) {
        return join(cancelAsync(offer));
    }

    /** Cancels an offer; the answer is whether it was still scheduled. */
    public CompletionStage<Boolean> cancelAsync(OfferId offer) {
        return change("cancel", bytes(offer.dueMillis()), identity(offer.identity())).thenApply(n -> n == 1);
    }

    /** Cancels all offers of an equal value: of the same bytes. Returns their number. It reads the whole queue. */
    public long cancelValue(T value) {
        return join(cancelValueAsync(value));
    }

    /** Cancels all offers of an equal value: of the same bytes. The answer is their number. It reads the whole queue. */
    public CompletionStage<Long> cancelValueAsync(T value) {
        return cancelFrom(bytes(0), encode(value), 0);
    }

    private CompletionStage<Long> cancelFrom(byte[] cursor, byte[] payload, long before) {
        List<String> keys = Collections.singletonList(delayed);
        return redis.run(Script.PAGE, keys, Arrays.asList(cursor, bytes(100))).thenCompose(answer -> {
            List<?> page = (List<?>) answer;
            List<byte[]> found = new ArrayList<>();
            for (int i = 1; i < page.size(); i += 2) {
                if (Element.has((byte[]) page.get(i), payload)) {
                    found.add((byte[]) page.get(i));
                }
            }
            byte[] next = (byte[]) page.get(0);
            CompletionStage<Long> removed = found.isEmpty()
                    ? CompletableFuture.completedFuture(0L)
                    : change("remove", found.toArray(new byte[0][]));
            return removed.thenCompose(n -> text(next).equals("0")
                    ? CompletableFuture.completedFuture(before + n)
                    : cancelFrom(next, payload, before + n));
        });
    }

    /** Moves an offer to another time; returns its new id, or nothing if it is no longer scheduled. */
    public Optional<OfferId> reschedule(OfferId offer, Instant due) {
        return join(rescheduleAsync(offer, due));
    }

    /** Moves an offer to another time; the answer is its new id, or nothing if it is no longer scheduled. */
    public CompletionStage<Optional<OfferId>> rescheduleAsync(OfferId offer, Instant due) {
        long ms = millis(due);
        return change("move", bytes(offer.dueMillis()), identity(offer.identity()), bytes(ms), bytes(channel))
                .thenApply(n -> n == 1 ? Optional.of(new OfferId(offer.identity(), ms)) : Optional.empty());
    }

    private CompletionStage<Long> change(String what, byte[]... rest) {
        List<byte[]> arguments = new ArrayList<>();
        arguments.add(bytes(what));
        arguments.addAll(Arrays.asList(rest));
        return redis.run(Script.CHANGE, Arrays.asList(delayed, list), arguments)
                .thenApply(answer -> (Long) answer);
    }

    private byte[] encode(T value) {
        // Codecs write a question mark for a surrogate without its partner.
        if (value instanceof CharSequence) {
            CharSequence text = (CharSequence) value;
            if (text.codePoints().anyMatch(c -> c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE)) {
                throw new IllegalArgumentException("encode the value: a surrogate without its partner has no UTF-8 form");
            }
        }
        try {
            return codec.encode(value);
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalArgumentException("encode the value: " + e.getMessage(), e);
        }
    }

    /** The due time, or + and the delay. */
    private String time(Offer<T> offer) {
        if (offer.due != null) {
            return Long.toString(millis(offer.due));
        }
        long delay = millis(offer.delay);
        return redisClock ? "+" + delay : Long.toString(inRange(clock.millis() + delay, offer.delay));
    }

    /** Rounded up: never early. */
    private static long millis(Duration delay) {
        return inRange(Math.floorDiv(Math.addExact(Math.multiplyExact(delay.getSeconds(), 1_000_000L),
                (delay.getNano() + 999) / 1000) + 999, 1000L), delay);
    }

    private static long millis(Instant due) {
        return inRange(due.toEpochMilli() + (due.getNano() % 1_000_000 == 0 ? 0 : 1), due);
    }

    private static long inRange(long ms, Object given) {
        if (ms < 0 || ms > MOST) {
            throw new IllegalArgumentException("time " + given + ": negative, or more than Redis keeps exactly");
        }
        return ms;
    }

    private static byte[] identity(String hex) {
        byte[] id = new byte[8];
        long bits = Long.parseUnsignedLong(hex, 16);
        for (int i = 7; i >= 0; i--, bits >>>= 8) {
            id[i] = (byte) bits;
        }
        return id;
    }

    private static byte[] bytes(long number) {
        return bytes(Long.toString(number));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(Object bytes) {
        return new String((byte[]) bytes, StandardCharsets.UTF_8);
    }

    /** Waits, and throws what the client failed with. */
    private static <R> R join(CompletionStage<R> stage) {
        try {
            return stage.toCompletableFuture().join();
        } catch (CompletionException e) {
            if (e.getCause() instanceof RuntimeException) {
                throw (RuntimeException) e.getCause();
            }
            throw e;
        }
    }
}
