/* A load client on librdkafka: bench MODE key=value...
 *
 * produce   records of `size` bytes as fast as they go; ends when all are acknowledged
 * consume   `records` records from the beginning of all partitions
 * latency   one record after the other, each awaited
 * transactions  of `each` records, `count` of them; or with each=0 of as many as go in `interval_ms`, for
 *               `seconds`; plain=1 sends the same without transactions
 *
 * brokers= topic= partitions=1 records= size= keys=0 parts=1 warm_bytes=0 warm_path=/tmp server_pid=0
 * timeout_s=120 set:NAME=VALUE (any librdkafka setting)
 * `keys` gives `produce` so many different keys of eight digits; 0: records have none.
 * `produce` stops the clock between its parts, and warms memory before each.
 * Prints one JSON object.  The first record to each partition, which opens connections, is not measured.
 */
#include "options.h"

#include <librdkafka/rdkafka.h>

enum { PAYLOAD_POOL_BYTES = 4 << 20, FETCH_MANY = 20000, PRODUCE_MANY = 500, KEY_BYTES = 8 };

static long long failed_count;
static long long delivered_count;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    delivered_count++;
    if (message->err && !failed_count++)
        fprintf(stderr, "delivery: %s\n", rd_kafka_err2str(message->err));
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char why[512];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        fail(name, why);
}

static rd_kafka_t *new_client(rd_kafka_type_t type, int report_all) {
    char why[512], name[128];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", option("brokers", "127.0.0.1:9092"));
    set(conf, "broker.address.family", "v4");
    if (type == RD_KAFKA_PRODUCER) {
        set(conf, "delivery.report.only.error", report_all ? "false" : "true");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    }
    for (int i = 2; i < option_count; i++) {
        char *equals = strchr(option_list[i], '=');
        if (strncmp(option_list[i], "set:", 4) || !equals)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - option_list[i] - 4), option_list[i] + 4);
        set(conf, name, equals + 1);
    }
    rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
    if (!client)
        fail("rd_kafka_new", why);
    return client;
}

/* Waits for the topic's metadata, so that no later step waits for it. */
static rd_kafka_topic_t *known_topic(rd_kafka_t *client) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, option("topic", "bench"), NULL);
    const struct rd_kafka_metadata *metadata;
    for (int i = 0; i < 100; i++) {
        if (rd_kafka_metadata(client, 0, topic, &metadata, 10000))
            continue;
        int known = metadata->topic_cnt == 1 && !metadata->topics[0].err &&
                    metadata->topics[0].partition_cnt >= option_number("partitions", 1);
        rd_kafka_metadata_destroy(metadata);
        if (known)
            return topic;
        usleep(50000);
    }
    fail("metadata", "the topic does not appear");
    return NULL;
}

static char *random_pool(void) {
    char *pool = malloc(PAYLOAD_POOL_BYTES);
    uint64_t state = 88172645463325252ull;
    for (size_t i = 0; i < PAYLOAD_POOL_BYTES; i += 8) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(pool + i, &state, 8);
    }
    return pool;
}

static void enqueue(rd_kafka_t *client, rd_kafka_topic_t *topic, int partition, char *value,
                    size_t size) {
    static int key_bytes = -1;
    if (key_bytes < 0)
        key_bytes = option_number("keys", 0) ? KEY_BYTES : 0;
    const char *key = key_bytes ? "00000000" : NULL;
    size_t length = (size_t)key_bytes;
    while (rd_kafka_produce(topic, partition, 0, value, size, key, length, NULL) == -1) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(client, 1);
    }
}

