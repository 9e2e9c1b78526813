// The steps by the genuine Java client of any release from 1.1.1 on: see ../python/steps.py for what they are. What a
// release doesn't have (listing groups came with 2.0) is left out by it.
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

public final class Client {
    private static final int PARTITIONS = 4;
    private static final int GROWN = 6;
    private static final short REPLICAS = 3;
    private static final int RECORDS = 60;
    private static final int COMMITTED = 30;
    private static final int ABORTED = 10;
    private static final int PATIENCE_SECONDS = 40;
    private static final int PACE_MS = 100;

    private static String bootstrap;
    private static String topic;
    private static String group;
    private static AdminClient admin;

    public static void main(String[] args) {
        bootstrap = args[0];
        topic = args[1];
        group = args[2];
        admin = AdminClient.create(config());
        tell("create", Client::create);
        tell("create again", Client::createAgain);
        tell("grow", Client::grow);
        tell("produce", Client::produce);
        tell("transact", Client::transact);
        tell("consume", Client::consume);
        try {
            Method list = AdminClient.class.getMethod("listConsumerGroups");
            tell("list groups", () -> listGroups(list));
        } catch (NoSuchMethodException older) {
            // Up to 1.1 there is none.
        }
        tell("delete", Client::delete);
        // Nothing is worth an orderly end.
        Runtime.getRuntime().halt(0);
    }

    private static String create() throws Exception {
        get(admin.createTopics(Collections.singleton(new NewTopic(topic, PARTITIONS, REPLICAS))).all());
        return seen(PARTITIONS);
    }

    private static String createAgain() throws Exception {
        try {
            get(admin.createTopics(Collections.singleton(new NewTopic(topic, PARTITIONS, REPLICAS))).all());
        } catch (ExecutionException error) {
            if (error.getCause() instanceof TopicExistsException) {
                return "error 36";
            }
            throw error;
        }
        return "no error";
    }

    private static String grow() throws Exception {
        get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(GROWN))).all());
        return seen(GROWN);
    }

    private static String seen(int partitions) throws Exception {
        return until(() -> {
            List<TopicPartitionInfo> found = described();
            long leading = found.stream().filter(one -> one.leader() != null && !one.leader().isEmpty()).count();
            Set<Integer> replicas = new TreeSet<>();
            found.forEach(one -> replicas.add(one.replicas().size()));
            return leading == partitions ? partitions + " partitions, " + replicas + " replicas" : null;
        });
    }

    private static List<TopicPartitionInfo> described() throws Exception {
        try {
            return get(admin.describeTopics(Collections.singleton(topic)).values().get(topic)).partitions();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return Collections.emptyList();
            }
            throw error;
        }
    }

    private static String produce() throws Exception {
        Properties config = config();
        config.put("acks", "all");
        config.put("enable.idempotence", "true");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < RECORDS; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "" + number)));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
            }
            return sent.size() + " acknowledged";
        }
    }

    private static String transact() throws Exception {
        Properties config = config();
        config.put("transactional.id", group);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int number = 0; number < COMMITTED; number++) {
                producer.send(new ProducerRecord<>(topic, "c" + number));
            }
            producer.commitTransaction();
            producer.beginTransaction();
            for (int number = 0; number < ABORTED; number++) {
                producer.send(new ProducerRecord<>(topic, "a" + number));
            }
            producer.flush();
            producer.abortTransaction();
            return "one committed, one aborted";
        }
    }

    @SuppressWarnings("deprecation")
    private static String consume() throws Exception {
        Properties config = config();
        config.put("group.id", group);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("isolation.level", "read_committed");
        List<String> read = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config)) {
            consumer.subscribe(Collections.singleton(topic));
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
            while (read.size() < RECORDS + COMMITTED && System.nanoTime() < end) {
                // The only form that 1.1 and 3.9 both have.
                for (ConsumerRecord<String, String> record : consumer.poll(500)) {
                    read.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return read.size() + " read, " + new HashSet<>(read).size() + " of them different";
    }

    private static String listGroups(Method list) throws Exception {
        Object answer = list.invoke(admin);
        Object future = answer.getClass().getMethod("all").invoke(answer);
        Collection<?> groups = (Collection<?>) get((KafkaFuture<?>) future);
        long times = 0;
        for (Object listed : groups) {
            times += group.equals(listed.getClass().getMethod("groupId").invoke(listed)) ? 1 : 0;
        }
        return "listed " + times + " times";
    }

    private static String delete() throws Exception {
        get(admin.deleteTopics(Collections.singleton(topic)).all());
        return until(() -> get(admin.listTopics().names()).contains(topic) ? null : "gone");
    }

    private static Properties config() {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("client.id", "klamm-rig");
        config.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        config.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        config.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        config.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return config;
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    }

    private static String until(Callable<String> look) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (System.nanoTime() < end) {
            String found = look.call();
            if (found != null) {
                return found;
            }
            Thread.sleep(PACE_MS);
        }
        throw new IllegalStateException("nothing came of it in " + PATIENCE_SECONDS + " s");
    }

    private static void tell(String step, Callable<String> act) {
        try {
            System.out.println(step + ": " + act.call());
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            System.out.println(step + ": FAILED " + cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
    }
}
