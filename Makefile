# make demo   set up, then train and measure a small translation model on the built-in corpus (runs/demo)
# make serve  after make demo: set up what serving needs, then serve runs/demo/exits at http://127.0.0.1:5000
# make test   set up, then check style, types and behaviour (at most 5 minutes on two quiet cores)
# make soak   what takes long: system tests, kills, damage, hostile input; SIZE=0.02 TESTS=no for a small one, more than an hour in full
# make lint   style and types alone
# make bench  the benchmarks behind docs/benchmarks.md

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo serve test soak style lint bench clean
.DEFAULT_GOAL := demo

# What a user needs: the command and what it imports. torch is named with its exact version before anything else can ask pip for the newest one.
.venv/ready: pyproject.toml constraints.txt setup.py $(wildcard $(addprefix anydepth/inference/engines/native/cpp/,*.cpp */*))
	@echo "==> setting up .venv with what the command needs (once; a few minutes on a fresh machine)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade-strategy only-if-needed "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

# What a developer needs beside it: tools, and the extras that tests try. The command itself is installed already and not built again.
.venv/dev: .venv/ready
	@echo "==> adding tools for development and the extras to .venv (once)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt 'anydepth[dev]'
	@touch $@

# What serving needs beside it.
.venv/server: .venv/ready
	@echo "==> adding what serving needs to .venv (once)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt 'anydepth[server]'
	@touch $@

demo: .venv/ready
	@echo "==> the demo: everything goes to runs/demo"
	$(BIN)/anydepth demo --to runs/demo

serve: .venv/server
	@test -d runs/demo/exits || { echo "there is no runs/demo/exits; make it with: make demo" >&2; exit 2; }
	@echo "==> serving runs/demo/exits at http://127.0.0.1:5000 until Ctrl-C"
	$(BIN)/anydepth serve runs/demo/exits

style: .venv/dev
	@echo "==> style"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint: style
	@echo "==> types"
	$(BIN)/mypy

# Two processes of one thread each do more on two cores than one process of two threads. Threads that wait for each other sleep, so that
# a test whose subject is two threads does not stand still beside another.
QUIETLY := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
SIZE ?= 1
SEED ?= 1

# mypy, which is one process, works beside the tests and speaks after them; either of the two fails the target.
test: style
	@echo "==> types and behaviour"
	@$(BIN)/mypy > .venv/types.log 2>&1 & types=$$!; \
	$(QUIETLY) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder; behaviour=$$?; \
	wait $$types; types=$$?; cat .venv/types.log; test $$types -eq 0 && exit $$behaviour

soak: .venv/dev
	$(QUIETLY) $(BIN)/python tests/run_soak.py --size $(SIZE) --seed $(SEED) $(if $(filter no,$(TESTS)),--without-tests)

bench: demo .venv/dev
	@echo "==> the benchmarks (about 40 minutes)"
	$(BIN)/python benchmarks/training_step.py
	$(BIN)/python benchmarks/training_throughput.py
	$(BIN)/python benchmarks/busy_neighbour.py
	$(BIN)/python benchmarks/large_corpus.py
	$(BIN)/python benchmarks/tuning.py runs/demo/exits --valid runs/demo/corpus/valid
	$(BIN)/python benchmarks/native_engine.py --run runs/demo/exits --source-file runs/demo/corpus/test.de
	$(BIN)/python benchmarks/onnx_step.py
	$(BIN)/python benchmarks/serving.py --run runs/demo/exits --source-file runs/demo/corpus/test.de
	$(BIN)/python benchmarks/bulk.py --run runs/demo/exits --source-file runs/demo/corpus/test.de --lines 20000 --rounds 3
	$(BIN)/python benchmarks/overload.py --run runs/demo/exits --source-file runs/demo/corpus/test.de --seconds 60

clean:
	rm -rf .venv runs build *.egg-info
