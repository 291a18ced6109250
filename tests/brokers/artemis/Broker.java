import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedWriter;
import java.io.OutputStreamWriter;
import java.io.Writer;
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
 * NAME:VALUE, both in base64, joined by newlines, the time of arrival in ms, body; each in base64, with spaces between them. POST /take?QUEUE: the
 * same, and those are removed. The last line of both is a dot: a list without it was cut. POST /create?QUEUE, /delete?QUEUE, /purge?QUEUE. POST /fill?ADDRESS lets an address refuse messages
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
        String what = exchange.getRequestURI().getPath();
        if (what.equals("/messages") || what.equals("/take")) {
          list(exchange, located(server, queue), what.equals("/take"));
        } else {
          act(server, what, queue);
          answer(exchange, 200, "");
        }
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

  private static Queue located(ActiveMQServer server, String name) {
    Queue queue = server.locateQueue(name);
    if (queue == null) {
      throw new IllegalStateException("no queue " + name);
    }
    return queue;
  }

  private static void act(ActiveMQServer server, String what, String name) throws Exception {
    switch (what) {
      case "/create":
        server.createQueue(QueueConfiguration.of(name).setRoutingType(RoutingType.ANYCAST).setAddress(name).setAutoCreateAddress(true));
        break;
      case "/fill":
        AddressSettings full = new AddressSettings(server.getAddressSettingsRepository().getMatch(name));
        full.setMaxSizeBytes(1).setAddressFullMessagePolicy(AddressFullMessagePolicy.FAIL);
        server.getAddressSettingsRepository().addMatch(name, full);
        break;
      case "/empty":
        server.getAddressSettingsRepository().removeMatch(name);
        break;
      case "/deny":
        server.getSecurityRepository().addMatch(name, new HashSet<>());
        break;
      case "/allow":
        server.getSecurityRepository().removeMatch(name);
        break;
      case "/delete":
        server.destroyQueue(located(server, name).getName(), null, false, false, true);
        break;
      case "/purge":
        located(server, name).deleteAllReferences();
        break;
      default:
        throw new IllegalArgumentException(what);
    }
  }

  /** Writes line by line: all messages together may need more memory than there is. */
  private static void list(HttpExchange exchange, Queue queue, boolean taken) throws Exception {
    List<Long> ids = new ArrayList<>();
    // A message that was accepted is moved to where a browser sees it by a task of the queue.
    queue.flushExecutor();
    exchange.sendResponseHeaders(200, 0);
    try (Writer lines = new BufferedWriter(new OutputStreamWriter(exchange.getResponseBody(), StandardCharsets.UTF_8));
        LinkedListIterator<MessageReference> references = queue.browserIterator()) {
      while (references.hasNext()) {
        AMQPMessage message = (AMQPMessage) references.next().getMessage();
        ids.add(message.getMessageID());
        var properties = message.getProperties();
        var application = new StringBuilder();
        for (Map.Entry<?, ?> entry : message.getApplicationProperties().getValue().entrySet()) {
          String name = coded(String.valueOf(entry.getKey()));
          application.append(name).append(':').append(coded(String.valueOf(entry.getValue()))).append('\n');
        }
        byte[] body = ((Data) message.getBody()).getValue().getArray();
        lines.append(coded(String.valueOf(message.isDurable()))).append(' ');
        lines.append(coded(String.valueOf(properties.getMessageId()))).append(' ');
        lines.append(coded(String.valueOf(properties.getContentType()))).append(' ');
        lines.append(coded(String.valueOf(properties.getTo()))).append(' ');
        lines.append(coded(application.toString())).append(' ');
        Long arrived = message.getIngressTimestamp();
        lines.append(coded(String.valueOf(arrived == null ? 0 : arrived))).append(' ');
        lines.append(Base64.getEncoder().encodeToString(body)).append('\n');
      }
      if (taken) {
        for (long id : ids) {
          queue.deleteReference(id);
        }
      }
      lines.append(".\n");
    }
    exchange.close();
  }

  private static String coded(String text) {
    return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
  }
}
