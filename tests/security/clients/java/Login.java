import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The command `login` of tests/security/clients/README.md with the Java client; one JVM for all logins. */
public final class Login {
    private static final String MODULES = "org.apache.kafka.common.security.";
    private static final int PAUSE_MS = 100;
    private static final int CAUSES_MAX = 10;

    private Login() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, String> login = parsed(line.substring("login ".length()));
            String kind = "served";
            String text = "";
            try {
                serve(login);
            } catch (Exception error) {
                kind = kind(error);
                text = error.toString() + " " + error.getCause();
            }
            out.println("{\"kind\":" + quoted(kind) + ",\"text\":" + quoted(text) + "}");
            out.println("{\"done\":true}");
        }
    }

    /** Write records until the time is up, and read the last one. */
    private static void serve(Map<String, String> login) throws Exception {
        Properties properties = properties(login);
        TopicPartition partition = new TopicPartition(login.get("topic"), 0);
        long end = System.currentTimeMillis() + Long.parseLong(login.get("stay_ms"));
        RecordMetadata written;
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            do {
                written = producer.send(new ProducerRecord<>(partition.topic(), 0, null, new byte[] {7})).get();
                Thread.sleep(PAUSE_MS);
            } while (System.currentTimeMillis() < end);
        }
        long deadline = System.currentTimeMillis() + Long.parseLong(login.get("timeout_ms"));
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, written.offset());
            while (System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(PAUSE_MS))) {
                    if (record.offset() == written.offset()) {
                        return;
                    }
                }
            }
        }
        throw new IllegalStateException("the record is not read");
    }

    private static Properties properties(Map<String, String> login) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", login.get("bootstrap"));
        properties.put("security.protocol", login.get("protocol"));
        properties.put("acks", "all");
        properties.put("enable.idempotence", "false");
        properties.put("retries", "0");
        properties.put("max.block.ms", login.get("timeout_ms"));
        properties.put("request.timeout.ms", login.get("timeout_ms"));
        properties.put("delivery.timeout.ms", login.get("timeout_ms"));
        properties.put("linger.ms", "0");
        if (login.containsKey("authority")) {
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.location", login.get("authority"));
        }
        if (login.containsKey("pem")) {
            properties.put("ssl.keystore.type", "PEM");
            properties.put("ssl.keystore.location", login.get("pem"));
        }
        if (login.containsKey("mechanism")) {
            addSasl(properties, login);
        }
        return properties;
    }

    private static void addSasl(Properties properties, Map<String, String> login) {
        String mechanism = login.get("mechanism");
        properties.put("sasl.mechanism", mechanism);
        String module;
        if (mechanism.equals("OAUTHBEARER")) {
            module = "oauthbearer.OAuthBearerLoginModule required life_ms=\"" + login.get("life_ms") + "\"";
            properties.put("sasl.login.callback.handler.class", Tokens.class.getName());
            properties.put("sasl.login.refresh.min.period.seconds", "1");
            properties.put("sasl.login.refresh.buffer.seconds", "0");
            properties.put("sasl.login.refresh.window.factor", "0.5");
        } else {
            module = (mechanism.equals("PLAIN") ? "plain.Plain" : "scram.Scram") + "LoginModule required";
            module += " password=" + inJaas(login.get("password"));
        }
        module += " username=" + inJaas(login.get("user"));
        properties.put("sasl.jaas.config", MODULES + module + ";");
    }

    private static String inJaas(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    /** Tokens without a signature, valid for the `life_ms` of the login module. */
    public static final class Tokens implements AuthenticateCallbackHandler {
        private Map<String, ?> options = new HashMap<>();

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            options = entries.get(0).getOptions();
        }

        @Override
        public void close() {}

        @Override
        public void handle(Callback[] callbacks) {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback) {
                    String user = (String) options.get("username");
                    long lifeMs = Long.parseLong((String) options.get("life_ms"));
                    ((OAuthBearerTokenCallback) callback).token(new Token(user, lifeMs));
                }
            }
        }
    }

    private static final class Token implements OAuthBearerToken {
        private final String user;
        private final long startMs;
        private final long endMs;

        Token(String user, long lifeMs) {
            this.user = user;
            long nowMs = System.currentTimeMillis();
            startMs = Math.min(nowMs, nowMs + lifeMs - 1000);
            endMs = nowMs + lifeMs;
        }

        @Override
        public String value() {
            String claims = String.format(
                "{\"sub\":\"%s\",\"iat\":%d.%03d,\"exp\":%d.%03d}",
                user, startMs / 1000, startMs % 1000, endMs / 1000, endMs % 1000);
            return encoded("{\"alg\":\"none\"}") + "." + encoded(claims) + ".";
        }

        private static String encoded(String section) {
            byte[] bytes = section.getBytes(StandardCharsets.UTF_8);
            return java.util.Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
        }

        @Override
        public Set<String> scope() {
            return Collections.emptySet();
        }

        @Override
        public long lifetimeMs() {
            return endMs;
        }

        @Override
        public String principalName() {
            return user;
        }

        @Override
        public Long startTimeMs() {
            return startMs;
        }
    }

    /** The class of the innermost exception of Kafka among the causes, or of the error itself. */
    private static String kind(Throwable error) {
        String kind = error.getClass().getSimpleName();
        Throwable cause = error;
        for (int depth = 0; cause != null && depth < CAUSES_MAX; depth++, cause = cause.getCause()) {
            if (cause instanceof KafkaException) {
                kind = cause.getClass().getSimpleName();
            }
        }
        return kind;
    }

    private static Map<String, String> parsed(String query) throws Exception {
        Map<String, String> values = new HashMap<>();
        for (String pair : query.split("&")) {
            int equals = pair.indexOf('=');
            values.put(pair.substring(0, equals), URLDecoder.decode(pair.substring(equals + 1), "UTF-8"));
        }
        return values;
    }

    private static String quoted(String text) {
        StringBuilder line = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                line.append('\\').append(letter);
            } else if (letter < ' ') {
                line.append(' ');
            } else {
                line.append(letter);
            }
        }
        return line.append('"').toString();
    }
}
