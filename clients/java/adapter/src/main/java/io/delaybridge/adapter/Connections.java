package io.delaybridge.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.TypedJsonJacksonCodec;
import org.redisson.config.Config;

/** What `open` says about servers and codecs. */
final class Connections {
    private Connections() {}

    static RedissonClient redisson(JsonNode command) {
        Config config = new Config();
        config.setThreads(2).setNettyThreads(2);
        if (command.hasNonNull("sentinel")) {
            config.useSentinelServers()
                    .setMasterName(command.get("sentinel").get("master").asText())
                    .setCheckSentinelsList(false)
                    .addSentinelAddress(addresses(command.get("sentinel").get("nodes")))
                    .setScanInterval(500)
                    .setTimeout(20_000);
        } else if (command.hasNonNull("cluster")) {
            config.useClusterServers().addNodeAddress(addresses(command.get("cluster"))).setTimeout(20_000);
        } else {
            config.useSingleServer()
                    .setAddress(command.get("redis").asText())
                    .setConnectionMinimumIdleSize(1)
                    .setConnectionPoolSize(4)
                    .setSubscriptionConnectionMinimumIdleSize(1)
                    .setTimeout(20_000);
        }
        return Redisson.create(config);
    }

    static Codec codec(JsonNode command) {
        return command.get("codec").asText().equals("string") ? StringCodec.INSTANCE : new TypedJsonJacksonCodec(Object.class);
    }

    private static String[] addresses(JsonNode nodes) {
        List<String> addresses = new ArrayList<>();
        nodes.forEach(node -> addresses.add("redis://" + node.asText()));
        return addresses.toArray(new String[0]);
    }
}
