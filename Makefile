# Everything a contributor runs. `make` alone explains.
# On a bare Debian 12 with Rust 1.89 or newer and make, `make demo` and `make test` install the rest by themselves.

CARGO ?= cargo

# A clean clone is built once: what makes a second build faster only takes time and gigabytes.
ifdef CI
export CARGO_INCREMENTAL := 0
endif

.DEFAULT_GOAL := help
.PHONY: help setup build test test-clients fuzz chaos chaos-plant chaos-forget chaos-others check docs docs-versions image-test demo demo-kafka demo-amqp bench deb deb-test rpm rpm-test audit audit-tool release sign draft cluster-test demo-all

help: ## this text
	@echo "delaybridge: forwards due elements of Redisson delayed queues, and loses none"
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s%s\n", $$1, $$2 }'

setup: ## install what build and tests lack (compilers, servers, Redisson, Prometheus, kustomize); prints the command when it may not
	@scripts/setup.sh

# Who only builds needs neither Java nor Erlang.
build: ## the release binaries, target/release/delaybridge and delaybridge-tools
	@scripts/setup.sh build
	$(CARGO) build --release --locked

check: ## formatting, lints, and the dependency rules if cargo-deny is there
	@scripts/setup.sh build lints
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null && [ -e deny.toml ]; then \
		cargo-deny --offline check bans licenses sources; \
	else \
		echo "check: cargo-deny is not installed, the rules in deny.toml were not looked at"; \
	fi

test: ## check, then all tests against real servers; STRICT=1 runs no failed test once more
	@scripts/setup.sh build lints
	@scripts/setup.sh & $(MAKE) --no-print-directory check; checked=$$?; wait $$! && exit $$checked # one downloads, one compiles
	CARGO="$(CARGO)" scripts/test.sh $(if $(STRICT),--strict)

# No part of `make test`: Debian 12 has an older Go, and Maven is much to install.
test-clients: ## the clients in clients/ with the tools of their languages, and the conformance kit; needs Go 1.21 and Maven
	@scripts/setup.sh build redis clients
	$(CARGO) build --locked --bins
	CARGO="$(CARGO)" scripts/clients-test.sh

# A crate of its own, outside of the workspace.
run_fuzz = $(CARGO) run --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz --
MINUTES ?= 10
# Eleven targets of the integration tests and five of the replies of Redis, one after the other, beside the payloads: half of the
# time is theirs.
fuzz: ## damaged and made-up input: payloads of every codec, elements, keys, files, requests, replies of Redis; MINUTES=10 in all, `make test` takes 20 s
	$(run_fuzz) $$(($(MINUTES) * 30))
	DELAYBRIDGE_FUZZ=$$(($(MINUTES) * 30 / 16)) $(CARGO) test --locked --test it fuzz:: -- --test-threads 1 --nocapture
	DELAYBRIDGE_FUZZ=$$(($(MINUTES) * 30 / 16)) $(CARGO) test --locked -p delaybridge-link --lib fuzz_ -- --test-threads 1 --nocapture

# No part of `make test`, which checks the links and the list of pages without mdBook.
docs: ## the documentation as a site with search, target/docs/site; fetches mdBook the first time
	@scripts/docs.sh

# Random faults on real daemons and servers. PROFILE=sentinel (cluster, kafka, amqp, nats, amqp1, sqs, rocketmq, webhook, jobs, jobs-sentinel, clock, older) takes other servers, hostile and hostile-jobs add strangers in every key, ONLY=3,7 makes
# some faults of the schedule alone, FAULTS=kill,stop some kinds, PLAN=1 prints the schedule, OLD=path another binary to upgrade from. DUPLICATES=look,
# ORDER=key, DURABLE=yes, FAILS=yes (sinks that answer with 500) and TRAIL=yes (an audit trail) replace what the seed decides, LASTS=25 the seconds of a fault. docs/chaos.md has the rules.
SEED ?= 1
chaos: setup ## random faults by SEED=1 for MINUTES=10, and an oracle; PROFILE=sentinel ONLY=3,7 FAULTS=kill,stop PLAN=1 OLD=path/to/delaybridge
	DELAYBRIDGE_CHAOS="--seed $(SEED) --minutes $(MINUTES) $(if $(filter-out gateway,$(PROFILE)),--profile $(PROFILE)) $(if $(ORDER),--order $(ORDER)) \
		$(if $(DURABLE),--durable $(DURABLE)) $(if $(FAILS),--fails $(FAILS)) $(if $(DUPLICATES),--duplicates $(DUPLICATES)) $(if $(TRAIL),--trail $(TRAIL)) $(if $(LASTS),--lasts $(LASTS)) $(if $(ONLY),--only $(ONLY)) $(if $(FAULTS),--faults $(FAULTS)) \
		$(if $(PLAN),--plan) $(if $(OLD),--old $(OLD)) $(if $(LIE),--lie $(LIE))" $(CARGO) test --locked --test chaos -- --exact $(if $(filter gateway,$(PROFILE)),suite::the_way_in,suite::asked) --ignored --nocapture

