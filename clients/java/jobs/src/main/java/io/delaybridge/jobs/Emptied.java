package io.delaybridge.jobs;

/** The result of emptying a topic. */
public final class Emptied {
    private final long count;
    private final long left;

    Emptied(long count, long left) {
        this.count = count;
        this.left = left;
    }

    /** The number of removed jobs. */
    public long count() {
        return count;
    }

    /** The number of jobs that still wait. */
    public long left() {
        return left;
    }
}
