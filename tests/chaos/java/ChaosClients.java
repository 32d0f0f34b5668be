import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java clients of tests/chaos/java_workload.py, which describes the lines that they print.
 *
 * <p>Arguments: BOOTSTRAP TOPIC PARTITIONS records|transactions PRODUCERS SEED TIMEOUT_MS. A first line of input ends
 * the producers, the end of input the consumers.
 */
public final class ChaosClients {
    private static final int OUTSTANDING_MAX = 100;
    private static final int OPERATIONS_MAX = 4;
    private static final double ABORTED_SHARE = 0.1;
    private static final long COMMIT_MS = 40_000;
    private static final long FIRST_VALUE = 1_000_000_000L;
    private static final int FIRST_NAME = 100_000;

    private final PrintStream out = new PrintStream(System.out, true);
    private final AtomicLong values = new AtomicLong(FIRST_VALUE);
    private final AtomicLong numbers = new AtomicLong(FIRST_VALUE);
    private final String bootstrap;
    private final String topic;
    private final int partitions;
    private final boolean isTransactional;
    private final long seed;
    private final String timeoutMs;
    private volatile boolean isWriting = true;
    private volatile boolean isReading = true;

    private ChaosClients(String[] arguments) {
        bootstrap = arguments[0];
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        isTransactional = arguments[3].equals("transactions");
        seed = Long.parseLong(arguments[5]);
        timeoutMs = arguments[6];
    }

    public static void main(String[] arguments) throws Exception {
        new ChaosClients(arguments).live(Integer.parseInt(arguments[4]));
    }

    private void live(int producers) throws Exception {
        List<Thread> writers = new ArrayList<>();
        for (int number = 1; number <= producers; number++) {
            int mine = number;
            writers.add(thread(() -> write(mine)));
        }
        List<Thread> readers = new ArrayList<>();
        readers.add(thread(this::read));
        readers.add(thread(this::readInGroup));
        while (isWriting) {
            int found = System.in.read();
            isWriting = found >= 0 && found != '\n';
        }
        for (Thread one : writers) {
            one.join();
        }
        say("w");
        while (System.in.read() >= 0) {}
        isReading = false;
        for (Thread one : readers) {
            one.join();
        }
    }

    private Thread thread(Runnable work) {
        Thread made = new Thread(work);
        made.setUncaughtExceptionHandler((thread, error) -> {
            say("x " + error);
            System.exit(1);
        });
        made.start();
        return made;
    }

    private void say(String line) {
        synchronized (out) {
            out.println(line);
        }
    }

    private Properties settings(String... pairs) {
        Properties all = new Properties();
        all.put("bootstrap.servers", bootstrap);
        all.put("reconnect.backoff.max.ms", "500");
        all.put("request.timeout.ms", "10000");
        for (int place = 0; place < pairs.length; place += 2) {
            all.put(pairs[place], pairs[place + 1]);
        }
        return all;
    }

    // Producers.

    private void write(int number) {
        Random random = new Random(seed * 100 + number);
        for (int life = 0; isWriting; life++) {
            int name = FIRST_NAME * number + life;
            try {
                if (isTransactional) {
                    transact("java-" + topic + "-" + number, name, random);
                } else {
                    produce(name, random);
                }
            } catch (KafkaException error) {
                say("x producer " + name + " ended with " + error);
            }
        }
    }

