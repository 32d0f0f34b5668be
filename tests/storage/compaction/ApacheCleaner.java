import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import kafka.log.Cleaner;
import kafka.log.LogToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.runtime.BoxedUnit;

/**
 * Apache Kafka's own cleaner, one log directory after the other, at the given time.
 *
 * A line of input: folder, first dirty offset, uncleanable offset, time in ms, then settings of the
 * topic as name=value, separated by spaces. A line of output: the next cleaning's first dirty offset.
 */
public class ApacheCleaner {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(clean(line.split(" "), scheduler));
            System.out.flush();
        }
        scheduler.shutdown();
    }

    private static long clean(String[] words, KafkaScheduler scheduler) throws Exception {
        long nowMs = Long.parseLong(words[3]);
        Time time = (Time) Proxy.newProxyInstance(
            Time.class.getClassLoader(),
            new Class<?>[] {Time.class},
            (proxy, method, values) ->
                method.getName().equals("milliseconds") ? nowMs : method.invoke(Time.SYSTEM, values));
        Map<String, String> settings = new HashMap<>();
        settings.put("cleanup.policy", "compact");
        settings.put("file.delete.delay.ms", "3600000");
        for (int index = 4; index < words.length; index++) {
            String[] setting = words[index].split("=");
            settings.put(setting[0], setting[1]);
        }
        File folder = new File(words[0]);
        UnifiedLog log = UnifiedLog.apply(
            folder, new LogConfig(settings), 0L, Long.MAX_VALUE, scheduler,
            new BrokerTopicStats(false), time, 300_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE,
            new LogDirFailureChannel(1), true, Option.empty(), true, new ConcurrentHashMap<>(),
            false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(1 << 20), 1 << 16, 1 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, 1_000, "none", "none", time), time,
            partition -> BoxedUnit.UNIT);
        TopicPartition partition = UnifiedLog.parseTopicPartitionName(folder);
        LogToClean wanted = new LogToClean(
            partition, log, Long.parseLong(words[1]), Long.parseLong(words[2]), false);
        long endOffset = (Long) cleaner.doClean(wanted, nowMs)._1();
        log.close();
        return endOffset;
    }
}
