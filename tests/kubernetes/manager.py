"""What CloudNativePG's instance manager runs, and the files that it writes: its command lines, in its order, with its environment.

Each function has the name of the manager's in the commit below, and does of it what concerns PostgreSQL's programs and files. The
Kubernetes API, plugins and log pipes are not here; `wal-archive` and `wal-restore` copy to and from a directory.
"""

import os
import re
import subprocess

from pods import PATH, UID, Pod, eventually

# github.com/cloudnative-pg/cloudnative-pg
COMMIT = "a95a534dbe0854495b863bbc1b7651f74d310916"
PGDATA = "/var/lib/postgresql/data/pgdata"
PGWAL = "/var/lib/postgresql/wal/pg_wal"
OLD = "/controller/old"
LOG = "/controller/log"
# pkg/management/postgres/instance.go, pgCtlTimeout
TIMEOUT = "-t 40000000"
CERTIFICATES = "/controller/certificates"

# pkg/postgres/configuration.go, CnpgConfigurationSettings; the directories of libraries and slots are left out.
SETTINGS = {
    "archive_timeout": "5min", "dynamic_shared_memory_type": "posix", "full_page_writes": "on", "logging_collector": "on",
    "log_destination": "csvlog", "log_directory": LOG, "log_filename": "postgres", "log_rotation_age": "0", "log_rotation_size": "0",
    "log_truncate_on_rotation": "false", "max_parallel_workers": "32", "max_worker_processes": "32", "max_replication_slots": "32",
    "shared_memory_type": "mmap", "ssl_max_protocol_version": "TLSv1.3", "ssl_min_protocol_version": "TLSv1.3", "wal_keep_size": "512MB",
    "wal_level": "logical", "wal_log_hints": "on", "wal_sender_timeout": "5s", "wal_receiver_timeout": "5s", "shared_preload_libraries": "",
    "archive_mode": "on", "archive_command": f"/controller/manager wal-archive --log-destination {LOG}/postgres.json %p",
    "hot_standby": "true", "port": "5432",
    "restart_after_crash": "false", "ssl": "on", "ssl_cert_file": f"{CERTIFICATES}/server.crt",
    "ssl_key_file": f"{CERTIFICATES}/server.key", "ssl_ca_file": f"{CERTIFICATES}/ca.crt",
    "unix_socket_directories": "/controller/run", "cluster_name": "sealed",
}
HBA = """\
local all cnpg_metrics_exporter peer map=cnpg_metrics_exporter
local all all peer map=local
hostssl postgres streaming_replica all cert map=cnpg_streaming_replica
hostssl replication streaming_replica all cert map=cnpg_streaming_replica
host all all all scram-sha-256
"""
IDENT = """\
local postgres postgres
cnpg_streaming_replica streaming_replica streaming_replica
"""
# `wal-archive … FILE` and `wal-restore … NAME FILE`.
STAND_IN = """\
#!/bin/sh
for last; do previous=$path path=$last; done
case $1 in
wal-archive) exec cp "$path" "/controller/archive/${path##*/}" ;;
wal-restore) exec cp "/controller/archive/$previous" "$path" ;;
esac
exit 64
"""


