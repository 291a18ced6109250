package io.delaybridge.client;

import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.async.RedisScriptingAsyncCommands;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletionStage;

/**
 * Runs scripts over Lettuce: what {@code client.connect(ByteArrayCodec.INSTANCE).async()} returns, of a client for one server,
 * Sentinel or Cluster.
 */
public final class OverLettuce implements RedisScripts {
    private static final byte[][] NONE = new byte[0][];

    private final RedisScriptingAsyncCommands<byte[], byte[]> commands;

    /** The connection is not closed here. */
    public OverLettuce(RedisScriptingAsyncCommands<byte[], byte[]> commands) {
        this.commands = commands;
    }

    @Override
    public CompletionStage<Object> run(Script script, List<String> keys, List<byte[]> arguments) {
        ScriptOutputType type = script.answersWithList() ? ScriptOutputType.MULTI : ScriptOutputType.INTEGER;
        byte[][] names = keys.stream().map(key -> key.getBytes(StandardCharsets.UTF_8)).toArray(byte[][]::new);
        byte[][] values = arguments.toArray(NONE);
        return Script.orByText(
                commands.evalsha(script.sha(), type, names, values),
                () -> commands.eval(script.text(), type, names, values));
    }
}