/* Hands over `count` records of one partition in one call: a quarter less client CPU than single calls. */
static void enqueue_many(rd_kafka_t *client, rd_kafka_topic_t *topic, int partition,
                         rd_kafka_message_t *messages, int count) {
    while (count) {
        int taken = rd_kafka_produce_batch(topic, partition, 0, messages, count), left = 0;
        if (taken == count)
            return;
        for (int i = 0; i < count; i++) {
            if (!messages[i].err)
                continue;
            if (messages[i].err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                fail("produce", rd_kafka_err2str(messages[i].err));
            messages[left] = messages[i];
            messages[left++].err = 0;
        }
        count = left;
        rd_kafka_poll(client, 1);
    }
}

static void flush(rd_kafka_t *client) {
    if (rd_kafka_flush(client, 300000) || failed_count)
        fail("produce", "records were not delivered");
}

static void print_rates(struct stopwatch w, long long records, long long bytes) {
    double wall_s = w.wall_ns / 1e9, gigabytes = bytes / 1e9;
    printf("{\"records\": %lld, \"bytes\": %lld, \"mb_s\": %.2f, \"rec_s\": %.0f, "
           "\"server_cpu_s_gb\": %.4f, \"client_cpu_s_gb\": %.4f, \"server_cpu_us_rec\": %.4f, ",
           records, bytes, bytes / 1e6 / wall_s, records / wall_s, w.server_ns / 1e9 / gigabytes,
           w.own_ns / 1e9 / gigabytes, w.server_ns / 1e3 / records);
    print_stopwatch(w);
    printf("}\n");
}

static void send_records(rd_kafka_t *client, rd_kafka_topic_t *topic, char *pool,
                         long long records) {
    static rd_kafka_message_t many[PRODUCE_MANY];
    static char keys[PRODUCE_MANY][KEY_BYTES + 1];
    static uint32_t position;
    unsigned key_count = (unsigned)option_number("keys", 0) % 100000000u;
    long long size = option_number("size", 1024), partitions = option_number("partitions", 1);
    uint32_t steps = (uint32_t)((PAYLOAD_POOL_BYTES - size) / 64);
    for (long long sent = 0, turn = 0; sent < records; turn++) {
        int count = records - sent < PRODUCE_MANY ? (int)(records - sent) : PRODUCE_MANY;
        memset(many, 0, sizeof many);
        for (int i = 0; i < count; i++) {
            many[i].payload = pool + position % steps * 64;
            many[i].len = (size_t)size;
            if (key_count) {
                snprintf(keys[i], sizeof keys[i], "%08u", position % key_count % 100000000u);
                many[i].key = keys[i];
                many[i].key_len = KEY_BYTES;
            }
            position += 97;
        }
        enqueue_many(client, topic, (int)(turn % partitions), many, count);
        sent += count;
    }
}

static void produce_records(rd_kafka_t *client, rd_kafka_topic_t *topic, char *pool,
                            long long records) {
    send_records(client, topic, pool, records);
    flush(client);
}

static void run_produce(void) {
    long long records = option_number("records", 100000), size = option_number("size", 1024);
    long long parts = option_number("parts", 1), each = records / parts;
    struct stopwatch sum = {0};
    char *pool = random_pool();
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, 0);
    rd_kafka_topic_t *topic = known_topic(client);
    for (int p = 0; p < option_number("partitions", 1); p++)
        enqueue(client, topic, p, pool, size);
    flush(client);
    for (int part = 0; part < parts; part++) {
        warm_memory();
        struct stopwatch w = stopwatch_start();
        produce_records(client, topic, pool, each);
        stopwatch_add(&sum, stopwatch_stop(w));
    }
    print_rates(sum, each * parts, each * parts * size);
}

static void run_consume(void) {
    long long wanted = option_number("records", 100000), partitions = option_number("partitions", 1);
    long long seen = 0, bytes = 0;
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, 0);
    rd_kafka_topic_t *topic = known_topic(client);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_message_t **batch = malloc(FETCH_MANY * sizeof *batch);
    warm_memory();
    struct stopwatch w = stopwatch_start();
    for (int p = 0; p < partitions; p++)
        if (rd_kafka_consume_start_queue(topic, p, RD_KAFKA_OFFSET_BEGINNING, queue))
            fail("consume", rd_kafka_err2str(rd_kafka_last_error()));
    while (seen < wanted) {
        ssize_t count = rd_kafka_consume_batch_queue(queue, 100, batch, FETCH_MANY);
        for (ssize_t i = 0; i < count; i++) {
            if (!batch[i]->err)
                seen++, bytes += batch[i]->len;
            else if (batch[i]->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
                fail("consume", rd_kafka_message_errstr(batch[i]));
            rd_kafka_message_destroy(batch[i]);
        }
    }
    print_rates(stopwatch_stop(w), seen, bytes);
}

