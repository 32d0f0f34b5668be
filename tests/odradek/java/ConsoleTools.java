import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's tools for one command line after another, in one JVM.
 *
 * A line of standard input is a JSON object of the main class, its arguments and what it reads; a
 * line of standard output tells what the tool printed up to its first exit, and the code of it.
 */
public class ConsoleTools {
    private static final class Exited extends RuntimeException {}

    /** Keeps what is printed until it is taken. Scala keeps the stream that it finds first. */
    private static final class Printed extends OutputStream {
        private ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int one) {
            bytes.write(one);
        }

        @Override
        public synchronized void write(byte[] some, int start, int length) {
            bytes.write(some, start, length);
        }

        synchronized void clear() {
            bytes = new ByteArrayOutputStream();
        }

        @Override
        public synchronized String toString() {
            return bytes.toString(StandardCharsets.UTF_8);
        }
    }

    private static final Printed output = new Printed();
    private static final Printed errors = new Printed();

    public static void main(String[] none) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream results = System.out;
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode command = json.readTree(line);
            Map<String, Object> result = run(
                Class.forName(command.get("main").asText()),
                json.treeToValue(command.get("arguments"), String[].class),
                command.get("input").asText());
            results.println(json.writeValueAsString(result));
            results.flush();
        }
    }

    private static Map<String, Object> run(Class<?> tool, String[] arguments, String input)
            throws Exception {
        output.clear();
        errors.clear();
        Map<String, Object> result = new LinkedHashMap<>();
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        Exit.setExitProcedure((code, message) -> {
            // The tools catch what is thrown here and exit once more; only the first one counts.
            result.putIfAbsent("output", output.toString());
            result.putIfAbsent("errors", errors.toString());
            result.putIfAbsent("exit", code);
            throw new Exited();
        });
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        int code = 0;
        try {
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (java.lang.reflect.InvocationTargetException thrown) {
            Throwable cause = thrown.getCause();
            if (!(cause instanceof Exited)) {
                // As the JVM prints an uncaught exception.
                System.err.print("Exception in thread \"main\" ");
                cause.printStackTrace();
                code = 1;
            }
        }
        hooks.forEach(Runnable::run);
        result.putIfAbsent("output", output.toString());
        result.putIfAbsent("errors", errors.toString());
        Object exit = result.remove("exit");
        result.put("exit_code", exit == null ? code : exit);
        return result;
    }
}
