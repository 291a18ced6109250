package io.delaybridge.jobs;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Takes jobs and calls a handler with each.
 *
 * <p>A job is finished when the handler returns, and released when it throws. While it works, its time to run is restarted; if
 * another consumer gets the job all the same, the handler's thread is interrupted.
 */
public final class Worker {
    private static final Logger LOG = System.getLogger(Worker.class.getName());

    private final Jobs jobs;
    private final List<String> topics;
    private final Handler handler;
    private final int threads;
    private final Duration wait;
    private final CountDownLatch stopping = new CountDownLatch(1);

    /** What is done with a job. */
    @FunctionalInterface
    public interface Handler {
        void handle(Job job) throws Exception;
    }

    /** A worker with one thread, which waits two seconds for a job in one request. */
    public Worker(Jobs jobs, String topic, Handler handler) {
        this(jobs, Collections.singleton(topic), handler, 1, Duration.ofSeconds(2));
    }

    /**
     * A worker with all settings.
     *
     * @param threads how many jobs it has at a time
     * @param wait how long it waits for a job in one request: {@link #stop} may take as long
     */
    public Worker(Jobs jobs, Collection<String> topics, Handler handler, int threads, Duration wait) {
        if (threads < 1) {
            throw new IllegalArgumentException("threads " + threads + ": at least one is needed");
        }
        this.jobs = Objects.requireNonNull(jobs, "jobs");
        this.topics = new ArrayList<>(topics);
        this.handler = Objects.requireNonNull(handler, "handler");
        this.threads = threads;
        this.wait = Objects.requireNonNull(wait, "wait");
    }

    /** Makes {@link #run} return: nothing more is taken, and jobs in hand are completed. Any thread may call it. */
    public void stop() {
        stopping.countDown();
    }

    /** Works until {@link #stop}, or until its thread is interrupted. */
    public void run() {
        Semaphore free = new Semaphore(threads);
        ExecutorService pool = Executors.newFixedThreadPool(threads, work -> new Thread(work, "delaybridge-job"));
        try {
            long pause = 100;
            // Nothing is taken that no thread is free for.
            while (!stopped(0)) {
                if (!free.tryAcquire(100, TimeUnit.MILLISECONDS)) {
                    continue;
                }
                List<Job> found = Collections.emptyList();
                try {
                    found = jobs.pop(topics, 1, wait);
                    pause = 100;
                } catch (JobException e) {
                    LOG.log(Level.WARNING, "take a job of " + topics + ": " + e.getMessage());
                    stopped(pause);
                    pause = Math.min(2 * pause, 5_000);
                }
                if (found.isEmpty()) {
                    free.release();
                }
                for (Job job : found) {
                    pool.execute(() -> {
                        try {
                            work(job);
                        } finally {
                            free.release();
                        }
                    });
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            pool.shutdown();
            complete(pool);
        }
    }

    private boolean stopped(long waitMillis) throws InterruptedException {
        return stopping.await(waitMillis, TimeUnit.MILLISECONDS);
    }

    /** Waits for the jobs in hand, whether the thread is interrupted or not. */
    private static void complete(ExecutorService pool) {
        boolean interrupted = false;
        while (true) {
            try {
                if (pool.awaitTermination(1, TimeUnit.HOURS)) {
                    break;
                }
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void work(Job job) {
        Throwable failure = null;
        Keeper keeper = new Keeper(job);
        try {
            handler.handle(job);
        } catch (Throwable e) { // an Error too must not leave the job to its time to run
            LOG.log(Level.ERROR, "work on job " + job.id(), e);
            failure = e;
        } finally {
            keeper.end();
        }
        try {
            if (failure == null) {
                jobs.finish(job);
            } else {
                String reason = failure.toString();
                jobs.release(job, reason.substring(0, Math.min(reason.length(), 200)));
            }
        } catch (JobException e) {
            LOG.log(Level.WARNING, "end job " + job.id() + ": " + e.getMessage());
        }
    }

    /** Restarts a job's time to run while the thread that made it works. */
    private final class Keeper {
        private final Job job;
        private final Thread worker = Thread.currentThread();
        private final CountDownLatch done = new CountDownLatch(1);
        private final Thread toucher = new Thread(this::keep, "delaybridge-touch");

        Keeper(Job job) {
            this.job = job;
            toucher.setDaemon(true);
            toucher.start();
        }

        private void keep() {
            try {
                while (!done.await(Math.max(1, job.ttr().toMillis() / 3), TimeUnit.MILLISECONDS)) {
                    try {
                        jobs.touch(job);
                    } catch (JobException e) {
                        LOG.log(Level.WARNING, "keep job " + job.id() + ": " + e.getMessage());
                        if (e.isLost()) {
                            worker.interrupt();
                            return;
                        }
                    }
                }
            } catch (InterruptedException e) {
                // Nobody does that.
                Thread.currentThread().interrupt();
            }
        }

        /** Returns when no touch and no interruption can follow: neither may meet the verdict. */
        void end() {
            done.countDown();
            while (true) {
                Thread.interrupted();
                try {
                    toucher.join();
                    break;
                } catch (InterruptedException e) {
                    // By the toucher's own last act.
                }
            }
            Thread.interrupted();
        }
    }
}
