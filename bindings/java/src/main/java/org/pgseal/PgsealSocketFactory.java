package org.pgseal;

import java.net.SocketException;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.newsclub.net.unix.AFUNIXSocketAddress;
import org.newsclub.net.unix.AFUNIXSocketFactory;

/**
 * The property socketFactory of pgjdbc. The property socketFactoryArg is the server's connection string, as libpq takes it;
 * pgseal.identity, pgseal.accept, pgseal.policy, pgseal.rules, pgseal.trust_server_types and pgseal.session_pool are the other options.
 * Host and port of the JDBC URL are not used.
 */
public final class PgsealSocketFactory extends AFUNIXSocketFactory {
    private static final String PREFIX = "pgseal.";

    private final Map<String, String> options;

    /** pgjdbc gives the properties of the connection. */
    public PgsealSocketFactory(Properties properties) {
        options = properties.stringPropertyNames().stream().filter(name -> name.startsWith(PREFIX))
            .collect(Collectors.toMap(name -> name.substring(PREFIX.length()), properties::getProperty, (one, other) -> one, TreeMap::new));
        options.put("server", properties.getProperty("socketFactoryArg", ""));
    }

    @Override
    public boolean isHostnameSupported(String host) {
        return true;
    }

    /** The client's socket, whatever the host is. */
    @Override
    public AFUNIXSocketAddress addressFromHost(String host, int port) throws SocketException {
        try {
            return AFUNIXSocketAddress.of(Client.shared(options).socket());
        } catch (PgsealException error) {
            SocketException failed = new SocketException(error.getMessage());
            failed.initCause(error);
            throw failed;
        }
    }
}
