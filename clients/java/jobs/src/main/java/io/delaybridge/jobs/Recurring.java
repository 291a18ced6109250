package io.delaybridge.jobs;

import java.time.ZoneId;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** A recurring job: a job is added at each time of a cron expression. The methods return a copy with one more setting. */
public final class Recurring {
    final Map<String, Object> fields;

    private Recurring(Map<String, Object> fields) {
        this.fields = Collections.unmodifiableMap(fields);
    }

    /**
     * A recurring job in UTC.
     *
     * @param cron minute, hour, day of the month, month, day of the week
     * @param job the jobs that are added, without an id and a time
     */
    public static Recurring of(String cron, NewJob job) {
        Map<String, Object> fields = new LinkedHashMap<>(job.fields);
        fields.put("cron", cron);
        return new Recurring(fields);
    }

    public Recurring zone(ZoneId zone) {
        return with("zone", zone.getId());
    }

    /** No job is added for firings that no daemon was there for. Without this one job is added for all of them. */
    public Recurring skipMissed() {
        return with("missed", "skip");
    }

    /** A job is added for each firing that no daemon was there for, the latest hundred at most. */
    public Recurring makeUpForMissed() {
        return with("missed", "all");
    }

    private Recurring with(String name, Object value) {
        Map<String, Object> more = new LinkedHashMap<>(fields);
        more.put(name, value);
        return new Recurring(more);
    }
}
