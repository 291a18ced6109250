package io.delaybridge.jobs;

import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** A change of a job that waits. What is not given stays as it is. The methods return a copy with one more setting. */
public final class JobChange {
    final Map<String, Object> fields;

    private JobChange(Map<String, Object> fields) {
        this.fields = Collections.unmodifiableMap(fields);
    }

    public static JobChange delay(Duration delay) {
        return new JobChange(Map.of("delay_ms", Jobs.millis(delay)));
    }

    public static JobChange due(Instant due) {
        return new JobChange(Map.of("due_ms", millis(due)));
    }

    /** The due time stays: the body or the priority is changed. */
    public static JobChange body() {
        return new JobChange(Map.of());
    }

    public JobChange text(String body) {
        return with("body", body);
    }

    public JobChange bytes(byte[] body) {
        return with("body_base64", Base64.getEncoder().encodeToString(body));
    }

    /**
     * A body of JSON, as a mapper wrote it.
     *
     * @throws IllegalArgumentException if it is not JSON
     */
    public JobChange json(String body) {
        Json.read(body);
        return with("body", new Json.Raw(body));
    }

    public JobChange priority(int priority) {
        return with("priority", priority);
    }

    /** A job that has another due time is refused. */
    public JobChange ifDue(Instant due) {
        return with("if_due_ms", millis(due));
    }

    static long millis(Instant due) {
        return due.plusNanos(999_999).toEpochMilli();
    }

    private JobChange with(String name, Object value) {
        Map<String, Object> more = new LinkedHashMap<>(fields);
        more.put(name, value);
        return new JobChange(more);
    }
}
