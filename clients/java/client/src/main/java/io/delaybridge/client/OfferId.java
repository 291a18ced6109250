package io.delaybridge.client;

import java.time.Instant;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What an offer is cancelled and moved by. Its text can be stored; {@link #parse} reads it. It has the due time in it, so a
 * moved offer has a new one.
 */
public final class OfferId {
    private static final Pattern TEXT = Pattern.compile("([0-9a-f]{16})-([0-9]{1,16})");

    private final String identity;
    private final long due;

    OfferId(String identity, long due) {
        this.identity = identity;
        this.due = due;
    }

    /**
     * Reads what {@link #toString} wrote.
     *
     * @throws IllegalArgumentException if it is something else
     */
    public static OfferId parse(String text) {
        Matcher parts = TEXT.matcher(text);
        if (!parts.matches()) {
            throw new IllegalArgumentException("offer id " + text + ": not one that an offer returned");
        }
        return new OfferId(parts.group(1), Long.parseLong(parts.group(2)));
    }

    /** The 16 hexadecimal digits that distinguish the element from others of the same value. */
    public String identity() {
        return identity;
    }

    /** The time at which the element is due. */
    public Instant due() {
        return Instant.ofEpochMilli(due);
    }

    long dueMillis() {
        return due;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof OfferId && due == ((OfferId) other).due && identity.equals(((OfferId) other).identity);
    }

    @Override
    public int hashCode() {
        return 31 * identity.hashCode() + Long.hashCode(due);
    }

    @Override
    public String toString() {
        return identity + "-" + due;
    }
}
