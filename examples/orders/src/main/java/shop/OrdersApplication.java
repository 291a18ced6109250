package shop;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.redisson.Redisson;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.messaging.handler.annotation.Header;

/**
 * A service that schedules time-outs of orders with RDelayedQueue, and is told by RabbitMQ or Kafka when they are due.
 *
 * <p>{@code --offer=3 --delay=1h} schedules three orders that are due in an hour. It listens until Ctrl-C, with
 * {@code --listen=kafka} to Kafka.
 */
@SpringBootApplication
public class OrdersApplication {
    /** Ids that were handled: a second delivery has the id of the first. A service with a database keeps them there. */
    private final Set<String> handled = ConcurrentHashMap.newKeySet();

    public static void main(String[] arguments) {
        SpringApplication.run(OrdersApplication.class, arguments);
    }

    /** No codec is named, as in most programs: Redisson's default, which is Kryo 5 since 3.19. */
    @Bean(destroyMethod = "shutdown")
    RedissonClient redisson(@Value("${redis:redis://127.0.0.1:6379}") String address) {
        Config config = new Config();
        config.useSingleServer().setAddress(address);
        return Redisson.create(config);
    }

    @Bean
    ApplicationRunner offer(
            RedissonClient redisson, @Value("${offer:0}") int count, @Value("${delay:1h}") Duration delay) {
        return arguments -> {
            if (count == 0) {
                return;
            }
            RDelayedQueue<Order> timeouts = redisson.getDelayedQueue(redisson.getBlockingQueue("order:timeout"));
            for (int order = 1; order <= count; order++) {
                timeouts.offer(new Order(order, "unpaid"), delay.toMillis(), TimeUnit.MILLISECONDS);
            }
            System.out.println(count + " orders offered, due in " + delay);
        };
    }

    @Bean
    TopicExchange shop() {
        return new TopicExchange("shop");
    }

    @Bean
    Queue due() {
        return new Queue("orders.due");
    }

    @Bean
    Binding binding(Queue due, TopicExchange shop) {
        return BindingBuilder.bind(due).to(shop).with("order.due");
    }

    /** RabbitMQ hands a message out again if this does not return. */
    @RabbitListener(queues = "orders.due", autoStartup = "#{'${listen:rabbitmq}' == 'rabbitmq'}")
    void fromRabbit(byte[] json, @Header("delaybridge-id") String id) {
        due(json, id);
    }

    /** The offset is committed after this has returned. */
    @KafkaListener(topics = "orders.due", groupId = "orders", autoStartup = "#{'${listen:rabbitmq}' == 'kafka'}")
    void fromKafka(ConsumerRecord<byte[], byte[]> order) {
        due(order.value(), new String(order.headers().lastHeader("delaybridge-id").value(), UTF_8));
    }

    private void due(byte[] json, String id) {
        if (handled.add(id)) {
            System.out.println(handled.size() + " due: " + new String(json, UTF_8));
        }
    }
}
