// Writers and readers with Kafka's Java clients, told what to do line by line: see bench/dr/clients.py for the words.

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Client {
    static final int KEYS = 20, IN_TRANSACTION = 20, ROLLED_BACK = 7, TRIES = 3;
    static final long LOOK_MS = 20, AWAIT_NS = 120_000_000_000L;

    abstract static class Work extends Thread {
        final String id;
        final Path file;
        volatile boolean ends, finishes;
        volatile String why = "";
        volatile int count;

        Work(String id, String file) {
            this.id = id;
            this.file = Path.of(file);
        }

        abstract void work() throws Exception;

        void awaitCount(int wanted) throws InterruptedException {
            long giveUpAt = System.nanoTime() + AWAIT_NS;
            while (count < wanted && isAlive() && System.nanoTime() < giveUpAt) {
                Thread.sleep(LOOK_MS);
            }
        }

        @Override
        public void run() {
            try {
                work();
            } catch (Exception error) {
                why = String.valueOf(error);
            }
        }
    }

    static final class Writer extends Work {
        final Properties properties = new Properties();
        final double perS;
        final String gate, tx;
        final List<String> topics = new ArrayList<>();
        final List<Integer> partitions = new ArrayList<>();
        final List<Integer> numbers = new ArrayList<>();
        final List<String> fates = Collections.synchronizedList(new ArrayList<>());

        Writer(String[] words) {
            super(words[1], words[6]);
            properties.put("bootstrap.servers", words[2]);
            properties.put("acks", "all");
            properties.put("linger.ms", "5");
            properties.put("key.serializer", ByteArraySerializer.class.getName());
            properties.put("value.serializer", ByteArraySerializer.class.getName());
            perS = Double.parseDouble(words[3]);
            gate = words[4];
            tx = words[5];
            if (!tx.equals("-")) {
                properties.put("transactional.id", tx);
            }
            for (String one : words[7].split(",")) {
                String[] parts = one.split("=");
                for (int partition = 0; partition < Integer.parseInt(parts[1]); partition++) {
                    topics.add(parts[0]);
                    partitions.add(partition);
                    numbers.add(0);
                }
            }
        }

        void send(KafkaProducer<byte[], byte[]> producer, int at, List<String> sent) {
            int number = numbers.get(at);
            numbers.set(at, number + 1);
            String name = topics.get(at) + " " + partitions.get(at) + " " + number;
            StringBuilder value = new StringBuilder(id + ":" + partitions.get(at) + ":" + number + "|");
            while (value.length() < 100) {
                value.append('.');
            }
            byte[] key = (id + "-" + partitions.get(at) + "-" + number % KEYS).getBytes();
            var record = new ProducerRecord<>(topics.get(at), partitions.get(at), key, value.toString().getBytes());
            if (sent != null) {
                sent.add(name);
                producer.send(record);
                return;
            }
            producer.send(record, (metadata, error) -> {
                if (error != null) {
                    why = String.valueOf(error);
                }
                note(error == null ? "+ " : "? ", List.of(name));
            });
        }

        boolean open() {
            return !ends && (gate.equals("-") || !Files.exists(Path.of(gate)));
        }

        @Override
        void work() throws Exception {
            try (var producer = new KafkaProducer<byte[], byte[]>(properties)) {
                if (!tx.equals("-")) {
                    producer.initTransactions();
                }
                long began = System.nanoTime();
                int turn = 0, done = 0;
                while (open()) {
                    double due = (System.nanoTime() - began) / 1e9 * perS;
                    if (tx.equals("-")) {
                        for (; done < due; done++) {
                            send(producer, done % topics.size(), null);
                        }
                    } else if (done < due) {
                        transact(producer, turn++);
                        done += IN_TRANSACTION;
                    }
                    if (due - done > perS) {  // no burst for lost time
                        began += (long) ((due - done) / perS * 1e9);
                    }
                    Thread.sleep(5);
                }
                producer.flush();
            } finally {
                Files.write(file, fates);
            }
        }

        void note(String fate, List<String> names) {
            for (String name : names) {
                fates.add(fate + name);
            }
            count = fates.size();
        }

        void transact(KafkaProducer<byte[], byte[]> producer, int turn) {
            List<String> sent = new ArrayList<>();
            String fate = "? ";
            try {
                producer.beginTransaction();
                try {
                    for (int one = 0; one < IN_TRANSACTION; one++) {
                        send(producer, (turn * IN_TRANSACTION + one) % topics.size(), sent);
                    }
                    if (turn % ROLLED_BACK != ROLLED_BACK - 1) {
                        untilAnswered(producer::commitTransaction);
                        fate = "+ ";
                    }
                } catch (ProducerFencedException | OutOfOrderSequenceException | TimeoutException ends) {
                    throw ends;
                } catch (KafkaException abortable) {
                    // a broker that dies makes the client roll back
                }
                if (fate.equals("? ")) {
                    untilAnswered(producer::abortTransaction);
                    fate = "- ";
                }
            } finally {
                note(fate, sent);
            }
        }

        /** Ends a transaction, again while a broker does not answer. */
        static void untilAnswered(Runnable work) {
            for (int tries = 1;; tries++) {
                try {
                    work.run();
                    return;
                } catch (TimeoutException unanswered) {
                    if (tries == TRIES) {
                        throw unanswered;
                    }
                }
            }
        }
    }

    static final class Reader extends Work {
        final Properties properties = new Properties();
        final List<String> topics;

        Reader(String[] words) {
            super(words[1], words[4]);
            properties.put("bootstrap.servers", words[2]);
            properties.put("group.id", words[3]);
            properties.put("enable.auto.commit", "false");
            properties.put("auto.offset.reset", "earliest");
            properties.put("isolation.level", "read_committed");
            properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
            properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
            topics = List.of(words[5].split(","));
        }

        @Override
        void work() throws Exception {
            try (var consumer = new KafkaConsumer<byte[], byte[]>(properties);
                    BufferedWriter out = Files.newBufferedWriter(file)) {
                consumer.subscribe(topics);
                long heard = System.nanoTime();
                while (!ends) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                    for (ConsumerRecord<byte[], byte[]> one : records) {
                        out.write(one.topic() + " " + one.partition() + " " + one.offset() + " " + text(one.value()));
                        out.newLine();
                    }
                    count += records.count();
                    if (records.count() > 0) {
                        consumer.commitSync();
                        heard = System.nanoTime();
                    } else if (finishes && System.nanoTime() - heard > 700_000_000L && atEnd(consumer)) {
                        break;
                    }
                }
                if (!consumer.assignment().isEmpty()) {
                    consumer.commitSync();
                }
            }
        }

        static String text(byte[] value) {
            return value == null ? "-" : new String(value).split("\\|")[0];
        }

        static boolean atEnd(KafkaConsumer<byte[], byte[]> consumer) {
            if (consumer.assignment().isEmpty()) {
                return false;
            }
            for (Map.Entry<TopicPartition, Long> end : consumer.endOffsets(consumer.assignment()).entrySet()) {
                if (consumer.position(end.getKey()) < end.getValue()) {
                    return false;
                }
            }
            return true;
        }
    }

    static void tell(Work work) throws InterruptedException {
        work.join();
        say(work);
    }

    static void say(Work work) {
        String why = work.why.replace('"', '\'').replace('\\', '/').replace('\n', ' ');
        System.out.println("{\"id\": \"" + work.id + "\", \"count\": " + work.count + ", \"why\": \"" + why + "\"}");
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        Map<String, Work> works = new ConcurrentHashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("{\"ready\": true}");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "write", "read" -> {
                    Work work = words[0].equals("write") ? new Writer(words) : new Reader(words);
                    work.setDaemon(true);
                    works.put(words[1], work);
                    work.start();
                }
                case "await" -> {
                    works.get(words[1]).awaitCount(Integer.parseInt(words[2]));
                    say(works.get(words[1]));
                }
                case "stop" -> {
                    works.get(words[1]).ends = true;
                    tell(works.remove(words[1]));
                }
                case "finish" -> {
                    works.get(words[1]).finishes = true;
                    tell(works.remove(words[1]));
                }
                default -> throw new IOException("no such word: " + words[0]);
            }
        }
        System.exit(0);
    }
}
