# make run   start a broker in the foreground on config/server.properties
#            PORT=9093     another port, with a data directory of its own
#            CONFIG=FILE   another settings file
#            ARGS='...'    more arguments of `odradek start`
# make cluster  a ZooKeeper ensemble and three brokers on this machine, from config/cluster
# make secure  three brokers with TLS, users and ACLs on this machine, from config/secure
# make quick  the command before each commit: the parts in their own process, without Java
# make quick-pythons  the same under each of Python 3.11, 3.12 and 3.13 that is installed
# make test  everything a change must pass: lint, then all tests
# make test-compose  builds the images, runs docker-compose.yml, kills containers; CI runs it, too
# make coverage  which lines the tests of the parts run; CI runs it after `make test`
# make docs  the documentation site, into build/site
# make release  the source distribution and the wheel, into dist, checked; uploads nothing
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
CONFIG ?= config/server.properties
DEFAULT_PORT := 9092
PORT   ?= $(DEFAULT_PORT)
# A second broker needs its own port and its own data.
OTHER_PORT := $(filter-out $(DEFAULT_PORT),$(PORT))
AT_PORT := $(if $(OTHER_PORT),--override listeners=PLAINTEXT://127.0.0.1:$(PORT) \
	--override log.dirs=data/kafka-logs-$(PORT))
MINUTES ?= 60
SEEDS ?= 3
FRAMES ?= 1000000
# Of the lines of the product, in percent: fewer fail.
COVERED_LEAST := 64
COVERED := tests/controller tests/protocol tests/runtime tests/storage \
	$(addprefix tests/broker/,group handlers monitoring replication settings) \
	$(addprefix tests/security/test_,acl_cache.py acl_store.py delegation_tokens.py quota_configs.py \
	quota_rates.py sasl_client.py sasl_mechanisms.py sasl_settings.py tls_config.py tls_transport.py) \
	$(addprefix tests/odradek/,container testing) tests/web_console/test_console_cores.py \
	$(wildcard $(addprefix tests/odradek/test_,client.py configs.py console_text.py \
	consumer_groups_[prt]*.py explain_lookup.py lag_evaluation.py options.py reassign_partitions.py releases.py \
	shims.py storage.py topics.py which_partition.py znodes.py))
# Tests that wait for programs of others, those of parts of the broker, and of the parts below it;
# `test-broker` runs all that no other row and not `lint` does.
WITH_CLIENTS := $(addprefix tests/,attack clients golden)
# What users install, and what they read and click.
PACKAGES_AND_PAGES := $(addprefix tests/,docs examples packaging plugin web_console)
# Groups of all client libraries; `test-clients` runs the others.
GROUPS := $(wildcard tests/clients/test_group*.py tests/clients/test_consumer_protocol.py)
# Ways to start brokers, and whole brokers saved and restored; `test-tools` runs the other commands.
STARTS := $(addprefix tests/odradek/,backup canary container testing) \
	$(wildcard $(addprefix tests/odradek/test_,clock.py cluster.py connected*.py control.py demo*.py faults.py \
	handles.py releases.py snapshot.py start*.py testing.py))
WITH_CLUSTERS := $(addprefix tests/,chaos cluster)
BELOW_BROKER := $(addprefix tests/,controller protocol runtime storage)
PARTS_OF_BROKER := $(addprefix tests/broker/,group handlers replication server transaction)
# Half of the tests of pipelines: steps, sinks and mirrors; `test-pipelines` runs the others.  Each row
# has a session of Spark, whose start and first queries take 20 s of a processor.
STEPS := $(wildcard $(addprefix tests/pipeline/test_,transforms*.py registry.py python_steps.py \
	lookup_tables.py shared_queries.py sharing.py upsert.py webhook.py exactly_once*.py mirror*.py))
QUICK := tests/controller tests/protocol tests/storage tests/broker/group tests/broker/handlers
PACKAGES := broker controller odradek protocol runtime storage

