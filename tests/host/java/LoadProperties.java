import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.StringReader;
import java.util.Properties;

/**
 * Answers what java.util.Properties makes of documents. In: length in bytes, then UTF-16BE text.
 * Out: number of entries, then key and value of each in the same form; -1 where Java refuses the document.
 */
public final class LoadProperties {
    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        try {
            while (true) {
                answer(readText(in), out);
                out.flush();
            }
        } catch (EOFException end) {
            // the tests are over
        }
    }

    private static void answer(String document, DataOutputStream out) throws IOException {
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(document));
        } catch (IllegalArgumentException malformed) {
            out.writeInt(-1);
            return;
        }
        out.writeInt(properties.size());
        for (String key : properties.stringPropertyNames()) {
            writeText(key, out);
            writeText(properties.getProperty(key), out);
        }
    }

    private static String readText(DataInputStream in) throws IOException {
        int length = in.readInt();
        StringBuilder text = new StringBuilder(length / 2);
        for (int i = 0; i < length / 2; i++) {
            text.append(in.readChar());
        }
        return text.toString();
    }

    private static void writeText(String text, DataOutputStream out) throws IOException {
        out.writeInt(2 * text.length());
        out.writeChars(text);
    }
}
