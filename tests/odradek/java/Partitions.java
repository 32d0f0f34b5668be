import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Prints the partition that the producer takes for each key: words of hexadecimal digits, after their count. */
public class Partitions {
    public static void main(String[] none) {
        Scanner words = new Scanner(System.in);
        int count = words.nextInt();
        while (words.hasNext()) {
            byte[] key = HexFormat.of().parseHex(words.next());
            System.out.println(BuiltInPartitioner.partitionForKey(key, count));
        }
    }
}
