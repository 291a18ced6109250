import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Delayed messages through Kafka, with the official client.
 *
 * <pre>
 *   javac -cp kafka-clients.jar Delayed.java
 *   java -cp kafka-clients.jar:slf4j-api.jar:. Delayed 127.0.0.1:9092 publish order-4711 5000
 *   java -cp kafka-clients.jar:slf4j-api.jar:. Delayed 127.0.0.1:9092 consume 1
 * </pre>
 *
 * The daemon has the input `logs` of docs/delayed-messages.md: the topic `delay-in`, `identity: header`, and
 * `to: { sink: events, topic: events }`. The topics must exist.
 */
public final class Delayed {
  public static void main(String[] arguments) throws Exception {
    if (arguments[1].equals("publish")) {
      publish(arguments[0], arguments[2], Long.parseLong(arguments[3]));
    } else {
      consume(arguments[0], Integer.parseInt(arguments[2]));
    }
  }

  private static void publish(String servers, String id, long delayMs) throws Exception {
    Properties settings = new Properties();
    settings.putAll(Map.of("bootstrap.servers", servers, "acks", "all"));
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      String body = "{\"order\":\"" + id + "\",\"published_ms\":" + System.currentTimeMillis() + "}";
      ProducerRecord<String, String> record = new ProducerRecord<>("delay-in", id, body);
      // Headers are texts. With `identity: header`, a message that is published twice is delivered once.
      record.headers().add("x-message-id", id.getBytes(StandardCharsets.UTF_8));
      record.headers().add("x-delay", Long.toString(delayMs).getBytes(StandardCharsets.UTF_8));
      // The brokers have the message when this returns.
      producer.send(record).get(30, TimeUnit.SECONDS);
    }
  }

  private static void consume(String servers, int count) {
    Properties settings = new Properties();
    settings.putAll(Map.of("bootstrap.servers", servers, "group.id", "shop-java", "auto.offset.reset", "earliest"));
    try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("events"));
      long end = System.currentTimeMillis() + 60_000;
      while (count > 0 && System.currentTimeMillis() < end) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
          Header due = record.headers().lastHeader("delaybridge-due-ms");
          System.out.println(record.key() + " " + new String(due.value(), StandardCharsets.UTF_8) + " "
              + System.currentTimeMillis() + " " + record.value());
          count--;
        }
      }
    }
    if (count > 0) {
      throw new IllegalStateException(count + " messages are missing after a minute");
    }
  }
}