static int64_t await_one(rd_kafka_t *client, rd_kafka_topic_t *topic, char *value, size_t size) {
    long long before = delivered_count;
    int64_t start_ns = now_ns();
    enqueue(client, topic, 0, value, size);
    while (delivered_count == before)
        rd_kafka_poll(client, 1000);
    if (failed_count)
        fail("latency", "a record was not delivered");
    return now_ns() - start_ns;
}

static void run_latency(void) {
    long long records = option_number("records", 10000), size = option_number("size", 100);
    long long warm = option_number("warm", records / 5);
    char *pool = random_pool();
    int64_t *times_ns = malloc(records * sizeof *times_ns);
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, 1);
    rd_kafka_topic_t *topic = known_topic(client);
    for (long long i = 0; i < warm; i++)
        await_one(client, topic, pool, size);
    struct stopwatch w = stopwatch_start();
    for (long long i = 0; i < records; i++)
        times_ns[i] = await_one(client, topic, pool, size);
    w = stopwatch_stop(w);
    printf("{\"records\": %lld, \"server_cpu_us_rec\": %.3f, ", records, w.server_ns / 1e3 / records);
    print_percentiles(times_ns, records);
    print_stopwatch(w);
    printf("}\n");
}

static void check(const char *what, rd_kafka_error_t *error) {
    if (error)
        fail(what, rd_kafka_error_string(error));
}

/* Returns how many records it sent. */
static long long transact(rd_kafka_t *client, rd_kafka_topic_t *topic, char *pool) {
    long long each = option_number("each", 0), sent = 0;
    int is_plain = (int)option_number("plain", 0);
    int64_t end_ns = now_ns() + (int64_t)(option_real("interval_ms", 0) * 1e6);
    if (!is_plain)
        check("begin", rd_kafka_begin_transaction(client));
    do {
        send_records(client, topic, pool, each ? each : PRODUCE_MANY);
        sent += each ? each : PRODUCE_MANY;
    } while (!each && now_ns() < end_ns);
    if (is_plain)
        flush(client);
    else
        check("commit", rd_kafka_commit_transaction(client, 60000));
    return sent;
}

static void run_transactions(void) {
    long long count = option_number("count", 1 << 20), done = 0, records = 0;
    double seconds = option_real("seconds", 1e6);
    int64_t *times_ns = malloc(count * sizeof *times_ns);
    char *pool = random_pool();
    /* Without a report of each record a flush, which is a part of each commit, looks every 10 ms only. */
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, 1);
    rd_kafka_topic_t *topic = known_topic(client);
    if (!option_number("plain", 0))
        check("init", rd_kafka_init_transactions(client, 60000));
    for (long long i = 0; i < option_number("warm", 1); i++)
        transact(client, topic, pool);
    warm_memory();
    struct stopwatch w = stopwatch_start();
    for (int64_t now = w.wall_ns; done < count && now < w.wall_ns + seconds * 1e9; done++) {
        int64_t start_ns = now;
        records += transact(client, topic, pool);
        now = now_ns();
        times_ns[done] = now - start_ns;
    }
    w = stopwatch_stop(w);
    printf("{\"transactions\": %lld, \"txn_s\": %.2f, \"server_cpu_us_txn\": %.2f, "
           "\"client_cpu_us_txn\": %.2f, ",
           done, done / (w.wall_ns / 1e9), w.server_ns / 1e3 / done, w.own_ns / 1e3 / done);
    print_percentiles(times_ns, done);
    printf("\"rec_s\": %.0f, \"mb_s\": %.2f, \"server_cpu_s_gb\": %.4f, ",
           records / (w.wall_ns / 1e9), records * option_number("size", 1024) / 1e6 / (w.wall_ns / 1e9),
           w.server_ns / 1.0 / (records * option_number("size", 1024)));
    print_stopwatch(w);
    printf("}\n");
}

int main(int count, char **list) {
    option_count = count, option_list = list;
    alarm((unsigned)option_number("timeout_s", 120));
    if (count > 1 && !strcmp(list[1], "produce"))
        run_produce();
    else if (count > 1 && !strcmp(list[1], "consume"))
        run_consume();
    else if (count > 1 && !strcmp(list[1], "latency"))
        run_latency();
    else if (count > 1 && !strcmp(list[1], "transactions"))
        run_transactions();
    else
        fail("bench", "first argument: produce, consume, latency or transactions");
    fflush(stdout);
    _exit(0); /* tearing the client down can wait seconds for a long poll, and measures nothing */
}
