/* Pre-built Produce v7 requests over raw sockets, many in flight: pipeline key=value...
 *
 * host=127.0.0.1 port= topic= partitions=1 connections=4 depth=8 batch_records=1 size=100 acks=1
 * seconds=2 parts=1 warm_seconds=0.3 warm_bytes=0 warm_path=/tmp server_pid=0 timeout_s=120
 * Connection c writes to partition c % partitions.  Prints one JSON object: rate, CPU, time from send to response.
 * Between parts the clock stands still, all responses are awaited and memory is warmed.
 * With connections=1 depth=1 it measures one request at a time without a client library.
 */
#include "options.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

enum { MAX_DEPTH = 1024, RECEIVE_BYTES = 1 << 16, MAX_SAMPLES = 4 << 20, MAX_CONNECTIONS = 4096 };

struct buffer {
    char *start;
    size_t used;
};

struct connection {
    int socket;
    struct buffer request;
    size_t send_position;      /* bytes already sent of the request that is being sent */
    int in_flight;             /* requests sent in whole or begun, not answered */
    int64_t sent_ns[MAX_DEPTH];
    unsigned sent_count, answered_count;
    char received[RECEIVE_BYTES];
    size_t received_bytes;
    int wants_write;
};

static int64_t *samples_ns;
static size_t sample_count;
static unsigned long long answered_total;
static int depth, topic_bytes;
static int in_flight_total, connection_count, is_draining;
static struct connection *all[MAX_CONNECTIONS];

static void put(struct buffer *b, const void *data, size_t length) {
    memcpy(b->start + b->used, data, length);
    b->used += length;
}

static void put8(struct buffer *b, int8_t v) { put(b, &v, 1); }
static void put16(struct buffer *b, int16_t v) { v = htobe16(v), put(b, &v, 2); }
static void put32(struct buffer *b, int32_t v) { v = htobe32(v), put(b, &v, 4); }
static void put64(struct buffer *b, int64_t v) { v = htobe64(v), put(b, &v, 8); }

static void put_string(struct buffer *b, const char *text) {
    put16(b, (int16_t)strlen(text));
    put(b, text, strlen(text));
}

static void put_varint(struct buffer *b, int64_t v) {
    uint64_t zigzag = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
    while (zigzag >= 128)
        put8(b, (int8_t)(zigzag | 128)), zigzag >>= 7;
    put8(b, (int8_t)zigzag);
}

static int varint_bytes(int64_t v) {
    uint64_t zigzag = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
    int bytes = 1;
    while (zigzag >>= 7)
        bytes++;
    return bytes;
}