.PHONY: run cluster secure quick quick-pythons test test-pipelines test-steps test-clusters test-starts test-tools test-clients test-groups test-broker test-security test-broker-parts test-parts test-sim test-mixed test-pages test-recordings test-compose lint unit coverage docs release golden bench bench-transactions attack soak campaign-acls campaign-clients campaign-fuzz campaign-logins campaign-packages campaign-properties campaign-scripts campaign-cuts campaign-sim campaign-transactions chaos chaos-cluster chaos-pipeline test-connectors demo-pipeline plugin-runs measure-start tools system-packages clean

run: $(VENV)/.run
	@exec $(BIN)/python -I -m odradek start $(CONFIG) $(AT_PORT) $(ARGS)

# Needs Debian's ZooKeeper besides; `odradek cluster` needs nothing and starts brokers only.
cluster: $(VENV)/.run system-packages
	@exec $(BIN)/python -I -m odradek.tools.cluster.ensemble config/cluster

# Certificates, users and passwords are in data/secure (docs/security.md).
secure: $(VENV)/.run
	@exec $(BIN)/python -I -m odradek.tools.cluster.secure config/secure

# A pull request runs it under each Python that the package claims.
quick: $(VENV)/.dev
	$(BIN)/python -m pytest -q -p no:cacheprovider --hypothesis-profile=coverage -n 2 \
		-m "not client and not judge and not slow" $(QUICK) \
		--ignore=tests/storage/log/test_large_logs.py --ignore-glob='*_crashes.py'

# `make quick` under each Python that is claimed and installed.
quick-pythons:
	@for python in python3.11 python3.12 python3.13; do \
		if $$python --version > /dev/null 2>&1; then \
			echo "quick-pythons: $$($$python --version)"; \
			$(MAKE) --no-print-directory quick PYTHON=$$python VENV=.venv-$$python || exit 1; \
		else echo "quick-pythons: $$python is not installed"; fi; \
	done

# The rows wait for Java and for sessions much of the time: more of them run at once than the machine
# has processors, those that take or wait long first, and each prints what it found at its end.  The
# last ones need the processors only: they fill them when fewer rows are left.
test: tools
	@$(MAKE) --no-print-directory -k -j5 --output-sync=target \
		test-clusters test-security test-broker test-steps test-pipelines test-broker-parts test-starts \
		test-tools test-groups test-clients test-pages test-parts lint test-sim

test-pipelines:
	$(BIN)/python -m pytest -q -m "not slow" tests/pipeline $(addprefix --ignore=,$(STEPS))

test-steps:
	$(BIN)/python -m pytest -q -m "not slow" $(STEPS)

# They wait for the ends of sessions, so that two run at once; with them, chaos of some seconds.
test-clusters:
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow" $(WITH_CLUSTERS)

test-pages:
	$(BIN)/python -m pytest -q -m "not slow" $(PACKAGES_AND_PAGES)

test-starts:
	$(BIN)/python -m pytest -q -m "not slow" $(STARTS)

# The tools, which have clusters of their own.
test-tools:
	$(BIN)/python -m pytest -q -m "not slow" tests/odradek $(addprefix --ignore=,$(STARTS))

test-clients:
	$(BIN)/python -m pytest -q -m "not slow" $(WITH_CLIENTS) $(addprefix --ignore=,$(GROUPS))

test-groups:
	$(BIN)/python -m pytest -q -m "not slow" $(GROUPS)

test-broker:
	$(BIN)/python -m pytest -q -m "not slow" tests --ignore=tests/pipeline --ignore=tests/odradek \
		--ignore=tests/security --ignore=tests/sim --ignore=tests/repository \
		$(addprefix --ignore=,$(WITH_CLIENTS) $(WITH_CLUSTERS) $(PACKAGES_AND_PAGES) $(BELOW_BROKER) $(PARTS_OF_BROKER))

test-security:
	$(BIN)/python -m pytest -q -m "not slow" tests/security

test-broker-parts:
	$(BIN)/python -m pytest -q -m "not slow" $(PARTS_OF_BROKER)

test-parts:
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow" $(BELOW_BROKER)

test-sim:
	$(BIN)/python -m pytest -q -m "not slow" tests/sim

# Apache's brokers beside ours: tools of both print what is recorded, and directories are seen alike.
test-recordings: tools
	$(BIN)/python -m pytest -q -m slow tests/odradek tests/golden