class Instance(Pod):
    """One pod of a cluster, or of a job: its volumes are those of `name`, whatever jobs run before on them."""

    def __init__(self, node, image, name, settings, address, scratch=None):
        self.name, self.address = name, address
        self.volumes = {part: node.place / f"{name}-{part}" for part in ("data", "wal")}
        for part, path in self.volumes.items():
            if not path.exists():
                node.volume(f"{name}-{part}")
        scratch = scratch or node.volume(f"{name}-scratch-{len(list(node.place.glob(f'{name}-scratch-*')))}")
        self.bootstrap(scratch, node)
        memory = node.place / f"{scratch.name}-shm"
        memory.mkdir(exist_ok=True)
        os.chmod(memory, 0o1777)
        mounts = [(self.volumes["data"], "/var/lib/postgresql/data", "--bind"),
                  (self.volumes["wal"], "/var/lib/postgresql/wal", "--bind"), (scratch, "/run", "--bind"),
                  (scratch, "/controller", "--bind"), (memory, "/dev/shm", "--bind"),
                  (node.place / "archive", "/controller/archive", "--bind")]
        if settings:
            mounts.append((settings, "/projected", "--ro-bind"))
        # The image's variables, and then CreatePodEnvConfig's.
        version = next((image.root / "usr/lib/postgresql").iterdir()).name
        environment = {"PATH": f"{PATH}:/usr/lib/postgresql/{version}/bin",
                       **image.variables, "PGDATA": PGDATA, "POD_NAME": name, "NAMESPACE": "default", "CLUSTER_NAME": "sealed",
                       "PSQL_HISTORY": "/controller/tmp/.psql_history", "PGPORT": "5432", "PGHOST": "/controller/run",
                       "TMPDIR": "/controller/tmp"}
        super().__init__(node, image, mounts, environment, scratch)

    @staticmethod
    def bootstrap(scratch, node):
        """What the init container and the manager leave in the scratch volume."""
        (node.place / "archive").exists() or node.volume("archive")
        for name in ("tmp", "run", "log", "recovery", "archive", "certificates"):
            (scratch / name).mkdir(exist_ok=True)
        (scratch / "manager").write_text(STAND_IN)
        os.chmod(scratch / "manager", 0o755)
        for file in (node.place / "certificates").iterdir():
            copy = scratch / "certificates" / file.name
            copy.write_bytes(file.read_bytes())
            os.chmod(copy, 0o600)
        subprocess.run(["chown", "-R", f"{UID}:{UID}", scratch], check=True)

    def path(self, inside):
        """Where the host has a path below one of the pod's volumes."""
        for mounted, volume in (("/var/lib/postgresql/data", self.volumes["data"]), ("/var/lib/postgresql/wal", self.volumes["wal"]),
                                ("/controller", self.scratch)):
            if inside.startswith(mounted):
                return volume / inside[len(mounted):].lstrip("/")
        raise ValueError(inside)

    def write(self, inside, text, append=False):
        """Writes a file as the manager does: by another program than PostgreSQL's, whole, as the pod's user."""
        path = self.path(inside)
        before = path.read_text() if append else ""
        path.write_text(before + text)
        os.chown(path, UID, UID)
        os.chmod(path, 0o600)

    # pkg/management/postgres/initdb.go

    def create_data_directory(self, flags=(), data=PGDATA, wal=PGWAL, temporary=False):
        """CreateDataDirectory: initdb, and the files that postgresql.conf then includes."""
        options = ["--username", "postgres", "-D", data]
        options += ["--no-sync"] if temporary else []
        options += ["--waldir", wal] if wal else []
        done = self.run("initdb", *options, *flags, check=False)
        if done.returncode == 0:
            self.ensure_includes(data)
        return done

    def ensure_includes(self, data):
        """EnsureIncludes, and the empty files."""
        self.write(f"{data}/postgresql.conf", "include 'custom.conf'\ninclude 'override.conf'\n", append=True)
        for name in ("custom.conf", "override.conf"):
            self.write(f"{data}/{name}", "")

    def refresh_configuration(self, data=PGDATA, **more):
        """RefreshConfigurationFilesFromCluster, RefreshPGHBA, RefreshPGIdent."""
        settings = {**SETTINGS, "listen_addresses": self.address, **more}
        self.write(f"{data}/custom.conf", "".join(f"{name} = '{value}'\n" for name, value in settings.items()))
        self.write(f"{data}/pg_hba.conf", HBA)
        self.write(f"{data}/pg_ident.conf", IDENT)

    # pkg/management/postgres/instance.go

    def startup(self, *options):
        """Startup: a server for a job."""
        more = [word for option in ("listen_addresses='127.0.0.1'", *options) for word in ("-o", f"-c {option}")]
        self.run("pg_ctl", "start", "-w", "-D", PGDATA, "-o", "-c port=5432 -c unix_socket_directories=/controller/run", TIMEOUT, *more)

    def shutdown(self, mode="fast"):
        """Shutdown, of a server that runs."""
        self.run("pg_ctl", "-D", PGDATA, "status")
        self.psql("CHECKPOINT")
        self.run("pg_ctl", "-D", PGDATA, "-m", mode, "stop", "-w", "-t", "180")

    def serve(self):
        """Run: the server of a pod. Its log comes through a pipe that the manager reads."""
        self.run("sh", "-c", f"[ -p {LOG}/postgres.csv ] || mkfifo -m 600 {LOG}/postgres.csv")
        self.start("sh", "-c", f"while :; do cat {LOG}/postgres.csv; done", background=True, output="/controller/log/seen")
        self.refresh_configuration()
        self.controldata()
        server = self.start("postgres", "-D", PGDATA, background=True, output="/controller/log/stderr",
                            environment=self.postgres_environment())
        self.until_ready(server)

    def postgres_environment(self):
        """buildPostgresEnv: the manager's own, and what is added. None represents the pod's."""
        text = self.run("env", "-0").stdout
        inherited = dict(entry.split("=", 1) for entry in text.split("\0") if entry)
        return {**inherited, "PG_OOM_ADJUST_FILE": "/proc/self/oom_score_adj", "PG_OOM_ADJUST_VALUE": "0"}

    def until_ready(self, server):
        """PgIsReady, until it ends with 0."""
        def is_ready():
            if self.read(server, "rc"):
                raise AssertionError(self.log())
            return self.run("pg_isready", "-U", "postgres", "-d", "postgres", "-q", check=False).returncode == 0

        eventually(is_ready, self.log, process=self.process)

    def log(self):
        """What the server has said."""
        files = [self.scratch / "log" / name for name in ("stderr", "seen")]
        return "\n".join(file.read_text(errors="replace")[-4000:] for file in files if file.exists())

    def controldata(self, data=PGDATA, check=True):
        """GetPgControldata: the fields that pg_controldata prints."""
        done = self.run("env", f"PGDATA={data}", "pg_controldata", check=check)
        return fields(done.stdout)

    def enforced_parameters(self):
        """LoadEnforcedParametersFromPgControldata, of restores: the program gets two variables and no others."""
        binary = self.run("sh", "-c", "command -v pg_controldata").stdout.strip()
        done = self.run(binary, "-D", PGDATA, environment={"LANG": "C", "LC_MESSAGES": "C"}, check=False)
        return done, fields(done.stdout)

    def primary_conninfo(self, primary):
        """buildPrimaryConnInfo; the service's name is an address here."""
        key = f"{CERTIFICATES}/streaming_replica"
        return (f"host={primary.address} user=streaming_replica port=5432 sslkey={key}.key sslcert={key}.crt "
                f"sslrootcert={CERTIFICATES}/ca.crt application_name={self.name} sslmode=verify-ca")

    def rewind(self, primary):
        """Rewind, with the copy of pg_control that it keeps meanwhile."""
        conninfo = self.primary_conninfo(primary) + " dbname=postgres"
        self.override(conninfo, "--rewind ")
        self.run("cp", f"{PGDATA}/global/pg_control", f"{PGDATA}/global/pg_control.old")
        self.run("pg_rewind", "-P", "--source-server", conninfo, "--target-pgdata", PGDATA, "--restore-target-wal",
                 environment=self.postgres_environment())
        self.path(f"{PGDATA}/global/pg_control.old").unlink(missing_ok=True)

    def demote(self, primary):
        """Demote, and the end of Join."""
        self.override(self.primary_conninfo(primary) + " dbname=postgres", "")
        self.write(f"{PGDATA}/standby.signal", "")

    def override(self, conninfo, option):
        """writePostgresOverrideConfFile."""
        restore = f"/controller/manager wal-restore --log-destination {LOG}/postgres.json {option}%f %p"
        settings = {"restore_command": restore, "recovery_target_timeline": "latest", "primary_conninfo": conninfo}
        self.write(f"{PGDATA}/override.conf", "".join(f"{name} = '{value}'\n" for name, value in settings.items()))

    # pkg/management/postgres/join.go, promote.go

    def join(self, primary):
        """Join: a replica by pg_basebackup."""
        conninfo = self.primary_conninfo(primary) + " dbname=postgres connect_timeout=5 options='-c wal_sender_timeout=0s'"
        self.run("pg_basebackup", "-D", PGDATA, "-v", "-w", "-d", conninfo, "--waldir", PGWAL)
        self.demote(primary)

    def promote(self):
        """PromoteAndWait."""
        self.run("pg_ctl", "-D", PGDATA, "-w", "promote", "-t 40")
        eventually(lambda: not self.path(f"{PGDATA}/standby.signal").exists())
        self.psql("CHECKPOINT")

    # internal/cmd/manager/instance/upgrade

    def upgrade_prepare(self):
        """copyPostgresInstallation, in the image of the old version."""
        directories = [self.run("pg_config", option).stdout.strip() for option in ("--bindir", "--pkglibdir", "--sharedir")]
        self.run("mkdir", "-p", "-m", "750", *[f"{OLD}{directory}" for directory in directories])
        self.write(f"{OLD}/bindir.txt", f"{OLD}{directories[0]}\n")
        for directory in directories:
            self.run("cp", "-a", f"{directory}/.", f"{OLD}{directory}")

    def upgrade_execute(self):
        """upgradeSubCommand, in the image of the new version."""
        bindir, new = self.path(f"{OLD}/bindir.txt").read_text().strip(), f"{PGDATA}-new"
        control = fields(self.run("env", f"PGDATA={PGDATA}", f"{bindir}/pg_controldata").stdout)
        size = int(control["Bytes per WAL segment"]) // 1048576
        checksums = ["--data-checksums"] if control["Data page checksum version"] == "1" else []
        self.run("initdb", "--username", "postgres", "-D", new, "--waldir", f"{PGWAL}-new", f"--wal-segsize={size}", *checksums)
        self.ensure_includes(new)
        self.refresh_configuration(new, max_slot_wal_keep_size="-1", idle_replication_slot_timeout="0")
        self.write(f"{new}/override.conf", "")
        upgraded = self.run("pg_upgrade", "--link", "--username", "postgres", "--old-bindir", bindir, "--old-datadir", PGDATA,
                            "--new-datadir", new, directory=new, check=False)
        if upgraded.returncode == 0:
            self.move_data_in_place(new)
        return upgraded

    def move_data_in_place(self, new):
        """moveDataInPlace."""
        self.run("rm", "-f", f"{new}/delete_old_cluster.sh")
        for source, target in ((PGDATA, f"{PGDATA}.old"), (PGWAL, f"{PGWAL}.old"), (new, PGDATA), (f"{PGWAL}-new", PGWAL)):
            self.run("mv", "-T", source, target)
        self.run("ln", "-sfnT", PGWAL, f"{PGDATA}/pg_wal")
        self.run("rm", "-r", f"{PGDATA}.old", f"{PGWAL}.old")

    def psql(self, sql, database="postgres", check=True):
        """The rows that SQL gives, by the superuser over the socket, as the manager's own connections come."""
        done = self.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-c", sql, check=check)
        return done.stdout.strip() if check else done.stderr

    def exec(self, *command):
        """What a program prints that somebody runs in the pod, as by kubectl exec."""
        return self.run(*command).stdout.strip()


def fields(text):
    """ParsePgControldataOutput."""
    return dict(re.findall(r"^([^:\n]+):\s*(.*)$", text, re.M))
