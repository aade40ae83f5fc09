//! The names of all metrics. A published name never changes its meaning.

use super::Metric;

/// Whether the data directory could be looked at.
pub const STATUS_OK: Metric = Metric::gauge(
    "status_ok",
    "Whether the data directory could be looked at.",
);
pub const SEALED: Metric = Metric::gauge("sealed", "Whether the cluster is encrypted.");
pub const KEY_INFO: Metric = Metric::gauge("key_info", "The key of the cluster.");
pub const KEY_CREATED: Metric =
    Metric::gauge("key_created_timestamp_seconds", "When the key was made.");
pub const KEY_SLOTS: Metric = Metric::gauge("key_slots", "Key slots, by their kind.");
pub const SLOT_CREATED: Metric = Metric::gauge(
    "key_slot_created_timestamp_seconds",
    "When the key slot was made; 0 if it is not known.",
);
pub const SLOT_PROVED: Metric = Metric::gauge(
    "key_slot_proved_timestamp_seconds",
    "When the key slot was last seen to open; 0 if it is not known.",
);
pub const SLOT_NOTES_OK: Metric = Metric::gauge(
    "key_slot_notes_ok",
    "Whether the notes about key slots could be read.",
);
pub const KEY_OPENS: Metric = Metric::gauge("key_opens", "Whether the key opens.");
pub const SERVER_RUNNING: Metric = Metric::gauge("server_running", "Whether a server runs.");
pub const SERVER_SEALED: Metric = Metric::gauge(
    "server_sealed",
    "Whether the running server encrypts the cluster.",
);
pub const SERVER_START: Metric = Metric::gauge(
    "server_start_timestamp_seconds",
    "When the server was started.",
);
pub const SERVER_NEEDS_RESTART: Metric = Metric::gauge(
    "server_needs_restart",
    "Whether the server runs with another library than the installed one.",
);

// Only the exporter has these.
pub const BUILD_INFO: Metric = Metric::gauge("exporter_build_info", "The version of the exporter.");
pub const CLUSTERS: Metric =
    Metric::gauge("exporter_clusters", "Data directories that are watched.");
pub const DISCOVERY_ERRORS: Metric = Metric::gauge(
    "exporter_discovery_errors",
    "Directories and settings that could not be read while clusters were looked for.",
);
pub const COLLECTOR_OK: Metric = Metric::gauge(
    "exporter_collector_ok",
    "Whether a part of the metrics could be collected; the exporter's log says why not.",
);
pub const COLLECTOR_CODE: Metric = Metric::gauge(
    "exporter_collector_exit_code",
    "The exit code that the command would end with; 0 if nothing failed.",
);
pub const READABLE: Metric = Metric::gauge(
    "cluster_readable",
    "Whether the exporter's account may read the data directory and its key file.",
);
pub const CLEAR_FILES: Metric = Metric::gauge(
    "clear_files",
    "Files and directories in the data directory that are none of PostgreSQL's and not encrypted.",
);
pub const CLEAR_LOGS: Metric = Metric::gauge(
    "clear_log_directories",
    "Directories of logs in the data directory that are not empty, and not encrypted.",
);
pub const FINDINGS: Metric = Metric::gauge(
    "doctor_findings",
    "Findings of pgseal doctor that need no key, by subject and verdict.",
);
pub const LOGS_KNOWN: Metric = Metric::gauge(
    "audit_logs_known",
    "Whether the machine's settings could be read, which name the audit log.",
);
pub const LOG_OK: Metric = Metric::gauge(
    "audit_log_ok",
    "Whether the chain of an audit log holds as far as it was read.",
);
pub const LOG_READABLE: Metric =
    Metric::gauge("audit_log_readable", "Whether the audit log could be read.");
pub const LOG_UNREAD: Metric = Metric::gauge(
    "audit_log_unread_bytes",
    "Bytes of the audit log that the next scrapes read.",
);
pub const LOG_RECORDS: Metric = Metric::counter(
    "audit_log_records_total",
    "Records of an audit log, by event and data directory.",
);
pub const LOG_LAST: Metric = Metric::gauge(
    "audit_log_last_record_timestamp_seconds",
    "When the last record of an event was written, by data directory.",
);
pub const EVALUATOR_CELLS: Metric = Metric::counter(
    "evaluator_cells_total",
    "Cells that sessions of an evaluator compared, hashed or ranked, by its audit log.",
);
pub const EVALUATOR_REFUSALS: Metric = Metric::counter(
    "evaluator_refusals_total",
    "Requests that an evaluator refused, by its audit log.",
);
pub const EVALUATOR_USES: Metric = Metric::counter(
    "evaluator_grant_uses_total",
    "Uses of grants in sessions of an evaluator, by operation, by its audit log.",
);
pub const EVALUATOR_LOGS: Metric = Metric::gauge(
    "evaluator_logs_readable",
    "Whether the directory of an evaluator's audit logs could be read.",
);
