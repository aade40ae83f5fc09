# pgseal's commands; README.md explains them. Everything that is built lies in target/ and dist/.

CARGO ?= cargo
# Debian's own: the vectors' reader needs its packages for Python.
PYTHON ?= /usr/bin/python3

.PHONY: help build check demo demo-confidential demo-stop test test-barman test-bench-page test-builds test-debian test-drivers test-patroni test-pgbackrest test-tprocc test-programs test-world wheels jar npm fuzz sanitize
.PHONY: demo-shop test-apps test-auto-failover test-extensions packages test-fips test-keys test-kubernetes test-other-backups test-packages test-repmgr test-shop test-telling lint docs clean install-extensions

help:
	@echo 'make build        the command and the library, into dist/bin and dist/lib'
	@echo "make wheels       Python's package pgseal, into dist/wheels"
	@echo "make jar          Java's, into dist/jars"
	@echo "make npm          Node's, into dist/npm"
	@echo 'make packages     .deb and .rpm packages, into dist/packages'
	@echo 'make install-extensions PG_CONFIG=...   encdb, into the PostgreSQL of that pg_config'
	@echo 'make demo         a sealed cluster beside a plain reference cluster: load, kill -9, recover, verify, search'
	@echo 'make demo-confidential   encrypted columns: evaluator, keys, the published table, what each side sees'
	@echo 'make demo-shop    a web application, unchanged, on encrypted columns, until Ctrl-C'
	@echo 'make demo-stop    stop the server that the demo left running'
	@echo 'make check        what judges a change in minutes: lint, the tests of the crates, vectors, canaries on disk'
	@echo 'make test         the tests on PostgreSQL 15'
	@echo 'make test-apps    applications with encrypted columns: their own tests, and the statements that run unchanged'
	@echo 'make test-auto-failover   two nodes and a monitor under pg_auto_failover'
	@echo 'make test-barman  Barman: backups of both methods, recovery'
	@echo "make test-bench-page   the page of a benchmark's report, in Chromium"
	@echo "make test-builds   PostgreSQL as others build it: old minors, builds that were moved, other versions"
	@echo "make test-debian  Debian's scripts and checkers, systemd's units, a container's steps"
	@echo 'make test-drivers drivers and ORMs of six languages, unmodified, before pgseal proxy and in one process with it'
	@echo 'make test-extensions   forty extensions that Debian packages, and some built from source, beside a plain cluster'
	@echo 'make test-fips    a build on the FIPS module: its service indicator, and a cluster under require_fips'
	@echo 'make test-keys    key providers: a whole life of a cluster under each, and how they fail; a table of the steps'
	@echo "make test-kubernetes   CloudNativePG's command lines in its pods' restrictions, the official image's entry point, manifests"
	@echo 'make test-other-backups   WAL-G and pg_rman, where their programs are named'
	@echo 'make test-packages   the packages: install, upgrade under a running server, remove'
	@echo 'make test-patroni three nodes under Patroni and etcd'
	@echo 'make test-pgbackrest   pgBackRest: backups of all types, restores'
	@echo 'make test-power   power cuts below ext4 and XFS: loads and commands, sealed and plain, on 15, 17 and 18'
	@echo 'make test-repmgr  three nodes under repmgr and repmgrd'
	@echo 'make test-shop    examples/shop in Chromium, and what its database sees'
	@echo 'make test-telling   status, monitoring and the exporter, with promtool for the alert rules'
	@echo 'make test-tprocc  pgseal bench tprocc, with the TPC-C driver go-tpc'
	@echo "make test-world   the tests on 17 and 18, PostgreSQL's suites of 15, 17 and 18, 300 crashes"
	@echo 'make sanitize     the rings of the evaluator under the address and the thread sanitizer (nightly, rust-src)'
	@echo 'make fuzz         a minute of libFuzzer on everything that reads foreign bytes (nightly, cargo-fuzz)'
	@echo 'make lint         formatting, clippy, shellcheck, tidy'
	@echo 'make docs         the book of docs/SUMMARY.md, into target/book, with its links checked'
	@echo 'make clean        remove what was built'

# All that is built for release, by one command: with another set of packages or of targets cargo would compile many crates again, with
# other features, or for other links.
PGSEAL_AWS ?= yes
# AWS-LC's FIPS module for encryption at rest; cmake, perl and go build it. In a target directory of its own, or cargo would compile all
# again at each change between the two.
PGSEAL_FIPS ?= no
ifneq ($(filter-out no,$(PGSEAL_FIPS)),)
TARGET = target/fips
FIPS = $(addsuffix /fips,pgseal pgseal-preload pgseal-kms)
FIPS_TWIN = --features fips
else
TARGET = target
endif
FEATURES = $(addprefix --features ,$(FIPS) $(if $(filter-out no,$(PGSEAL_AWS)),pgseal-kms/aws))
PACKAGES = $(FEATURES) -p pgseal $(addprefix -p pgseal-,preload evaluator bench kms pages proxy client-library in-process pgext test-programs)
RELEASE = $(CARGO) build --release --locked --target-dir $(TARGET) $(PACKAGES) --lib --bin pgseal --bin pgseal-evaluator --bin pgseal-bench --bin pgseal-kms \
	--bin pgseal-proxy --bin pgseal-pages --bin owner --bin taken_back

