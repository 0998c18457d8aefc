# What people type. Everything works from a fresh clone with a Rust toolchain, a C compiler, python3 and make.

CARGO ?= cargo
TENURE = target/release/tenure

.PHONY: run build check test test-clients verify fix web web-dev bench torture soak fuzz clean

## Build and start one durable node on 127.0.0.1:2379.
run: build
	$(TENURE) serve

## The release binary, and its line tables in a file beside it.
build:
	scripts/build-release

## The everyday loop, under 3 minutes with a warm cache: formatting, clippy, and the tests of what needs no server.
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) nextest run -p tenure-api -p tenure-damage -p tenure-replica -p tenure-disk -p tenure-tls -p tenure

## Set up what the tests need, and run them all.
test:
	scripts/setup-tests
	scripts/run-tests

## Check everything, change nothing.
verify:
	scripts/setup-tests
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	$(MAKE) test

## Put right what a tool can put right.
fix:
	$(CARGO) fmt --all
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged

## Test suites of etcd's clients, from the registries, against etcd 3.5.1 and tenure; writes docs/reference/clients.md.
test-clients:
	scripts/setup-tests
	$(CARGO) build -p tenure-cli
	scripts/test-clients

## Build web/dist, which is committed: cargo needs no Node.
web:
	cd web && npm ci --no-audit --no-fund && npm run build

## The web application as it is edited, in front of the member at TENURE_URL (http://127.0.0.1:2379).
web-dev:
	cd web && npm ci --no-audit --no-fund && npm run dev

## Measure against etcd 3.5.1 in the same run; writes docs/records/benchmarks.md.
bench: build
	scripts/bench

## Thousands of seeds of the deterministic scheduler; hundreds of faults against commands under a lease; then clusters
## of real processes for MINUTES, with a page on what came of it in target/torture.md.
MINUTES ?= 10
torture:
	scripts/setup-tests
	TENURE_SEEDS=2000 $(CARGO) nextest run --release -p tenure-lab
	$(CARGO) build --workspace --all-targets
	TENURE_ROUNDS=300 $(CARGO) nextest run --workspace -E 'binary(run_torture)'
	TENURE_MINUTES=$(MINUTES) $(CARGO) nextest run --workspace -E 'binary(torture)' --no-capture

## The shipped replica in virtual time, seed after seed, on one core for MINUTES.
soak: build
	$(TENURE) lab soak --minutes $(MINUTES)

## Damaged bytes against everything that reads bytes: each test until it has had its cases or its time.
fuzz:
	PROPTEST_CASES=$${PROPTEST_CASES:-200000} TENURE_FUZZ_SECONDS=$${TENURE_FUZZ_SECONDS:-60} \
	  $(CARGO) nextest run -p tenure-api -p tenure-replica -p tenure-server -p tenure -p tenure-cli -p tenure-lab \
	  -E 'binary(fuzz) | binary(hostile) | binary(costs) | test(/\bfuzz::/) | test(/refused_or_read$$/)'

clean:
	$(CARGO) clean
