package org.pgseal;

import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.io.File;
import java.io.IOException;
import java.util.Map;

/** The functions of pgseal_client.h. */
interface ClientLibrary extends Library {
    int INTERFACE = 2;

    int pgseal_client_interface();

    String pgseal_client_version();

    Pointer pgseal_client_start(String[] keywords, String[] values, PointerByReference error);

    String pgseal_client_parameter(Pointer client, String keyword);

    void pgseal_client_stop(Pointer client);

    void pgseal_client_free(Pointer text);

    /** The library that PGSEAL_CLIENT_LIBRARY names, else the one in the jar, else the loader's. */
    static ClientLibrary load() throws PgsealException {
        String name = name();
        ClientLibrary library;
        try {
            library = Native.load(name, ClientLibrary.class, Map.of(OPTION_STRING_ENCODING, "UTF-8"));
        } catch (UnsatisfiedLinkError error) {
            throw new PgsealException(name + " cannot be loaded: install pgseal's client library, or set PGSEAL_CLIENT_LIBRARY", error);
        }
        if (library.pgseal_client_interface() != INTERFACE) {
            throw new PgsealException("this package and its library are of different versions: install both from one release");
        }
        return library;
    }

    private static String name() {
        String named = System.getenv("PGSEAL_CLIENT_LIBRARY");
        if (named != null && !named.isEmpty()) {
            return new File(named).getAbsolutePath();
        }
        try {
            return Native.extractFromResourcePath("pgseal_client", ClientLibrary.class.getClassLoader()).getPath();
        } catch (IOException notInTheJar) {
            return "libpgseal_client.so.0";
        }
    }
}