static uint32_t crc32c(const unsigned char *data, size_t length) {
    uint32_t crc = ~0u;
    while (length--) {
        crc ^= *data++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* A record batch of format 2: offset 0, epoch -1, no producer, `records` records without key. */
static void put_batch(struct buffer *b, int records, int size) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t timestamp_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    char *batch = b->start + b->used;
    char *value = malloc((size_t)size);
    for (int i = 0; i < size; i++)
        value[i] = (char)random();
    put64(b, 0), put32(b, 0), put32(b, -1), put8(b, 2), put32(b, 0); /* length and CRC are set below */
    put16(b, 0), put32(b, records - 1), put64(b, timestamp_ms), put64(b, timestamp_ms);
    put64(b, -1), put16(b, -1), put32(b, -1), put32(b, records);
    for (int i = 0; i < records; i++) {
        int body = 1 + 1 + varint_bytes(i) + 1 + varint_bytes(size) + size + 1;
        put_varint(b, body), put8(b, 0), put_varint(b, 0), put_varint(b, i);
        put_varint(b, -1), put_varint(b, size), put(b, value, (size_t)size), put_varint(b, 0);
    }
    free(value);
    size_t total = (size_t)(b->start + b->used - batch);
    int32_t length = htobe32((int32_t)(total - 12));
    uint32_t crc = htobe32(crc32c((unsigned char *)batch + 21, total - 21));
    memcpy(batch + 8, &length, 4);
    memcpy(batch + 17, &crc, 4);
}

static struct buffer build_request(const char *topic, int partition) {
    int records = (int)option_number("batch_records", 1), size = (int)option_number("size", 100);
    struct buffer b = {malloc((size_t)(records * (size + 32) + 1024)), 4};
    put16(&b, 0), put16(&b, 7), put32(&b, 1), put_string(&b, "pipeline");
    put16(&b, -1), put16(&b, (int16_t)option_number("acks", 1)), put32(&b, 30000);
    put32(&b, 1), put_string(&b, topic), put32(&b, 1), put32(&b, partition);
    size_t length_at = b.used;
    put32(&b, 0);
    put_batch(&b, records, size);
    int32_t batch_bytes = htobe32((int32_t)(b.used - length_at - 4));
    int32_t frame_bytes = htobe32((int32_t)(b.used - 4));
    memcpy(b.start + length_at, &batch_bytes, 4);
    memcpy(b.start, &frame_bytes, 4);
    return b;
}

static int open_socket(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons((uint16_t)option_number("port", 9092));
    inet_pton(AF_INET, option("host", "127.0.0.1"), &address.sin_addr);
    if (connect(fd, (struct sockaddr *)&address, sizeof address))
        fail("connect", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Fills the pipe: sends until `depth` requests are in flight or the socket is full. */
static void send_some(struct connection *c) {
    c->wants_write = 0;
    while ((c->in_flight < depth && !is_draining) || c->send_position) {
        if (!c->send_position) {
            c->sent_ns[c->sent_count++ % MAX_DEPTH] = now_ns();
            c->in_flight++, in_flight_total++;
        }
        ssize_t sent = send(c->socket, c->request.start + c->send_position,
                            c->request.used - c->send_position, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            fail("send", strerror(errno));
        if (sent > 0)
            c->send_position += (size_t)sent;
        if (c->send_position == c->request.used)
            c->send_position = 0;
        else {
            /* begun and not ended: the position stays above 0, or nothing was sent at all */
            if (!c->send_position)
                c->sent_count--, c->in_flight--, in_flight_total--;
            c->wants_write = 1;
            return;
        }
    }
}

static void on_response(struct connection *c, const char *frame, size_t bytes, int64_t at_ns) {
    size_t error_at = 4 + 4 + 2 + (size_t)topic_bytes + 4 + 4;
    int16_t error;
    if (bytes < error_at + 2)
        fail("response", "too short");
    memcpy(&error, frame + error_at, 2);
    if (error) {
        fprintf(stderr, "response: error code %d\n", (int16_t)be16toh(error));
        exit(1);
    }
    if (sample_count < MAX_SAMPLES)
        samples_ns[sample_count++] = at_ns - c->sent_ns[c->answered_count % MAX_DEPTH];
    c->answered_count++;
    c->in_flight--, in_flight_total--;
    answered_total++;
}

static void receive_some(struct connection *c) {
    ssize_t got = recv(c->socket, c->received + c->received_bytes, RECEIVE_BYTES - c->received_bytes,
                       MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        fail("receive", got ? strerror(errno) : "the broker closed the connection");
    c->received_bytes += (size_t)got;
    size_t at = 0;
    int64_t at_ns = now_ns();
    while (c->received_bytes - at >= 4) {
        uint32_t length;
        memcpy(&length, c->received + at, 4);
        length = be32toh(length);
        if (length > RECEIVE_BYTES - 4)
            fail("response", "too long");
        if (c->received_bytes - at < 4 + (size_t)length)
            break;
        on_response(c, c->received + at + 4, length, at_ns);
        at += 4 + length;
    }
    memmove(c->received, c->received + at, c->received_bytes - at);
    c->received_bytes -= at;
}

static void watch(int poller, struct connection *c, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (c->wants_write ? EPOLLOUT : 0u), .data.ptr = c};
    epoll_ctl(poller, operation, c->socket, &event);
}

/* Handles what comes until `end_ns`, or while draining until nothing is in flight. */
static void run_until(int poller, int64_t end_ns) {
    struct epoll_event events[256];
    while (is_draining ? in_flight_total > 0 : now_ns() < end_ns) {
        int count = epoll_wait(poller, events, 256, 100);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            int wanted = c->wants_write;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                receive_some(c);
            send_some(c);
            if (wanted != c->wants_write)
                watch(poller, c, EPOLL_CTL_MOD);
        }
    }
}

static void open_all(int poller, const char *topic) {
    int partitions = (int)option_number("partitions", 1);
    connection_count = (int)option_number("connections", 4);
    if (connection_count < 1 || connection_count > MAX_CONNECTIONS)
        fail("connections", "out of range");
    for (int i = 0; i < connection_count; i++) {
        struct connection *c = all[i] = calloc(1, sizeof *c);
        c->socket = open_socket();
        c->request = build_request(topic, i % partitions);
        watch(poller, c, EPOLL_CTL_ADD);
    }
}

/* Loads the broker for `seconds`, then waits for the responses, with the clock running. */
static struct stopwatch run_part(int poller, double seconds) {
    struct stopwatch w = stopwatch_start();
    for (int i = 0; i < connection_count; i++) {
        send_some(all[i]);
        if (all[i]->wants_write)
            watch(poller, all[i], EPOLL_CTL_MOD);
    }
    run_until(poller, now_ns() + (int64_t)(seconds * 1e9));
    is_draining = 1;
    run_until(poller, 0);
    is_draining = 0;
    return stopwatch_stop(w);
}

int main(int count, char **list) {
    option_count = count, option_list = list;
    alarm((unsigned)option_number("timeout_s", 120));
    const char *topic = option("topic", "bench");
    int poller = epoll_create1(0), parts = (int)option_number("parts", 1);
    struct stopwatch w = {0};
    depth = (int)option_number("depth", 8);
    if (depth < 1 || depth >= MAX_DEPTH)
        fail("depth", "out of range");
    topic_bytes = (int)strlen(topic);
    samples_ns = malloc(MAX_SAMPLES * sizeof *samples_ns);
    open_all(poller, topic);
    run_part(poller, option_real("warm_seconds", 0.3));
    sample_count = 0, answered_total = 0;
    for (int part = 0; part < parts; part++) {
        warm_memory();
        stopwatch_add(&w, run_part(poller, option_real("seconds", 2) / parts));
    }
    double batch_bytes = (double)option_number("batch_records", 1) * option_number("size", 100);
    printf("{\"requests\": %llu, \"req_s\": %.0f, \"server_cpu_us_req\": %.3f, \"mb_s\": %.2f, "
           "\"server_cpu_s_gb\": %.4f, ",
           answered_total, answered_total / (w.wall_ns / 1e9), w.server_ns / 1e3 / answered_total,
           answered_total * batch_bytes / 1e6 / (w.wall_ns / 1e9),
           w.server_ns / (answered_total * batch_bytes));
    print_percentiles(samples_ns, sample_count);
    print_stopwatch(w);
    printf("}\n");
    return 0;
}
