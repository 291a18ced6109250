package io.delaybridge.jobs;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/** A recurring job of a topic, as the server shows it. */
public final class RecurringJob {
    private final Map<?, ?> fields;

    RecurringJob(Map<?, ?> fields) {
        this.fields = fields;
    }

    public String name() {
        return (String) fields.get("name");
    }

    /** Empty if another version of the server wrote it. */
    public Optional<String> cron() {
        return Optional.ofNullable((String) fields.get("cron"));
    }

    public Optional<String> zone() {
        return Optional.ofNullable((String) fields.get("zone"));
    }

    public boolean isPaused() {
        return Boolean.TRUE.equals(fields.get("paused"));
    }

    /** Empty while it is paused. */
    public Optional<Instant> next() {
        return next(fields);
    }

    static Optional<Instant> next(Map<?, ?> fields) {
        return Optional.ofNullable((Number) fields.get("next_ms")).map(ms -> Instant.ofEpochMilli(ms.longValue()));
    }
}
