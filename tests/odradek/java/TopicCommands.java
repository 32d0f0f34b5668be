import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.TopicCommand;

/**
 * Runs Apache Kafka's topic tool for one command line after another, in one JVM.
 *
 * A line of standard input is a JSON array of arguments; a line of standard output tells what the
 * tool printed up to its first exit, and the code of that exit.
 */
public class TopicCommands {
    private static final class Exited extends RuntimeException {}

    public static void main(String[] none) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream results = System.out;
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> result = run(json.readValue(line, String[].class));
            results.println(json.writeValueAsString(result));
            results.flush();
        }
    }

    private static Map<String, Object> run(String[] arguments) {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        Map<String, Object> result = new LinkedHashMap<>();
        Exit.setExitProcedure((code, message) -> {
            // The tool catches what is thrown here and exits once more; only the first one counts.
            result.putIfAbsent("exit_code", code);
            result.putIfAbsent("output", output.toString(StandardCharsets.UTF_8));
            result.putIfAbsent("errors", errors.toString(StandardCharsets.UTF_8));
            throw new Exited();
        });
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        try {
            TopicCommand.main(arguments);
        } catch (Exited expected) {
            return result;
        }
        throw new IllegalStateException("the tool came back without an exit");
    }
}
