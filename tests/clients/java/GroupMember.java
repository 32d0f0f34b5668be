import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The `group` command of RoundTrip: a member that reports what happens to it until a line says `leave`. */
final class GroupMember implements ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = new HashMap<>();

    static {
        ASSIGNORS.put("range", "org.apache.kafka.clients.consumer.RangeAssignor");
        ASSIGNORS.put("roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor");
        ASSIGNORS.put("cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    }

    private final String topic;
    private final BlockingQueue<String> in;
    private final PrintStream out;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TreeSet<Integer> owned = new TreeSet<>();
    private final TreeMap<Integer, Long> positions = new TreeMap<>();

    /** words: group TOPIC GROUP ASSIGNOR INSTANCE SESSION_MS */
    GroupMember(String bootstrap, String[] words, BlockingQueue<String> in, PrintStream out) {
        this.topic = words[1];
        this.in = in;
        this.out = out;
        int sessionMs = Integer.parseInt(words[5]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", words[2]);
        if (words[3].equals("consumer")) {
            // The new protocol: the broker assigns, and says how often it wants to hear from us.
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", ASSIGNORS.get(words[3]));
            settings.put("session.timeout.ms", String.valueOf(sessionMs));
            settings.put("heartbeat.interval.ms", String.valueOf(sessionMs / 8));
        }
        if (!words[4].equals("-")) {
            settings.put("group.instance.id", words[4]);
        }
        settings.put("max.poll.interval.ms", "30000");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "100");
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    void live() throws Exception {
        try {
            consumer.subscribe(Collections.singletonList(topic), this);
            while (true) {
                Map<Integer, List<Long>> read = new TreeMap<>();
                for (ConsumerRecord<byte[], byte[]> record : RoundTrip.poll(consumer, 50)) {
                    read.computeIfAbsent(record.partition(), number -> new ArrayList<>()).add(record.offset());
                }
                for (Map.Entry<Integer, List<Long>> one : read.entrySet()) {
                    List<Long> offsets = one.getValue();
                    say("\"event\":\"read\",\"partition\":" + one.getKey() + ",\"offsets\":" + offsets);
                    long next = offsets.get(offsets.size() - 1) + 1;
                    positions.put(one.getKey(), next);
                    commit(Collections.singletonMap(one.getKey(), next));
                }
                String line = in.poll();
                if (line == null) {
                    continue;
                }
                if (line.equals("commit")) {
                    commit(new TreeMap<>(positions));
                } else if (line.equals("leave") || line.isEmpty()) {
                    return;
                }
            }
        } finally {
            consumer.close();
        }
    }

    private void commit(Map<Integer, Long> offsets) {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        StringBuilder shown = new StringBuilder();
        for (Map.Entry<Integer, Long> one : offsets.entrySet()) {
            wanted.put(new TopicPartition(topic, one.getKey()), new OffsetAndMetadata(one.getValue()));
            shown.append(shown.length() == 0 ? "" : ",").append('"').append(one.getKey()).append("\":").append(one.getValue());
        }
        if (wanted.isEmpty()) {
            say("\"event\":\"refused\",\"error\":\"it has nothing to commit\",\"committed\":{}");
            return;
        }
        try {
            consumer.commitSync(wanted);
            say("\"event\":\"committed\",\"committed\":{" + shown + "}," + named());
        } catch (KafkaException error) {
            say("\"event\":\"refused\",\"error\":" + RoundTrip.quoted(error.toString()) + ",\"committed\":{" + shown + "}");
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        owned.addAll(numbers(partitions));
        sayOwned("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        taken("revoked", partitions);
    }

    // It came with 2.4: without @Override it is compiled against older releases too.
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        taken("lost", partitions);
    }

    private void taken(String event, Collection<TopicPartition> partitions) {
        owned.removeAll(numbers(partitions));
        positions.keySet().removeAll(numbers(partitions));
        sayOwned(event, partitions);
    }

    private static TreeSet<Integer> numbers(Collection<TopicPartition> partitions) {
        TreeSet<Integer> numbers = new TreeSet<>();
        for (TopicPartition partition : partitions) {
            numbers.add(partition.partition());
        }
        return numbers;
    }

    private void sayOwned(String event, Collection<TopicPartition> partitions) {
        say("\"event\":\"" + event + "\",\"partitions\":" + numbers(partitions) + ",\"owned\":" + owned + "," + named());
    }

    /** Releases before 2.5 do not report them. */
    private String named() {
        try {
            Object metadata = KafkaConsumer.class.getMethod("groupMetadata").invoke(consumer);
            Object generation = metadata.getClass().getMethod("generationId").invoke(metadata);
            Object member = metadata.getClass().getMethod("memberId").invoke(metadata);
            return "\"generation\":" + generation + ",\"member\":" + RoundTrip.quoted(member.toString());
        } catch (ReflectiveOperationException old) {
            return "\"generation\":-1,\"member\":\"\"";
        }
    }

    private void say(String fields) {
        out.println("{" + fields + "}");
    }
}
