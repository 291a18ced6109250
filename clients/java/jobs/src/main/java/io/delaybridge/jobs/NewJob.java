package io.delaybridge.jobs;

import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** A job to add. The methods return a copy with one more setting. */
public final class NewJob {
    final Map<String, Object> fields;

    private NewJob(Map<String, Object> fields) {
        this.fields = Collections.unmodifiableMap(fields);
    }

    public static NewJob text(String body) {
        return new NewJob(Map.of("body", body));
    }

    public static NewJob bytes(byte[] body) {
        return new NewJob(Map.of("body_base64", Base64.getEncoder().encodeToString(body)));
    }

    /**
     * A body of JSON, as a mapper wrote it.
     *
     * @throws IllegalArgumentException if it is not JSON
     */
    public static NewJob json(String body) {
        Json.read(body);
        return new NewJob(Map.of("body", new Json.Raw(body)));
    }

    /** The caller's own id: with it the request can be repeated. */
    public NewJob id(String id) {
        return with("id", id);
    }

    public NewJob delay(Duration delay) {
        return with("delay_ms", Jobs.millis(delay));
    }

    public NewJob due(Instant due) {
        return with("due_ms", JobChange.millis(due));
    }

    /** How long a consumer has the job, without a touch. */
    public NewJob ttr(Duration ttr) {
        return with("ttr_ms", Jobs.millis(ttr));
    }

    /** After so many attempts the job is dead. */
    public NewJob tries(int tries) {
        return with("tries", tries);
    }

    /** From 0 to 9: of the ready jobs, one with a higher priority is handed out first. */
    public NewJob priority(int priority) {
        return with("priority", priority);
    }

    /** How long the job exists. */
    public NewJob ttl(Duration ttl) {
        return with("ttl_ms", Jobs.millis(ttl));
    }

    /**
     * A key: while another job of the topic holds it, nothing is added, and the id is that of the other job. It is held for this
     * long, or until the job is gone.
     */
    public NewJob unique(String key, Duration lasts) {
        return with("unique", key).with("unique_for_ms", Jobs.millis(lasts));
    }

    /** The unique key is held for all of its time. */
    public NewJob uniqueUntilExpired() {
        return with("unique_until", "expired");
    }

    private NewJob with(String name, Object value) {
        Map<String, Object> more = new LinkedHashMap<>(fields);
        more.put(name, value);
        return new NewJob(more);
    }
}
