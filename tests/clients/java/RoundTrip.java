import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client behind the line protocol of tests/clients/README.md. One source for every release
 * from 1.1 to 4.x: poll(long) went away in 4.0 and poll(Duration) came with 2.0, so poll is looked up.
 */
public final class RoundTrip {
    private static final long WAIT_MS = 30_000;
    private static final int CAUSES_MAX = 10;

    private final String bootstrap;
    private final BlockingQueue<String> in;
    private final PrintStream out;

    private RoundTrip(String bootstrap, BlockingQueue<String> in, PrintStream out) {
        this.bootstrap = bootstrap;
        this.in = in;
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 2 || !arguments[0].equals("--bootstrap")) {
            System.err.println("usage: RoundTrip --bootstrap HOST:PORT[,...]");
            System.exit(2);
        }
        new RoundTrip(
                arguments[1],
                input(),
                new PrintStream(System.out, true, "UTF-8"))
            .serve();
    }

    /** The lines of the input, an empty one for its end: a member of a group reads them beside its work. */
    private static BlockingQueue<String> input() {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    lines.add(line);
                }
            } catch (java.io.IOException broken) {
                System.err.println(broken);
            }
            lines.add("");
        });
        reader.setDaemon(true);
        reader.start();
        return lines;
    }

    private void serve() throws Exception {
        for (String line = in.take(); !line.isEmpty(); line = in.take()) {
            String[] words = line.split(" ");
            try {
                switch (words[0]) {
                    case "create": create(words[1], Integer.parseInt(words[2])); break;
                    case "produce": produce(words); break;
                    case "consume":
                        consume(new TopicPartition(words[1], Integer.parseInt(words[2])), words[3], Integer.parseInt(words[4]));
                        break;
                    case "transact": transact(words[1], words[2], Integer.parseInt(words[3]), words[4]); break;
                    case "transactions": transactions(words[1], words[2], Integer.parseInt(words[3]), words[4]); break;
                    case "replaced": replaced(words[1], words[2]); break;
                    case "group": new GroupMember(bootstrap, words, in, out).live(); break;
                    default: throw new IllegalArgumentException("unknown command " + words[0]);
                }
                out.println("{\"done\":true}");
            } catch (java.lang.reflect.InvocationTargetException error) {
                error.getCause().printStackTrace();
                out.println("{\"error\":" + quoted(error.getCause().toString()) + "}");
            } catch (Exception error) {
                out.println("{\"error\":" + quoted(withCauses(error)) + "}");
            }
        }
    }

    /** An error and what it was caused by; the same text again is left out. */
    private static String withCauses(Throwable error) {
        StringBuilder text = new StringBuilder(error.toString());
        Throwable cause = error.getCause();
        for (int depth = 0; cause != null && depth < CAUSES_MAX; depth++) {
            if (text.indexOf(cause.toString()) < 0) {
                text.append(", caused by ").append(cause);
            }
            cause = cause.getCause();
        }
        for (Throwable suppressed : error.getSuppressed()) {
            text.append(", and ").append(suppressed);
        }
        return text.toString();
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private void create(String topic, int partitions) throws Exception {
        try (AdminClient admin = AdminClient.create(settings())) {
            admin.createTopics(Collections.singletonList(new NewTopic(topic, partitions, (short) 1)))
                .all()
                .get(WAIT_MS, TimeUnit.MILLISECONDS);
        }
    }

    private KafkaProducer<byte[], byte[]> transactional(String id) {
        Properties settings = settings();
        settings.put("transactional.id", id);
        settings.put("max.block.ms", WAIT_MS);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        return new KafkaProducer<>(settings);
    }

    /** One producer; every third transaction is aborted.  Each commits offsets of a group too. */
    private void transactions(String id, String topic, int count, String group) throws Exception {
        // By reflection: the oldest releases do not know the class.
        Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
        Object metadata = kind.getConstructor(String.class).newInstance(group);
        java.lang.reflect.Method commit =
            KafkaProducer.class.getMethod("sendOffsetsToTransaction", java.util.Map.class, kind);
        try (KafkaProducer<byte[], byte[]> producer = transactional(id)) {
            producer.initTransactions();
            for (int number = 0; number < count; number++) {
                producer.beginTransaction();
                byte[] value = (id + "-" + number).getBytes("UTF-8");
                producer.send(new ProducerRecord<>(topic, 0, null, value));
                commit.invoke(
                    producer,
                    Collections.singletonMap(
                        new TopicPartition(topic, 0),
                        new org.apache.kafka.clients.consumer.OffsetAndMetadata(number)),
                    metadata);
                if (number % 3 == 2) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
    }

    /** A producer writes after another one with its id has written: it cannot commit. */
    private void replaced(String id, String topic) throws Exception {
        try (KafkaProducer<byte[], byte[]> zombie = transactional(id)) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic, 0, null, "zombie".getBytes("UTF-8")));
            zombie.flush();
            transact(id, topic, 1, "commit");
            try {
                zombie.commitTransaction();
            } catch (KafkaException fenced) {
                // Older releases have no InvalidProducerEpochException.
                String name = fenced.getClass().getSimpleName();
                if (name.equals("ProducerFencedException") || name.equals("InvalidProducerEpochException")) {
                    return;
                }
                throw fenced;
            }
            throw new IllegalStateException("the zombie has committed");
        }
    }

    private void transact(String id, String topic, int count, String outcome) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = transactional(id)) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int number = 0; number < count; number++) {
                byte[] value = (id + "-" + outcome + "-" + number).getBytes("UTF-8");
                producer.send(new ProducerRecord<>(topic, 0, null, value));
            }
            producer.flush();
            if (outcome.equals("commit")) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
    }

    private void produce(String[] words) throws Exception {
        int count = Integer.parseInt(words[5]);
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            records.add(record(words[1], in.take().split(" ")));
        }
        Properties settings = settings();
        settings.put("compression.type", words[2]);
        settings.put("acks", words[3]);
        settings.put("enable.idempotence", words[4]);
        settings.put("linger.ms", "5");
        List<Future<RecordMetadata>> pending = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (ProducerRecord<byte[], byte[]> record : records) {
                pending.add(producer.send(record));
            }
            producer.flush();
        }
        for (Future<RecordMetadata> future : pending) {
            RecordMetadata metadata = future.get(WAIT_MS, TimeUnit.MILLISECONDS);
            out.println("{\"partition\":" + metadata.partition() + ",\"offset\":" + metadata.offset() + "}");
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, String[] words) {
        List<Header> headers = new ArrayList<>();
        if (!words[4].equals("-")) {
            for (String header : words[4].split(",")) {
                int colon = header.indexOf(':');
                headers.add(new RecordHeader(header.substring(0, colon), bytes(header.substring(colon + 1))));
            }
        }
        return new ProducerRecord<>(
            topic, Integer.parseInt(words[0]), Long.parseLong(words[1]), bytes(words[2]), bytes(words[3]), headers);
    }

    private void consume(TopicPartition partition, String start, int count) throws Exception {
        Properties settings = settings();
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        settings.put("fetch.max.wait.ms", "100");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, position(consumer, partition, start));
            out.println("{\"position\":" + consumer.position(partition) + "}");
            long deadline = System.nanoTime() + WAIT_MS * 1_000_000;
            int seen = 0;
            while (seen < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + seen + " of " + count + " records came");
                }
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer, 200)) {
                    if (seen++ < count) {
                        print(record);
                    }
                }
            }
        }
    }

    private static long position(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, String start) {
        List<TopicPartition> one = Collections.singletonList(partition);
        if (start.equals("earliest")) {
            return consumer.beginningOffsets(one).get(partition);
        }
        if (start.equals("latest")) {
            return consumer.endOffsets(one).get(partition);
        }
        long number = Long.parseLong(start.substring(start.indexOf(':') + 1));
        if (start.startsWith("offset:")) {
            return number;
        }
        Map<TopicPartition, OffsetAndTimestamp> found =
            consumer.offsetsForTimes(Collections.singletonMap(partition, number));
        OffsetAndTimestamp hit = found.get(partition);
        return hit == null ? consumer.endOffsets(one).get(partition) : hit.offset();
    }

    @SuppressWarnings("unchecked")
    static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer, long waitMs) throws Exception {
        Method poll;
        Object wait;
        try {
            wait = java.time.Duration.ofMillis(waitMs);
            poll = KafkaConsumer.class.getMethod("poll", java.time.Duration.class);
        } catch (NoSuchMethodException old) {
            wait = waitMs;
            poll = KafkaConsumer.class.getMethod("poll", long.class);
        }
        try {
            return (ConsumerRecords<byte[], byte[]>) poll.invoke(consumer, wait);
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw (Exception) error.getCause();
        }
    }

    private void print(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(headers.length() == 0 ? "" : ",");
            headers.append('[').append(quoted(header.key())).append(',').append(hex(header.value())).append(']');
        }
        out.println(
            "{\"partition\":" + record.partition() + ",\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp()
                + ",\"key\":" + hex(record.key()) + ",\"value\":" + hex(record.value()) + ",\"headers\":[" + headers + "]}");
    }

    private static byte[] bytes(String word) {
        if (word.equals("-")) {
            return null;
        }
        byte[] bytes = new byte[(word.length() - 1) / 2];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = (byte) Integer.parseInt(word.substring(1 + 2 * index, 3 + 2 * index), 16);
        }
        return bytes;
    }

    private static String hex(byte[] bytes) {
        if (bytes == null) {
            return "null";
        }
        StringBuilder text = new StringBuilder("\"");
        for (byte one : bytes) {
            text.append(String.format("%02x", one & 0xff));
        }
        return text.append('"').toString();
    }

    static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n").replace("\r", "").replace("\t", " ") + '"';
    }
}
