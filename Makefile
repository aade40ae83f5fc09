# pgseal's commands; README.md explains them. Everything that is built lies in target/ and dist/.

CARGO ?= cargo

.PHONY: build clean

# The command and the library, where `pgseal bindir` expects them.
build:
	$(CARGO) build --release --locked -p pgseal -p pgseal-preload
	install -D -m 755 target/release/pgseal dist/bin/pgseal
	install -D -m 644 target/release/libpgseal.so dist/lib/libpgseal.so

clean:
	$(CARGO) clean
	rm -rf dist