# Brokers of Apache Kafka and ours in one cluster, and the way from one to the other.
test-mixed: tools
	$(BIN)/python -m pytest -q tests/cluster/test_mixed.py tests/cluster/test_migration.py

# The images and compose files, on a Docker engine: one is started where none runs (root, Debian's
# packages), and ended.  COMPOSE=--if-possible: a machine that cannot run one is no failure.
test-compose: $(VENV)/.dev
	$(BIN)/python -m tests.compose $(COMPOSE)

# The slow checks of pipelines: killed twenty times, also while they write transactions and leaders are
# killed, on a cluster, mirrored under kills and from Apache Kafka, compared with it, the demo.
chaos-pipeline: tools
	$(BIN)/python -m pytest -q -s -m slow tests/pipeline

# Delta Lake, Iceberg and S3 with connectors from Maven Central and a server of S3's protocol from PyPI, also
# while jobs are killed; a part of chaos-pipeline.
test-connectors: tools
	$(BIN)/python -m pytest -q -s -m slow tests/pipeline/test_lakes.py

# The slow checks of clusters; then every client library writes and reads while parts of clusters are
# killed at random, which appends to tests/cluster/ledger.jsonl.
chaos-cluster: tools
	$(BIN)/python -m pytest -q -m slow tests/cluster tests/broker
	$(BIN)/python -m tests.cluster --minutes $(MINUTES)

# Real brokers and servers of ZooKeeper in network namespaces, which are killed, paused, cut off and slowed
# down, with disks that fill and fail, while replicas move and topics come and go; what clients saw is
# checked.  Needs root; appends to tests/chaos/ledger.jsonl.  A campaign: CHAOS='--runs 285 --keep-going'.
chaos: tools
	@tests/support/chaos_packages.sh
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(CHAOS)

# The seeds of the simulator (tests/sim) that have failed, then new ones for MINUTES; appends to tests/sim/ledger.jsonl.
campaign-sim: $(VENV)/.dev
	$(BIN)/python -m tests.sim.campaign $(MINUTES)

# Every operation on the disk of every protocol of a log, of topics and of directories is cut, in every
# way that a disk allows (tests/cuts/README.md); `make test` does a sample.
campaign-cuts: $(VENV)/.dev
	$(BIN)/python -m tests.cuts.campaign $(SEEDS)

# 1,000 new examples of each property and state machine; `make test` does 40, the same in each run.
campaign-properties: $(VENV)/.dev
	$(BIN)/python -m pytest -q --hypothesis-profile=campaign --timeout=7200 -m "not client and not judge and not slow" \
		$(BELOW_BROKER) $(PARTS_OF_BROKER)

# The evaluator of ACLs beside a short description of it on 100,000 random sets; `make test` does 3,000.
campaign-acls: $(VENV)/.dev
	ODRADEK_ACL_SETS=100000 $(BIN)/python -m pytest -q tests/security/test_acl_cache.py

# Each client library reads what each other one has written, in each codec, and each release of the Java client is
# in each kind of group; `make test` takes one codec of a pair, and not every release.
campaign-clients: tools
	$(BIN)/python -m pytest -q -m slow tests/clients

# Examples on JUnit and on Spark, and each way in which Python finds an installed package.
campaign-packages: tools
	$(BIN)/python -m pytest -q -m slow $(PACKAGES_AND_PAGES)

# Each client library logs in in each way, right and wrong, to our broker and to Apache Kafka's, and a cluster
# with a broker of Apache Kafka migrates to SASL_SSL; `make test` does a part.
campaign-logins: tools
	$(BIN)/python -m pytest -q -m slow tests/security

# FRAMES before and after authentication, which coverage guides (Atheris); appends to
# tests/security/guided_fuzz.jsonl.  `make test` sends some thousand.
campaign-fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install -qq --group fuzz
	$(BIN)/python -m tests.security.guided_fuzz --frames $(FRAMES)

# 500 random scripts on ZooKeeper and on the tree that a broker serves; `make test` plays 50.
campaign-scripts: tools
	$(BIN)/python -m pytest -q -s -m slow tests/controller/coordination/server

