import org.apache.kafka.common.protocol.Errors;

/** Prints a line for each error code: number, exception class and text, with tabs between them. */
public class ErrorTexts {
    public static void main(String[] none) {
        for (Errors error : Errors.values()) {
            if (error != Errors.NONE) {
                System.out.println(
                    error.code()
                        + "\t"
                        + error.exception().getClass().getName()
                        + "\t"
                        + error.message());
            }
        }
    }
}
