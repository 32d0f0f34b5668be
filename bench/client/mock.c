/* The mock cluster of librdkafka in a process of its own: mock [brokers=1]
 *
 * Prints its address on the first line.  Then reads commands, one a line, and responds to each with "ok":
 *     topic NAME PARTITIONS
 * Ends when its input ends.  It keeps the newest 5 MB of a partition in memory and stores nothing.
 */
#include "options.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

int main(int count, char **list) {
    char why[512], line[512], name[256];
    int partitions, brokers;
    option_count = count, option_list = list;
    brokers = (int)option_number("brokers", 1);
    rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof why);
    if (!client)
        fail("rd_kafka_new", why);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(client, brokers);
    if (!cluster)
        fail("mock", "no cluster");
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "topic %255s %d", name, &partitions) != 2)
            fail("command", line);
        if (rd_kafka_mock_topic_create(cluster, name, partitions, brokers))
            fail("topic", name);
        printf("ok\n");
        fflush(stdout);
    }
    return 0;
}
