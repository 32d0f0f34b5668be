import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests with a broker of their own: mvn test (odradek is on the PATH). */
@Timeout(60)
class KafkaTest {
    @TempDir
    static Path folder;
    static Process odradek;
    static String bootstrapServers;

    /** The broker stops at the end of its input: with these tests, or with their process. */
    @BeforeAll
    static void startKafka() throws Exception {
        Path ready = folder.resolve("ready");
        File log = folder.resolve("log").toFile();
        odradek = new ProcessBuilder(
                "odradek", "start", "--ephemeral", "--port", "0",
                "--ready-file", ready.toString(), "--stop-at-end-of-input")
            .redirectErrorStream(true)
            .redirectOutput(log)
            .start();
        while (!Files.exists(ready)) {
            if (!odradek.isAlive()) {
                throw new IllegalStateException(Files.readString(log.toPath()));
            }
            Thread.sleep(10);
        }
        Properties written = new Properties();
        try (var reader = Files.newBufferedReader(ready)) {
            written.load(reader);
        }
        bootstrapServers = written.getProperty("bootstrap_servers");
    }

    @AfterAll
    static void stopKafka() throws IOException, InterruptedException {
        odradek.getOutputStream().close();
        odradek.waitFor();
    }

    @Test
    void anOrderIsStored() throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrapServers);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "one")).get();
        }
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            var partitions = List.of(new TopicPartition("orders", 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            var records = consumer.poll(Duration.ofSeconds(30));
            assertEquals("one", records.iterator().next().value());
        }
    }
}
