// A library for LD_PRELOAD into a Redis server. It moves the wall clock ahead by the microseconds in the first eight bytes of the
// file CHAOS_CLOCK, or back if they are negative. The file is mapped, so that a test can move the clock of a running server.
// Monotonic clocks do not change.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shared;

__attribute__((constructor)) static void map_the_file(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) shared = mapped;
    close(file);
}

static int64_t wall_us(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000 + (shared ? *shared : 0);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return (int)syscall(SYS_clock_gettime, clock, time);
    int64_t us = wall_us();
    time->tv_sec = us / 1000000;
    time->tv_nsec = us % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    int64_t us = wall_us();
    time->tv_sec = us / 1000000;
    time->tv_usec = us % 1000000;
    return 0;
}

time_t time(time_t *out) {
    time_t seconds = wall_us() / 1000000;
    if (out) *out = seconds;
    return seconds;
}