    /** One producer until it fails once: then what it sends next has another producer id. */
    private void produce(int name, Random random) {
        Properties settings = settings("acks", "all", "enable.idempotence", "true", "linger.ms", "2",
                "delivery.timeout.ms", "60000", "max.block.ms", "30000");
        Semaphore places = new Semaphore(OUTSTANDING_MAX);
        boolean[] hasFailed = new boolean[1];
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            while (isWriting && !hasFailed[0]) {
                places.acquireUninterruptibly();
                send(producer, name, random.nextInt(partitions), "-", isOk -> {
                    hasFailed[0] |= !isOk;
                    places.release();
                });
                pause(5);
            }
            places.acquireUninterruptibly(OUTSTANDING_MAX);
        }
    }

    private interface Ended {
        void with(boolean isOk);
    }

    private void send(KafkaProducer<byte[], byte[]> producer, int name, int partition, String transaction, Ended ended) {
        long value = values.getAndIncrement();
        byte[] content = Long.toString(value).getBytes();
        say("s " + name + " " + partition + " " + value + " " + System.nanoTime() + " " + transaction);
        producer.send(new ProducerRecord<>(topic, partition, null, content), (metadata, error) -> {
            if (error == null) {
                say("o " + value + " " + metadata.offset() + " " + System.nanoTime());
            } else {
                say("e " + value + " " + System.nanoTime());
            }
            ended.with(error == null);
        });
    }

    private static void pause(long timeMs) {
        try {
            Thread.sleep(timeMs);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    // Transactions.

    private void transact(String id, int name, Random random) {
        Properties settings = settings("transactional.id", id, "transaction.timeout.ms", timeoutMs,
                "delivery.timeout.ms", "20000", "max.block.ms", "20000", "linger.ms", "2");
        try (KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
                KafkaConsumer<byte[], byte[]> consumer = consumer(id)) {
            producer.initTransactions();
            boolean isRewound = false;
            while (isWriting) {
                if (!isRewound) {
                    rewind(consumer, id);
                }
                isRewound = transactOnce(producer, consumer, id, name, random);
            }
        }
    }

    /** Go on where the committed offsets are. */
    private void rewind(KafkaConsumer<byte[], byte[]> consumer, String group) {
        Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(all());
        Map<TopicPartition, Long> positions = new HashMap<>();
        Map<TopicPartition, Long> known = new HashMap<>();
        for (TopicPartition one : all()) {
            OffsetAndMetadata offset = found.get(one);
            positions.put(one, offset == null ? 0 : offset.offset());
            known.put(one, offset == null ? -1 : offset.offset());
        }
        say("f " + group + " " + System.nanoTime() + offsets(known));
        beginSession(consumer);
        consumer.assign(all());
        positions.forEach(consumer::seek);
    }

    private Set<TopicPartition> all() {
        Set<TopicPartition> found = new HashSet<>();
        for (int partition = 0; partition < partitions; partition++) {
            found.add(new TopicPartition(topic, partition));
        }
        return found;
    }

    private static String offsets(Map<TopicPartition, Long> known) {
        StringBuilder text = new StringBuilder();
        known.forEach((one, offset) -> text.append(' ').append(one.partition()).append(':').append(offset));
        return text.toString();
    }

    /** Whether it is committed; else the consumer has to go back. */
    private boolean transactOnce(
            KafkaProducer<byte[], byte[]> producer,
            KafkaConsumer<byte[], byte[]> consumer,
            String group,
            int name,
            Random random) {
        String number = Long.toString(numbers.incrementAndGet());
        boolean isCommit = random.nextDouble() >= ABORTED_SHARE;
        Map<TopicPartition, Long> moved = new HashMap<>();
        String outcome = "fail";
        say("b " + number);
        try {
            producer.beginTransaction();
            for (int left = 1 + random.nextInt(OPERATIONS_MAX); left > 0; left--) {
                if (random.nextDouble() < 0.7) {
                    send(producer, name, random.nextInt(partitions), number, isOk -> {});
                } else {
                    moved.putAll(poll(consumer, 20, name, session(consumer), number));
                }
            }
            if (!moved.isEmpty()) {
                producer.sendOffsetsToTransaction(committed(moved), consumer.groupMetadata());
            }
            if (isCommit) {
                say("m " + number + " " + System.nanoTime());
                outcome = "info";
                end(producer::commitTransaction);
                outcome = "ok";
                return true;
            }
            producer.flush();
            end(producer::abortTransaction);
            return false;
        } finally {
            say("t " + number + " " + outcome);
            if (!moved.isEmpty()) {
                say("c " + group + " " + System.nanoTime() + " " + outcome + offsets(moved));
            }
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> committed(Map<TopicPartition, Long> moved) {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        moved.forEach((one, offset) -> wanted.put(one, new OffsetAndMetadata(offset)));
        return wanted;
    }

    /** Call again after the time is up: the producer goes on with the same request. */
    private static void end(Runnable call) {
        long deadline = System.currentTimeMillis() + COMMIT_MS;
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                if (System.currentTimeMillis() > deadline) {
                    throw error;
                }
            }
        }
    }

    // Consumers.

    private final Map<KafkaConsumer<?, ?>, Integer> sessions = new HashMap<>();

    private synchronized int session(KafkaConsumer<?, ?> consumer) {
        return sessions.getOrDefault(consumer, 1);
    }

    private synchronized void beginSession(KafkaConsumer<?, ?> consumer) {
        sessions.merge(consumer, 2, (former, first) -> former + 1);
    }

    private KafkaConsumer<byte[], byte[]> consumer(String group) {
        Properties settings = settings("group.id", group, "enable.auto.commit", "false", "auto.offset.reset", "earliest",
                "isolation.level", "read_committed", "session.timeout.ms", "6000", "heartbeat.interval.ms", "1000",
                "fetch.max.wait.ms", "100", "default.api.timeout.ms", "20000", "max.poll.records", "200");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** The next offset of each partition that had records. */
    private Map<TopicPartition, Long> poll(
            KafkaConsumer<byte[], byte[]> consumer, long timeMs, int name, int session, String transaction) {
        ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(timeMs));
        Map<TopicPartition, Long> next = new HashMap<>();
        StringBuilder text = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : found) {
            text.append(' ').append(record.partition()).append(':').append(record.offset()).append(':')
                    .append(new String(record.value())).append(':').append(record.leaderEpoch().orElse(-1));
            next.put(new TopicPartition(topic, record.partition()), record.offset() + 1);
        }
        if (!next.isEmpty()) {
            // A rebalance in the call begins a session before its records.
            int now = session < 0 ? session(consumer) : session;
            say("p " + name + " " + now + " " + System.nanoTime() + " " + transaction + text);
        }
        return next;
    }

    private void read() {
        int session = 0;
        while (isReading) {
            session++;
            try (KafkaConsumer<byte[], byte[]> consumer = consumer("java-reader-" + topic)) {
                consumer.assign(all());
                consumer.seekToBeginning(all());
                while (isReading) {
                    poll(consumer, 200, FIRST_NAME - 1, session, "-");
                }
            } catch (KafkaException error) {
                say("x the reader ended with " + error);
            }
        }
    }

    private void readInGroup() {
        String group = "java-group-" + topic;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            consumer.subscribe(Collections.singletonList(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    beginSession(consumer);
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}
            });
            while (isReading) {
                try {
                    Map<TopicPartition, Long> next = poll(consumer, 200, FIRST_NAME - 2, -1, "-");
                    if (!next.isEmpty()) {
                        commit(consumer, group, next);
                    }
                } catch (KafkaException error) {
                    say("x the member of the group got " + error);
                    beginSession(consumer);
                }
            }
        }
    }

    private void commit(KafkaConsumer<byte[], byte[]> consumer, String group, Map<TopicPartition, Long> next) {
        String outcome = "info";
        try {
            consumer.commitSync(committed(next));
            outcome = "ok";
        } finally {
            say("c " + group + " " + System.nanoTime() + " " + outcome + offsets(next));
        }
        Map<TopicPartition, Long> known = new HashMap<>();
        consumer.committed(next.keySet())
                .forEach((one, offset) -> known.put(one, offset == null ? -1 : offset.offset()));
        say("f " + group + " " + System.nanoTime() + offsets(known));
    }
}
