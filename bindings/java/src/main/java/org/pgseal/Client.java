package org.pgseal;

import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A thread of this process between drivers and one server. It ends with close(), or with the process.
 *
 * <p>Its options are those of pgseal_client_start: server (a connection string of libpq), identity (a path), and accept or policy.
 */
public final class Client implements AutoCloseable {
    private static final Set<Client> OPEN = ConcurrentHashMap.newKeySet();
    private static final Map<Map<String, String>, Client> SHARED = new HashMap<>();
    private static ClientLibrary library;

    private final File socket;
    private Pointer handle;

    private Client(Pointer handle) {
        this.handle = handle;
        socket = new File(parameter("host"), ".s.PGSQL." + parameter("port"));
    }

    /** Starts a client. */
    public static Client start(Map<String, String> options) throws PgsealException {
        String[] keywords = options.keySet().toArray(String[]::new);
        String[] values = options.values().toArray(String[]::new);
        PointerByReference error = new PointerByReference();
        Pointer handle = library().pgseal_client_start(keywords, values, error);
        if (handle == null) {
            String sentence = error.getValue().getString(0, "UTF-8");
            library().pgseal_client_free(error.getValue());
            throw new PgsealException(sentence);
        }
        Client client = new Client(handle);
        OPEN.add(client);
        return client;
    }

    /** The client of these options: one for all that ask in this process. */
    static Client shared(Map<String, String> options) throws PgsealException {
        synchronized (SHARED) {
            Client known = SHARED.get(options);
            if (known == null || known.isClosed()) {
                known = start(options);
                SHARED.put(new TreeMap<>(options), known);
            }
            return known;
        }
    }

    /** Version and commit of the library. */
    public static String version() throws PgsealException {
        return library().pgseal_client_version();
    }

    /** The socket that drivers connect to. */
    public File socket() {
        return socket;
    }

    /** What the connection string says of a keyword of libpq's, such as user, dbname and password, or null. */
    public synchronized String parameter(String keyword) {
        if (handle == null) {
            throw new IllegalStateException("the client is closed");
        }
        return library.pgseal_client_parameter(handle, keyword);
    }

    /** Whether close() was called. */
    public synchronized boolean isClosed() {
        return handle == null;
    }

    /** Ends all connections that go through this client. */
    @Override
    public synchronized void close() {
        OPEN.remove(this);
        if (handle != null) {
            library.pgseal_client_stop(handle);
            handle = null;
        }
    }

    private static synchronized ClientLibrary library() throws PgsealException {
        if (library == null) {
            library = ClientLibrary.load();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> OPEN.forEach(Client::close)));
        }
        return library;
    }
}
