import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads messages of a topic with RocketMQ's own client: a line for each, with queue, tags, keys, properties as NAME=VALUE joined by
 * newlines, and body; each in base64, with spaces between them.
 *
 * <p>Arguments: the name server, the topic, the number of messages to wait for.
 */
public final class Reader {
  public static void main(String[] args) throws Exception {
    DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("reader-" + System.nanoTime());
    consumer.setNamesrvAddr(args[0]);
    consumer.setAutoCommit(false);
    consumer.setVipChannelEnabled(false);
    consumer.start();
    Collection<MessageQueue> queues = consumer.fetchMessageQueues(args[1]);
    consumer.assign(new ArrayList<>(queues));
    for (MessageQueue queue : queues) {
      consumer.seek(queue, 0);
    }
    int left = Integer.parseInt(args[2]);
    while (left > 0) {
      List<MessageExt> messages = consumer.poll(1000);
      for (MessageExt message : messages) {
        StringBuilder properties = new StringBuilder();
        for (Map.Entry<String, String> entry : new TreeMap<>(message.getProperties()).entrySet()) {
          properties.append(entry.getKey()).append('=').append(entry.getValue()).append('\n');
        }
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        System.out.println("MESSAGE " + coded(String.valueOf(message.getQueueId())) + ' ' + coded(String.valueOf(message.getTags()))
            + ' ' + coded(String.valueOf(message.getKeys())) + ' ' + coded(properties.toString()) + ' '
            + Base64.getEncoder().encodeToString(body));
        left--;
      }
    }
    System.exit(0);
  }

  private static String coded(String text) throws Exception {
    return Base64.getEncoder().encodeToString(text.getBytes("UTF-8"));
  }
}