chaos-plant: setup ## seventeen daemons that lie, and the rule that notices each; fifteen minutes; LIE=early tells one
	DELAYBRIDGE_CHAOS="$(if $(LIE),--lie $(LIE))" $(CARGO) test --locked --test chaos -- --exact suite::every_lie_is_noticed_by_its_rule --ignored --nocapture

chaos-forget: setup ## servers that lose what they had confirmed: what they lose, and what we lose
	$(CARGO) test --locked --test chaos -- --exact suite::what_redis_forgets_is_counted_apart --ignored --nocapture

chaos-others: setup ## a Redisson consumer with take() and with drainTo, asynq, and a daemon under the same faults; MINUTES=10 for each
	DELAYBRIDGE_CHAOS="--seed $(SEED) --minutes $(MINUTES)" $(CARGO) test --locked --test chaos -- --exact suite::others_under_the_same_faults --ignored --nocapture

docs-versions: ## the documentation of every release and of this commit, target/docs-versions
	@scripts/docs-versions.sh

# No part of `make test`: it needs root, and the first time it compiles everything once more.
image-test: ## builds the container image without a registry, and runs it; as root
	@scripts/setup.sh image
	@scripts/image-test.sh

# One invocation for both, so that the dependencies are built once. Without the clients of brokers that are not delivered to: most
# of the time of a first build is theirs.
demo: ## quick build, private Redis, 1,000 elements due within ten seconds, a summary
	@scripts/setup.sh build redis $(BROKER)
	$(CARGO) build --profile demo --locked --no-default-features $(if $(BROKER),--features $(SINK)) --bin delaybridge --example demo
	@target/demo/examples/demo $(SINK)

demo-kafka: ## the same into a private Kafka; shows the records
	@$(MAKE) --no-print-directory demo SINK=kafka BROKER=kafka

demo-amqp: ## the same into a private RabbitMQ; shows the messages
	@$(MAKE) --no-print-directory demo SINK=amqp BROKER=rabbitmq

demo-all: build ## what compose.yaml starts, without containers: Redisson, Redis, Kafka, two daemons, Prometheus; until Ctrl-C
	@scripts/setup.sh redis kafka redisson prometheus
	@scripts/demo-all.sh

# Two invocations: what the tool needs beside (test servers, certificates) must not be in the binary that is measured.
bench: setup ## figures of the release binary beside their limits and its peers; ROWS="depth peers" for some, see bench/README.md
	@case " $(ROWS) " in "  " | *" jobs "*) scripts/setup.sh bench ;; esac
	$(CARGO) build --release --locked --bin delaybridge
	$(CARGO) build --release --locked --example bench
	@target/release/examples/bench $(ROWS)

# Needs the network: the database of advisories is fetched. `make check` does the rest without. The day is told because
# a mirror that stood still looks like one without news.
audit: ## licences, sources and known holes of all dependencies; needs cargo-deny
	@command -v cargo-deny >/dev/null || { \
		echo "audit: find cargo-deny: cargo install --locked cargo-deny"; exit 1; }
	cargo-deny --locked check
	@for db in "$${CARGO_HOME:-$$HOME/.cargo}"/advisory-dbs/*/; do \
		git -C "$$db" log -1 --format="audit: the advisories in $$db are of %cs"; \
	done

audit-tool: ## installs cargo-deny, if it is not there
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny

deb: ## the Debian package, target/deb/*.deb
	@scripts/setup.sh build release
	scripts/release/build.sh
	@scripts/release/deb.sh

deb-test: deb ## installs, upgrades, removes and purges the package in a fresh Debian; as root
	@scripts/release/deb-test.sh

rpm: deb ## the same files as an rpm package, target/rpm/*.rpm
	@scripts/release/rpm.sh

rpm-test: rpm ## installs, verifies, upgrades and removes the rpm package below a folder
	@scripts/release/rpm-test.sh

release: audit ## archives, packages, image, chart, bills of materials and checksums of a commit, in dist/; TARGETS="arm64 musl" for other systems too
	@scripts/setup.sh build release $(TARGETS)
	@TARGETS="$(TARGETS)" scripts/release/gather.sh

sign: ## signs the checksums in dist/; KEY=/path/to/minisign.key, COSIGN_KEY=/path/to/cosign.key, or both
	@KEY="$(KEY)" COSIGN_KEY="$(COSIGN_KEY)" scripts/release/sign.sh

draft: ## a draft of the release of this tag on the forge, of what is in dist/; needs gh
	@scripts/release/draft.sh

# No part of `make test`: it needs a container engine.
cluster-test: ## the chart and a sidecar on a cluster of kind: an update and a drain under load; needs docker, kind, kubectl, helm
	@scripts/cluster-test.sh
