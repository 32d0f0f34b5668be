import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.RequestHeader;

/** Reads frames of requests, one line of hex digits each, and prints header and body as JSON. */
public class DecodeRequests {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(line));
            RequestHeader header = RequestHeader.parse(buffer);
            short version = header.apiVersion();
            ApiMessage data =
                AbstractRequest.parseRequest(header.apiKey(), version, buffer).request.data();
            if (buffer.hasRemaining()) {
                throw new IllegalStateException(buffer.remaining() + " bytes follow the request");
            }
            String name = data.getClass().getName() + "JsonConverter";
            JsonNode body = (JsonNode) Class.forName(name)
                .getMethod("write", data.getClass(), short.class)
                .invoke(null, data, version);
            System.out.println(
                "{\"api\":\"" + header.apiKey().name() + "\",\"version\":" + version
                    + ",\"client\":\"" + header.clientId() + "\",\"body\":" + body + "}");
        }
    }
}
