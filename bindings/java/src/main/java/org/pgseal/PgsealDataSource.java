package org.pgseal;

import java.io.PrintWriter;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.logging.Logger;
import javax.sql.DataSource;
import org.newsclub.net.unix.AFUNIXSocketFactory;

/**
 * Connections of pgjdbc through a client that starts with the first one, and ends with close() or the process. What is not set comes from
 * the variables of the environment that `pgseal client` has.
 */
public final class PgsealDataSource implements DataSource, AutoCloseable {
    private final Map<String, String> options = new TreeMap<>();
    private final Properties properties = new Properties();
    private PrintWriter logWriter;
    private Client client;

    /** The server's connection string, as libpq takes it. */
    public void setServer(String conninfo) {
        options.put("server", conninfo);
    }

    /** The path of the identity file. */
    public void setIdentity(String path) {
        options.put("identity", path);
    }

    /** The evaluator that gets the keys: software:KEY. */
    public void setAccept(String evaluator) {
        options.put("accept", evaluator);
    }

    /** The path of a policy, in place of an evaluator. */
    public void setPolicy(String path) {
        options.put("policy", path);
    }

    /** The hash of the rules that the evaluator must follow. */
    public void setRules(String hash) {
        options.put("rules", hash);
    }

    /** Whether the server says which columns are encrypted where the identity has no list of them. */
    public void setTrustServerTypes(boolean trusts) {
        options.put("trust_server_types", Boolean.toString(trusts));
    }

    /** Whether the server is behind a pool that gives each connection one of the server's up to its end. */
    public void setSessionPool(boolean pooled) {
        options.put("session_pool", Boolean.toString(pooled));
    }

    /** Properties of pgjdbc. Those that lead to the client's socket cannot be changed. */
    public void setProperties(Properties others) {
        properties.clear();
        others.stringPropertyNames().forEach(name -> properties.setProperty(name, others.getProperty(name)));
    }

    @Override
    public Connection getConnection() throws SQLException {
        return connection(properties);
    }

    @Override
    public Connection getConnection(String user, String password) throws SQLException {
        Properties login = copy(properties);
        login.setProperty("user", user);
        login.setProperty("password", password == null ? "" : password);
        return connection(login);
    }

    /** Ends all connections of this data source. The next one starts another client. */
    @Override
    public synchronized void close() {
        if (client != null) {
            client.close();
        }
    }

    private Connection connection(Properties given) throws SQLException {
        Client through = client();
        Properties all = copy(given);
        for (String name : new String[] {"user", "password", "options"}) {
            String value = through.parameter(name);
            if (value != null) {
                all.putIfAbsent(name, value);
            }
        }
        all.setProperty("socketFactory", AFUNIXSocketFactory.FactoryArg.class.getName());
        all.setProperty("socketFactoryArg", through.socket().getPath());
        all.setProperty("sslmode", "disable");
        all.setProperty("gssEncMode", "disable");
        String database = URLEncoder.encode(through.parameter("dbname"), StandardCharsets.UTF_8);
        return DriverManager.getConnection("jdbc:postgresql://localhost/" + database, all);
    }

    private synchronized Client client() throws PgsealException {
        if (client == null || client.isClosed()) {
            client = Client.start(options);
        }
        return client;
    }

    private static Properties copy(Properties properties) {
        Properties copy = new Properties();
        copy.putAll(properties);
        return copy;
    }

    @Override
    public void setLoginTimeout(int seconds) {
        properties.setProperty("loginTimeout", Integer.toString(seconds));
    }

    @Override
    public int getLoginTimeout() {
        return Integer.parseInt(properties.getProperty("loginTimeout", "0"));
    }

    @Override
    public PrintWriter getLogWriter() {
        return logWriter;
    }

    @Override
    public void setLogWriter(PrintWriter writer) {
        logWriter = writer;
    }

    @Override
    public Logger getParentLogger() throws SQLFeatureNotSupportedException {
        throw new SQLFeatureNotSupportedException("pgjdbc logs to the logger org.postgresql");
    }

    @Override
    public <T> T unwrap(Class<T> type) throws SQLException {
        if (!type.isInstance(this)) {
            throw new SQLException("this data source is no " + type.getName());
        }
        return type.cast(this);
    }

    @Override
    public boolean isWrapperFor(Class<?> type) {
        return type.isInstance(this);
    }
}
