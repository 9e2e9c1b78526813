// Runs genuine command line tools of one Kafka release in one JVM, one after the other: a JVM of its own for each command
// costs more than the command. Each line on standard input is a main class and its arguments, separated by tabs; for each
// there is one answer on standard output: exit code and the lengths of what was printed to standard output and standard
// error, on a line, and then both. It judges nothing.
//
// A tool's end is intercepted as Kafka's own tests do it. What it does after that is not what anybody would have seen, and
// is thrown away: tools catch the exception by which they are stopped as they catch any other.
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

public final class ToolHost {
    /** Unwinds a tool that has ended. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** Keeps what is printed while a command runs. Static streams, because tools and loggers keep the first they see. */
    private static final class Recorder extends OutputStream {
        private final ByteArrayOutputStream kept = new ByteArrayOutputStream();
        private boolean open;

        @Override
        public synchronized void write(int b) {
            if (open) {
                kept.write(b);
            }
        }

        @Override
        public synchronized void write(byte[] bytes, int from, int length) {
            if (open) {
                kept.write(bytes, from, length);
            }
        }

        synchronized void start() {
            kept.reset();
            open = true;
        }

        synchronized void stop() {
            open = false;
        }

        synchronized byte[] taken() {
            return kept.toByteArray();
        }
    }

    private static final Recorder OUT = new Recorder();
    private static final Recorder ERR = new Recorder();
    private static Integer code;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(OUT, true, "UTF-8"));
        System.setErr(new PrintStream(ERR, true, "UTF-8"));
        Exit.setExitProcedure((status, message) -> {
            end(status);
            throw new Ended();
        });
        Exit.setHaltProcedure((status, message) -> {
            end(status);
            throw new Ended();
        });
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            run(words[0], Arrays.copyOfRange(words, 1, words.length));
            byte[] out = OUT.taken();
            byte[] err = ERR.taken();
            answers.print(code + " " + out.length + " " + err.length + "\n");
            answers.write(out);
            answers.write(err);
            answers.flush();
        }
        // The rig is gone, or done with us: nothing is worth an orderly end.
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void end(int status) {
        if (code == null) {
            System.out.flush();
            System.err.flush();
            OUT.stop();
            ERR.stop();
            code = status;
        }
    }

    private static void run(String mainClass, String[] arguments) {
        code = null;
        OUT.start();
        ERR.start();
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
            end(0);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Ended)) {
                // As a JVM does with what nobody catches.
                System.err.print("Exception in thread \"main\" ");
                e.getCause().printStackTrace();
                end(1);
            }
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            end(127);
        }
    }
}