# The command and the library, where `pgseal bindir` expects them; evaluator, benchmark and proxy beside the command. What wrappers run
# starts with every program of PostgreSQL: static, it needs no loader, and is not preloaded itself.
build:
	$(RELEASE)
	$(CARGO) rustc --release --locked --target-dir $(TARGET) -p pgseal-wrapper $(FIPS_TWIN) --bin pgseal-twin -- -C target-feature=+crt-static
	install -D -m 755 $(TARGET)/release/pgseal dist/bin/pgseal
	install -D -m 755 $(TARGET)/release/pgseal-twin dist/bin/pgseal-twin
	install -D -m 755 $(TARGET)/release/pgseal-evaluator dist/bin/pgseal-evaluator
	install -D -m 755 $(TARGET)/release/pgseal-bench dist/bin/pgseal-bench
	install -D -m 755 $(TARGET)/release/pgseal-kms dist/bin/pgseal-kms
	install -D -m 755 $(TARGET)/release/pgseal-proxy dist/bin/pgseal-proxy
	install -D -m 644 $(TARGET)/release/libpgseal.so dist/lib/libpgseal.so
	install -D -m 644 $(TARGET)/release/libpgseal_in_process.so dist/lib/libpgseal_in_process.so
	install -D -m 644 $(TARGET)/release/libpgseal_client_library.so dist/lib/libpgseal_client.so.0
	ln -sf libpgseal_client.so.0 dist/lib/libpgseal_client.so
	install -D -m 644 crates/encdb/library/include/pgseal_client.h dist/include/pgseal_client.h

# Python's package, with the client library in it.
wheels: build
	scripts/wheels.sh

# The same for Java; Maven fetches what it needs.
jar: build
	scripts/jar.sh

npm: build
	scripts/npm.sh

# .deb and .rpm, for both processors, into dist/packages.
PACKAGE_OPTIONS ?=
packages:
	scripts/install-deps.sh build packages
	scripts/packages.sh $(PACKAGE_OPTIONS)

# Built beside the tree's other products, once for each PostgreSQL; DESTDIR is PGXS's.
PG_CONFIG ?= pg_config
pg_version = $(word 2,$(shell $(PG_CONFIG) --version))
install-extensions:
	@scripts/server-headers.sh '$(PG_CONFIG)'
	$(RELEASE)
	for extension in encdb encdb_btree pgseal; do \
		mkdir -p target/extensions/$(pg_version)/$$extension/src && \
		$(MAKE) -C target/extensions/$(pg_version)/$$extension -f $(CURDIR)/extension/$$extension/Makefile \
			PG_CONFIG=$(PG_CONFIG) install || exit; \
	done

# What scripts/encdb-server.sh puts beside a server of the tests is among it.
test-programs:
	$(RELEASE)

demo:
	scripts/install-deps.sh build demo
	$(MAKE) --no-print-directory build
	scripts/demo.sh

# A PostgreSQL 15 of its own with the extensions, below target/.
demo-confidential:
	scripts/install-deps.sh build demo test
	$(MAKE) --no-print-directory build
	scripts/encdb-server.sh /usr/lib/postgresql/15/bin target/encdb/15
	scripts/demo-confidential.sh

# The same server, and Django in the directory that tests/drivers uses.
demo-shop:
	scripts/install-deps.sh build demo test
	$(MAKE) --no-print-directory build
	scripts/encdb-server.sh /usr/lib/postgresql/15/bin target/encdb/15
	scripts/fetch-drivers.sh python
	examples/shop/run.sh

demo-stop:
	scripts/demo.sh stop

# What judges a change is built faster than what is shipped. The client of AWS takes nine minutes to check, to build and to link; its
# tests are in `make test-keys`. Ten programs and libraries are linked, and optimising each as a whole takes half of the build. What only
# debuggers read takes time to write and to link.
check docs lint test: export PGSEAL_AWS = no
check docs lint test: export CARGO_PROFILE_RELEASE_LTO = off
check docs lint test: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS = 16
check docs lint test: export CARGO_PROFILE_RELEASE_DEBUG = 0
check docs lint test: export CARGO_PROFILE_DEV_DEBUG = 0

check:
	scripts/install-deps.sh build test lint
	scripts/lint.sh
	$(MAKE) --no-print-directory build
	$(PYTHON) scripts/test.py check

test:
	scripts/install-deps.sh build test
	$(MAKE) --no-print-directory build wheels
	$(PYTHON) scripts/test.py ci

test-apps test-auto-failover test-barman test-bench-page test-builds test-debian test-drivers test-extensions test-keys test-kubernetes test-other-backups test-packages test-patroni test-pgbackrest test-power test-repmgr test-shop test-telling test-tprocc: test-%:
	scripts/install-deps.sh build test $*
	$(MAKE) --no-print-directory build
	$(PYTHON) scripts/test.py $*

# A build of its own: dist/ holds the FIPS build afterwards.
test-fips:
	scripts/install-deps.sh build test fips
	$(MAKE) --no-print-directory build PGSEAL_FIPS=yes
	$(PYTHON) scripts/test.py fips

test-world:
	scripts/install-deps.sh build test auto-failover barman bench-page builds debian drivers extensions kubernetes other-backups patroni pgbackrest repmgr shop tprocc
	$(MAKE) --no-print-directory build
	$(PYTHON) scripts/test.py world

fuzz:
	fuzz/run.sh

sanitize:
	scripts/sanitize.sh

lint:
	scripts/install-deps.sh build lint
	scripts/lint.sh

# The pages of commands come from the parsers of command lines, as --help and the man pages do.
docs:
	scripts/install-deps.sh build docs
	$(RELEASE)
	$(PYTHON) scripts/diagrams.py
	$(TARGET)/release/pgseal-pages target/pages $$(git log -1 --format=%cs)
	mdbook=$$(scripts/fetch-mdbook.sh) && $(PYTHON) scripts/book.py "$${mdbook##*: }" target/pages/book

clean:
	$(CARGO) clean
	rm -rf dist
