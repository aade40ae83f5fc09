package org.pgseal;

import java.sql.SQLException;

/** Why there is no client, in one sentence. */
public final class PgsealException extends SQLException {
    private static final long serialVersionUID = 1;
    private static final String CANNOT_CONNECT = "08001";

    PgsealException(String sentence) {
        super(sentence, CANNOT_CONNECT);
    }

    PgsealException(String sentence, Throwable cause) {
        super(sentence, CANNOT_CONNECT, cause);
    }
}
