import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.core.config.impl.SecurityConfiguration;
import org.apache.activemq.artemis.core.server.ActiveMQServer;
import org.apache.activemq.artemis.core.server.MessageReference;
import org.apache.activemq.artemis.core.server.Queue;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressFullMessagePolicy;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.protocol.amqp.broker.AMQPMessage;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;
import org.apache.activemq.artemis.spi.core.security.jaas.InVMLoginModule;
import org.apache.activemq.artemis.utils.collections.LinkedListIterator;
import org.apache.qpid.proton.amqp.messaging.Data;

/**
 * A broker of broker.xml, and a port of HTTP that looks into its queues behind the back of its clients.
 *
 * <p>Arguments: the file, the port. "READY" is printed when both are there.
 *
 * <p>GET /messages?QUEUE: a line for each message, in order: durable, message-id, content-type, to, application properties as
 * NAME=VALUE joined by newlines, the time of arrival in ms, body; each in base64, with spaces between them. POST /take?QUEUE: the
 * same, and those are removed. POST /create?QUEUE, /delete?QUEUE, /purge?QUEUE. POST /fill?ADDRESS lets an address refuse messages
 * because it is full, /empty undoes it; /deny lets nobody send to it, /allow undoes that.
 */
public final class Broker {
  public static void main(String[] args) throws Exception {
    SecurityConfiguration users = new SecurityConfiguration();
    for (String name : new String[] {"guest", "nobody"}) {
      users.addUser(name, name);
      users.addRole(name, name);
    }
    users.setDefaultUser("guest");
    EmbeddedActiveMQ embedded = new EmbeddedActiveMQ();
    embedded.setConfigResourcePath("file:" + args[0]);
    embedded.setSecurityManager(new ActiveMQJAASSecurityManager(InVMLoginModule.class.getName(), users));
    embedded.start();
    ActiveMQServer server = embedded.getActiveMQServer();
    HttpServer http = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[1])), 0);
    http.createContext("/", exchange -> {
      try {
        String queue = URLDecoder.decode(exchange.getRequestURI().getRawQuery(), StandardCharsets.UTF_8);
        answer(exchange, 200, act(server, exchange.getRequestURI().getPath(), queue));
      } catch (Exception e) {
        answer(exchange, 500, e.toString());
      }
    });
    http.start();
    System.out.println("READY");
  }

  private static void answer(HttpExchange exchange, int status, String text) throws java.io.IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
    exchange.getResponseBody().write(bytes);
    exchange.close();
  }

  private static String act(ActiveMQServer server, String what, String name) throws Exception {
    if (what.equals("/create")) {
      server.createQueue(QueueConfiguration.of(name).setRoutingType(RoutingType.ANYCAST).setAddress(name).setAutoCreateAddress(true));
      return "";
    }
    switch (what) {
      case "/fill":
        AddressSettings full = new AddressSettings(server.getAddressSettingsRepository().getMatch(name));
        full.setMaxSizeBytes(1).setAddressFullMessagePolicy(AddressFullMessagePolicy.FAIL);
        server.getAddressSettingsRepository().addMatch(name, full);
        return "";
      case "/empty":
        server.getAddressSettingsRepository().removeMatch(name);
        return "";
      case "/deny":
        server.getSecurityRepository().addMatch(name, new HashSet<>());
        return "";
      case "/allow":
        server.getSecurityRepository().removeMatch(name);
        return "";
      default:
        break;
    }
    Queue queue = server.locateQueue(name);
    if (queue == null) {
      throw new IllegalStateException("no queue " + name);
    }
    switch (what) {
      case "/delete":
        server.destroyQueue(queue.getName(), null, false, false, true);
        return "";
      case "/purge":
        queue.deleteAllReferences();
        return "";
      case "/messages":
        return messages(queue, false);
      case "/take":
        return messages(queue, true);
      default:
        throw new IllegalArgumentException(what);
    }
  }

  private static String messages(Queue queue, boolean taken) throws Exception {
    StringBuilder lines = new StringBuilder();
    List<Long> ids = new ArrayList<>();
    try (LinkedListIterator<MessageReference> references = queue.browserIterator()) {
      while (references.hasNext()) {
        AMQPMessage message = (AMQPMessage) references.next().getMessage();
        ids.add(message.getMessageID());
        var properties = message.getProperties();
        var application = new StringBuilder();
        for (Map.Entry<?, ?> entry : message.getApplicationProperties().getValue().entrySet()) {
          application.append(entry.getKey()).append('=').append(entry.getValue()).append('\n');
        }
        byte[] body = ((Data) message.getBody()).getValue().getArray();
        lines.append(coded(String.valueOf(message.isDurable()))).append(' ');
        lines.append(coded(String.valueOf(properties.getMessageId()))).append(' ');
        lines.append(coded(String.valueOf(properties.getContentType()))).append(' ');
        lines.append(coded(String.valueOf(properties.getTo()))).append(' ');
        lines.append(coded(application.toString())).append(' ');
        lines.append(coded(String.valueOf(message.getIngressTimestamp()))).append(' ');
        lines.append(Base64.getEncoder().encodeToString(body)).append('\n');
      }
    }
    if (taken) {
      for (long id : ids) {
        queue.deleteReference(id);
      }
    }
    return lines.toString();
  }

  private static String coded(String text) {
    return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
  }
}
