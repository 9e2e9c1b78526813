// Continuous traffic through the genuine Java client: produces numbered records with acks=all to every partition of the
// topics it is told of, reads them as they come, and reads everything again at the end.
// It judges nothing: each acknowledgement and each record read is a line on standard output, and the rig compares them.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public final class Traffic {
    // Lines: ACK topic partition offset value | READ … | GROUP … | LOG … | FAILED topic partition value error
    //        TOPIC topic partitions | STOPPED | LOGGED | ERROR message
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final List<TopicPartition> PARTITIONS = new CopyOnWriteArrayList<>();
    private static final ConcurrentLinkedQueue<String> TOPICS_TO_LOOK_UP = new ConcurrentLinkedQueue<>();
    private static volatile boolean producing = true;
    // A record by itself costs a request of the producer, of each follower and of each reader: in bursts, two cores bear it.
    private static final int BURSTS_PER_SECOND = 5;

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        boolean idempotent = Boolean.parseBoolean(args[1]);
        int recordsPerSecond = Integer.parseInt(args[2]);
        String group = args[3];

        Thread producer = daemon("producer", () -> produce(bootstrap, idempotent, recordsPerSecond));
        daemon("reader", () -> read(bootstrap));
        if (!group.equals("-")) {
            daemon("group", () -> readAsGroup(bootstrap, group));
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.trim().split(" ");
            switch (words[0]) {
                case "topic" -> TOPICS_TO_LOOK_UP.add(words[1]);
                case "stop" -> {
                    producing = false;
                    producer.join();
                    say("STOPPED");
                }
                case "log" -> log(bootstrap);
                default -> say("ERROR unknown command " + line);
            }
        }
        // The rig is gone, or done with us: nothing is worth an orderly end.
        Runtime.getRuntime().halt(0);
    }

    private static void produce(String bootstrap, boolean idempotent, int recordsPerSecond) {
        Properties config = base(bootstrap);
        config.put("acks", "all");
        config.put("enable.idempotence", Boolean.toString(idempotent));
        config.put("max.in.flight.requests.per.connection", idempotent ? "5" : "1");
        config.put("retries", Integer.toString(Integer.MAX_VALUE));
        config.put("delivery.timeout.ms", "300000");
        config.put("request.timeout.ms", "10000");
        config.put("max.block.ms", "120000");
        config.put("linger.ms", "5");
        config.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        config.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        Map<TopicPartition, Long> next = new HashMap<>();
        long pauseNanos = 1_000_000_000L / BURSTS_PER_SECOND;
        int burst = Math.max(1, recordsPerSecond / BURSTS_PER_SECOND);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            long due = System.nanoTime();
            for (int turn = 0; producing; ) {
                for (String topic = TOPICS_TO_LOOK_UP.poll(); topic != null; topic = TOPICS_TO_LOOK_UP.poll()) {
                    lookUp(producer, topic, next);
                }
                if (PARTITIONS.isEmpty()) {
                    Thread.sleep(10);
                    continue;
                }
                for (int sent = 0; sent < burst; sent++, turn++) {
                    TopicPartition partition = PARTITIONS.get(turn % PARTITIONS.size());
                    long number = next.merge(partition, 1L, Long::sum);
                    send(producer, partition, Long.toString(number), () -> { });
                }
                due = Math.max(due + pauseNanos, System.nanoTime() - 1_000_000_000L);
                long aheadNanos = due - System.nanoTime();
                if (aheadNanos > 1_000_000) {
                    Thread.sleep(aheadNanos / 1_000_000);
                }
            }
            producer.flush();
        } catch (Exception e) {
            say("ERROR the producer ended: " + e);
        }
    }

    /** Looks up a topic's partitions, which creates it where brokers do so, and adds those not yet known. */
    private static void lookUp(KafkaProducer<String, String> producer, String topic, Map<TopicPartition, Long> next) {
        try {
            List<PartitionInfo> found = producer.partitionsFor(topic);
            for (PartitionInfo info : found) {
                TopicPartition partition = new TopicPartition(topic, info.partition());
                // Alone, until it is answered: an idempotent producer whose first batch is refused where the second is
                // taken never gets the first one in again (KAFKA-14359), and a leader may be known before it knows itself.
                if (next.putIfAbsent(partition, 1L) == null) {
                    send(producer, partition, "1", () -> PARTITIONS.add(partition));
                }
            }
            say("TOPIC " + topic + " " + found.size());
        } catch (Exception e) {
            // Asked again later by the rig.
            say("TOPIC " + topic + " 0");
        }
    }

    private static void send(
            KafkaProducer<String, String> producer, TopicPartition partition, String value, Runnable taken) {
        String name = partition.topic() + " " + partition.partition();
        producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), null, value), (metadata, error) -> {
            if (error == null) {
                say("ACK " + name + " " + metadata.offset() + " " + value);
                taken.run();
            } else {
                say("FAILED " + name + " " + value + " " + error);
            }
        });
    }

    private static void read(String bootstrap) {
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, new Properties())) {
            while (true) {
                Set<TopicPartition> wanted = new LinkedHashSet<>(PARTITIONS);
                if (!consumer.assignment().equals(wanted)) {
                    consumer.assign(wanted);
                }
                if (wanted.isEmpty()) {
                    Thread.sleep(20);
                    continue;
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    say("READ", record);
                }
            }
        } catch (Exception e) {
            say("ERROR the reader ended: " + e);
        }
    }

    private static void readAsGroup(String bootstrap, String group) {
        Properties config = new Properties();
        config.put("group.id", group);
        config.put("enable.auto.commit", "true");
        config.put("auto.commit.interval.ms", "1000");
        Set<String> topics = new LinkedHashSet<>();
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, config)) {
            while (true) {
                Set<String> wanted = new LinkedHashSet<>();
                PARTITIONS.forEach(partition -> wanted.add(partition.topic()));
                if (!topics.equals(wanted)) {
                    topics = wanted;
                    consumer.subscribe(new ArrayList<>(topics));
                }
                if (topics.isEmpty()) {
                    Thread.sleep(20);
                    continue;
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    say("GROUP", record);
                }
            }
        } catch (Exception e) {
            say("ERROR the group's reader ended: " + e);
        }
    }

    /** Reads every partition from its beginning to its end of now. */
    private static void log(String bootstrap) {
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, new Properties())) {
            List<TopicPartition> all = new ArrayList<>(PARTITIONS);
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all, Duration.ofSeconds(60));
            long giveUp = System.nanoTime() + Duration.ofSeconds(120).toNanos();
            while (!all.stream().allMatch(partition -> consumer.position(partition) >= ends.get(partition))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    say("LOG", record);
                }
                if (System.nanoTime() > giveUp) {
                    say("ERROR reading everything again took more than 120 s");
                    return;
                }
            }
            say("LOGGED");
        } catch (Exception e) {
            say("ERROR cannot read everything again: " + e);
        }
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, Properties more) {
        Properties config = base(bootstrap);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("allow.auto.create.topics", "false");
        config.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        config.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        config.putAll(more);
        return new KafkaConsumer<>(config);
    }

    private static Properties base(String bootstrap) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("metadata.max.age.ms", "5000");
        config.put("reconnect.backoff.max.ms", "500");
        config.put("retry.backoff.ms", "50");
        return config;
    }

    private static void say(String kind, ConsumerRecord<String, String> record) {
        say(kind + " " + record.topic() + " " + record.partition() + " " + record.offset() + " " + record.value());
    }

    private static void say(String line) {
        synchronized (OUT) {
            OUT.println(line.replace('\n', ' '));
        }
    }

    private static Thread daemon(String name, Runnable body) {
        Thread thread = new Thread(body, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
