package io.delaybridge.jobs;

/** A request that the server refused, or did not answer. */
public final class JobException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String kind;
    private final int status;

    JobException(String kind, int status, String detail, Throwable cause) {
        super(kind + ": " + detail, cause);
        this.kind = kind;
        this.status = status;
    }

    /** The last part of the problem's type, as {@code not-yours}; or {@code no-answer}: then it may have been done. */
    public String kind() {
        return kind;
    }

    /** The status of HTTP, or 0 if there was no answer. */
    public int status() {
        return status;
    }

    /** Whether the job is no longer this consumer's. */
    boolean isLost() {
        return kind.equals("not-yours") || kind.equals("no-such-job");
    }
}