# A topic is copied in transactions by three libraries, and Apache Kafka Streams counts words, while
# brokers and clients are killed; appends to tests/cluster/transactions.jsonl.
campaign-transactions: tools
	$(BIN)/python -m tests.cluster.campaign_transactions

# What a hostile world does, with an honest client beside it; see tests/attack/README.md.
attack: $(VENV)/.dev
	$(BIN)/python -m tests.attack $(ATTACK)

soak: $(VENV)/.dev
	$(BIN)/python -m tests.attack.soak --minutes $(MINUTES)

# Without the pipelines, whose tests need Java.
unit: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m "not client and not judge and not slow" tests --ignore=tests/pipeline

# Which lines of the product the tests of its parts run in their own process, with few examples of
# each property; broker processes, clients and pipelines are not counted. Bounds on processor time
# do not hold under a tracer: what checks those is left out.
coverage: $(VENV)/.dev
	@mkdir -p build/coverage
	$(BIN)/python -m coverage run -m pytest -q -p no:cacheprovider --hypothesis-profile=coverage \
		-m "not client and not judge and not slow" $(COVERED) \
		--ignore=tests/storage/log/test_large_logs.py
	@$(BIN)/python -m coverage html --quiet
	@$(BIN)/python -m coverage report --format=total --fail-under=$(COVERED_LEAST) > build/coverage/total; \
	code=$$?; echo "lines covered: $$(cat build/coverage/total) %, at least $(COVERED_LEAST) % (build/coverage/html)"; \
	exit $$code

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/repository

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "the site is in build/site; to read and search it: python3 -m http.server --directory build/site"

# Uploading is a decision of a person: `twine upload dist/*` after the tag of CHANGELOG.md's version.
release: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m tests.packaging.check_release dist

golden: tools
	$(BIN)/python -m tests.scripts.record_golden
	$(BIN)/python -m tests.golden.record_configs
	$(BIN)/python -m tests.scripts.znode_tree
	$(BIN)/python -m tests.odradek.topics_conversation
	$(BIN)/python -m tests.odradek.console_conversation
	$(BIN)/python -m tests.odradek.consumer_groups_conversation
	$(BIN)/python -m tests.odradek.transactions_conversation
	$(BIN)/python -m tests.odradek.cluster_conversations
	$(BIN)/python -m tests.odradek.client_tools_conversation
	$(BIN)/python -m tests.odradek.dump_log_conversation

# Needs gcc and librdkafka-dev besides; brings Apache Kafka's jars.
bench: tools
	$(BIN)/python -m bench

# The sample project of the pytest plugin RUNS times in a row, with 4 workers.
RUNS ?= 20
plugin-runs: $(VENV)/.dev
	$(BIN)/python -m tests.plugin.repeat $(RUNS)

# From a test's request for a broker to its first acknowledged record, beside Apache Kafka on the JVM,
# on a quiet machine; renews the table of docs/testing.md.
measure-start: tools
	$(BIN)/python -m tests.plugin.measure --write

# Transactions beside Apache Kafka 3.9.2, and 2,000 transactional ids of which 1 % are abandoned: four minutes
# on a quiet machine; renews bench/RESULTS.md.
bench-transactions: tools
	$(BIN)/python -m bench --row transactions_100 --row transactions_interval --targets odradek,apache39 --rounds 3 --write
	$(BIN)/python -m pytest -q -s -m slow tests/broker/test_abandoned_transactions.py

# Card payments through a broker and a pipeline; leaves a page in build/demo-pipeline. Needs Java 17.
demo-pipeline: $(VENV)/.dev
	$(BIN)/python -m odradek.demo.pipeline

# What the tests need besides Python: client libraries of other languages, Apache Kafka's own jars.
tools: $(VENV)/.dev system-packages
	$(BIN)/python -m tests.support.prepare

system-packages:
	@tests/support/system_packages.sh

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -qq --editable '.[tools]'
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

# Without PySpark.  What work on the project needs includes it.
$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install -qq --editable . --group docs
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install -qq --editable '.[tools,pipeline]' --group dev
	@touch $@ $(VENV)/.run $(VENV)/.docs

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
