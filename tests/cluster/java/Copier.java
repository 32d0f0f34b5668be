import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java client's part of tests/cluster/copier.py: arguments and behaviour are described there. */
public final class Copier {
    private final Properties settings = new Properties();
    private final String source;
    private final String target;
    private final String group;
    private final String name;
    private final int size;

    private Copier(String[] arguments) {
        settings.put("bootstrap.servers", arguments[0]);
        source = arguments[1];
        target = arguments[2];
        group = arguments[3];
        name = group + "-" + arguments[4];
        size = Integer.parseInt(arguments[5]);
        settings.put("reconnect.backoff.max.ms", "500");
    }

    public static void main(String[] arguments) throws InterruptedException {
        Copier copier = new Copier(arguments);
        while (true) {
            try {
                copier.live();
            } catch (KafkaException error) {
                System.out.println("again after " + error);
                Thread.sleep(200);
            }
        }
    }

    private KafkaProducer<byte[], byte[]> producer() {
        Properties all = new Properties();
        all.putAll(settings);
        all.put("transactional.id", name);
        all.put("transaction.timeout.ms", "20000");
        all.put("delivery.timeout.ms", "20000");
        all.put("request.timeout.ms", "10000");
        all.put("linger.ms", "5");
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties all = new Properties();
        all.putAll(settings);
        all.put("group.id", group);
        all.put("enable.auto.commit", "false");
        all.put("auto.offset.reset", "earliest");
        all.put("isolation.level", "read_committed");
        all.put("session.timeout.ms", "6000");
        all.put("max.poll.records", Integer.toString(size));
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private void live() {
        try (KafkaProducer<byte[], byte[]> producer = producer();
                KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            producer.initTransactions();
            List<ConsumerRecord<byte[], byte[]>> gathered = new ArrayList<>();
            consumer.subscribe(Collections.singletonList(source), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    gathered.clear();
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    gathered.clear();
                }
            });
            while (true) {
                boolean isIdle = true;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(300))) {
                    gathered.add(record);
                    isIdle = false;
                }
                if (gathered.size() >= size || (isIdle && !gathered.isEmpty())) {
                    copy(producer, consumer, gathered.subList(0, Math.min(size, gathered.size())));
                    gathered.subList(0, Math.min(size, gathered.size())).clear();
                }
            }
        }
    }

    private void copy(
            KafkaProducer<byte[], byte[]> producer,
            KafkaConsumer<byte[], byte[]> consumer,
            List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
            offsets.put(new TopicPartition(source, record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
    }
}
