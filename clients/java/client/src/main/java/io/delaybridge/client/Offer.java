package io.delaybridge.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Objects;
import java.util.regex.Pattern;

/** One element of a batch. */
public final class Offer<T> {
    private static final Pattern IDENTITY = Pattern.compile("[0-9a-fA-F]{16}");

    final T value;
    /** One of the two. */
    final Duration delay;
    final Instant due;
    /** May be null. */
    final String identity;

    private Offer(T value, Duration delay, Instant due, String identity) {
        this.value = value;
        this.delay = delay;
        this.due = due;
        this.identity = identity;
    }

    /** A value that is due after a delay. */
    public static <T> Offer<T> in(Duration delay, T value) {
        return new Offer<>(value, Objects.requireNonNull(delay, "delay"), null, null);
    }

    /** A value that is due at a time. */
    public static <T> Offer<T> at(Instant due, T value) {
        return new Offer<>(value, null, Objects.requireNonNull(due, "due"), null);
    }

    /**
     * The same offer with an identity of the caller's: 16 hexadecimal digits that only this offer has. A repeated offer
     * with it changes nothing, and returns the same id.
     */
    public Offer<T> withIdentity(String identity) {
        if (!IDENTITY.matcher(identity).matches()) {
            throw new IllegalArgumentException("identity " + identity + ": not 16 hexadecimal digits");
        }
        return new Offer<>(value, delay, due, identity.toLowerCase(java.util.Locale.ROOT));
    }
}
