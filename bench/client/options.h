/* Command-line options of the form key=value, and the clocks that every client here reads. */
#ifndef ODRADEK_BENCH_OPTIONS_H
#define ODRADEK_BENCH_OPTIONS_H
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int option_count;
static char **option_list;

/* The value of the last `key=value` argument, or `otherwise`. */
static inline const char *option(const char *key, const char *otherwise) {
    size_t length = strlen(key);
    for (int i = option_count - 1; i > 0; i--)
        if (!strncmp(option_list[i], key, length) && option_list[i][length] == '=')
            return option_list[i] + length + 1;
    return otherwise;
}

static inline long long option_number(const char *key, long long otherwise) {
    const char *text = option(key, NULL);
    return text ? atoll(text) : otherwise;
}

static inline double option_real(const char *key, double otherwise) {
    const char *text = option(key, NULL);
    return text ? atof(text) : otherwise;
}

static inline void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static inline int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CPU time of this process, user and system, in ns. */
static inline int64_t own_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CPU time of process `pid` in ns, all threads, those that ended too; 0 when pid is 0. */
static inline int64_t other_cpu_ns(long long pid) {
    clockid_t clock;
    struct timespec t;
    if (!pid)
        return 0;
    if (clock_getcpuclockid((pid_t)pid, &clock) || clock_gettime(clock, &t))
        fail("server_pid", "no such process");
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Writes and drops a scratch file of `warm_bytes` in the folder `warm_path` until that gets no cheaper,
 * so that the pages which come next were used a moment ago.  In a guest whose free memory goes back
 * to the host, the first touch of a page costs ten times the second.  Three things matter:
 * half a second later some pages are cold again, so this is called right before the clock starts;
 * one pass is not enough, because freed pages are not always the next ones to be taken;
 * the kernel takes blocks of pages by the size of a write, so the scratch file is written in steps
 * (`warm_step`) of about the broker's own writes, not aligned to pages: with aligned ones the broker
 * still paid 2.9 CPU s/GB in place of 0.5. */
static inline void warm_memory(void) {
    static char chunk[1 << 20];
    size_t step = (size_t)option_number("warm_step", 1000061);
    long long bytes = option_number("warm_bytes", 0);
    int64_t best_ns = INT64_MAX;
    int idle_passes = 0;
    if (!bytes)
        return;
    if (step > sizeof chunk)
        fail("warm_step", "too large");
    for (int pass = 0; pass < 8 && idle_passes < 2; pass++) {
        int scratch = open(option("warm_path", "/tmp"), O_TMPFILE | O_WRONLY, 0600);
        int64_t cost_ns = own_cpu_ns();
        if (scratch < 0)
            fail("warm_path", strerror(errno));
        for (long long left = bytes, turn = 0; left > 0; turn++) {
            size_t size = step * (size_t)(1 + turn * 7 % 16);
            ssize_t wrote = write(scratch, chunk, size < sizeof chunk ? size : step);
            if (wrote < 0)
                fail("warm_path", strerror(errno));
            left -= wrote;
        }
        close(scratch);
        cost_ns = own_cpu_ns() - cost_ns;
        if (option_number("warm_tell", 0))
            fprintf(stderr, "warming pass %d: %.2f CPU s/GB\n", pass, (double)cost_ns / bytes);
        idle_passes = cost_ns > best_ns * 0.9 ? idle_passes + 1 : 0;
        if (cost_ns < best_ns)
            best_ns = cost_ns;
    }
}

struct stopwatch {
    long long server_pid;
    int64_t wall_ns, own_ns, server_ns;
};

static inline struct stopwatch stopwatch_start(void) {
    struct stopwatch w = {.server_pid = option_number("server_pid", 0)};
    w.own_ns = own_cpu_ns();
    w.server_ns = other_cpu_ns(w.server_pid);
    w.wall_ns = now_ns();
    return w;
}

/* Turns the starting points into differences. */
static inline struct stopwatch stopwatch_stop(struct stopwatch w) {
    w.wall_ns = now_ns() - w.wall_ns;
    w.server_ns = other_cpu_ns(w.server_pid) - w.server_ns;
    w.own_ns = own_cpu_ns() - w.own_ns;
    return w;
}

/* Adds what `stopwatch_stop` gave for one part. */
static inline void stopwatch_add(struct stopwatch *sum, struct stopwatch part) {
    sum->wall_ns += part.wall_ns, sum->server_ns += part.server_ns, sum->own_ns += part.own_ns;
}

static int compare_int64(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Prints p50, p99, p99.9 and the largest of `count` times (ns) as members of a JSON object. */
static inline void print_percentiles(int64_t *times_ns, size_t count) {
    if (!count)
        fail("latency", "nothing was measured");
    qsort(times_ns, count, sizeof *times_ns, compare_int64);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, ",
           times_ns[count / 2] / 1e3, times_ns[(size_t)(count * 0.99)] / 1e3,
           times_ns[(size_t)(count * 0.999)] / 1e3, times_ns[count - 1] / 1e3);
}

static inline void print_stopwatch(struct stopwatch w) {
    printf("\"wall_s\": %.6f, \"server_cpu_s\": %.6f, \"client_cpu_s\": %.6f", w.wall_ns / 1e9,
           w.server_ns / 1e9, w.own_ns / 1e9);
}

#endif
