# ctrain: `make help` lists the targets. Everything that is made lies under build/.

ifeq ($(origin CC),default)
CC      := gcc
endif
PREFIX  ?= /usr/local
BUILD   ?= build
LUA     ?= lua5.4
LUAJIT  ?= luajit
VERSION := $(shell sed -n 's/^.define CT_VERSION "\(.*\)"/\1/p' src/ctrain.h)
MAKEFLAGS += --no-print-directory -r

PACKAGES := gcc pkg-config liblua5.4-dev lua5.4 luajit libluajit-5.1-dev libhdf5-dev libopenblas-openmp-dev \
            libdnnl-dev libedit-dev libxxhash-dev lua-busted lua-check

# ---- flags ------------------------------------------------------------------------------------

WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes
MATH   := -fno-math-errno -fno-trapping-math -ffp-contract=off -fwrapv
OPT    ?= -O2 -g
EXTRA  ?=
CFLAGS_ALL = -std=gnu11 $(OPT) $(WARN) $(MATH) -fvisibility=hidden -fPIC -Isrc -MMD -MP $(EXTRA)

comma := ,
pkg = $(shell pkg-config $(1) $(2) 2>/dev/null)
TRIPLET      := $(shell $(CC) -print-multiarch 2>/dev/null)
HDF5         := $(if $(call pkg,--exists --print-errors,hdf5-serial || echo no),hdf5,hdf5-serial)
HDF5_CFLAGS  := $(call pkg,--cflags,$(HDF5))
HDF5_LIBS    := $(call pkg,--libs-only-L,$(HDF5)) $(if $(filter hdf5-serial,$(HDF5)),-lhdf5_serial,-lhdf5)
LUA54_CFLAGS := $(call pkg,--cflags,lua5.4)
LUA54_LIBS   := $(call pkg,--libs,lua5.4)
JIT_CFLAGS   := $(call pkg,--cflags,luajit)
# The openmp build shares libgomp's pool with ours; the pthread build beside it would be a second one.
BLAS_DIR     := $(firstword $(wildcard /usr/lib/$(TRIPLET)/openblas-openmp))
BLAS_CFLAGS  := $(if $(wildcard /usr/include/$(TRIPLET)/openblas-openmp),-I/usr/include/$(TRIPLET)/openblas-openmp)
BLAS_LIBS    := $(if $(BLAS_DIR),-L$(BLAS_DIR) -Wl$(comma)-rpath$(comma)$(BLAS_DIR)) -lopenblas
LIBS          = $(BLAS_LIBS) -ldnnl $(HDF5_LIBS) -lxxhash -lgomp -ldl -lpthread -lm

# ---- sources ----------------------------------------------------------------------------------

CORE_C := $(filter-out src/eager/loops.c,$(wildcard $(addsuffix /*.c,$(addprefix src/,base graph eager kernel backend io data))))
BIND_C := $(wildcard src/bind/*.c)
CLI_C  := $(wildcard src/cli/*.c)
LUA_F  := $(shell find lua -name '*.lua' | LC_ALL=C sort)
ARCH   := $(shell uname -m)
ISAS   := $(if $(filter x86_64,$(ARCH)),v2 v3 v4,base)

O         := $(BUILD)/obj
CORE_O    := $(CORE_C:src/%.c=$(O)/%.o) $(ISAS:%=$(O)/eager/loops-%.o) $(O)/gen/kernel_text.o
HOST_C    := src/bind/host.c src/bind/cli.c
BIND54_O  := $(BIND_C:src/bind/%.c=$(O)/bind54/%.o) $(O)/gen/lua_files.o
MODULE_C  := $(filter-out $(HOST_C),$(BIND_C))
MOD54_O   := $(MODULE_C:src/bind/%.c=$(O)/bind54/%.o)
MOD51_O   := $(MODULE_C:src/bind/%.c=$(O)/bind51/%.o)
CLI_O     := $(CLI_C:src/%.c=$(O)/%.o)
SHARE_LUA := $(LUA_F:lua/%=$(BUILD)/lua/share/%)

BIN    := $(BUILD)/bin/ctrain
LIB    := $(BUILD)/lib
SO54   := $(BUILD)/lua/5.4/ctrain/core.so
SO51   := $(BUILD)/lua/5.1/ctrain/core.so

.PHONY: all deps need demo test lint asan bench stress install uninstall clean help
.DELETE_ON_ERROR:
all: $(BIN) $(LIB)/libctrain.so $(LIB)/libctrain.a $(SO54) $(SO51) $(SHARE_LUA)

$(O)/base/threads.o: override EXTRA += -fopenmp
ifneq (,$(findstring clang,$(shell $(CC) --version 2>/dev/null)))
# libgomp, whichever compiler builds: clang's own OpenMP would be a second pool.
$(O)/base/threads.o: override CC := gcc
endif
$(O)/eager/%.o $(O)/backend/%.o: override EXTRA += $(BLAS_CFLAGS)
$(O)/io/%.o: override EXTRA += $(HDF5_CFLAGS)

$(O)/eager/loops-v%.o: src/eager/loops.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -O3 -Wno-psabi -march=x86-64-v$* $(if $(filter 4,$*),-mprefer-vector-width=512) -DCT_ISA=v$* -c $< -o $@
$(O)/eager/loops-base.o: src/eager/loops.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -O3 -Wno-psabi -DCT_ISA=base -c $< -o $@
$(O)/bind54/%.o: src/bind/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -DCT_LUA54 $(LUA54_CFLAGS) -c $< -o $@
$(O)/bind51/%.o: src/bind/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(JIT_CFLAGS) -c $< -o $@
$(O)/gen/%.o: $(BUILD)/gen/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -DCT_LUA54 $(LUA54_CFLAGS) -Wno-overlength-strings -c $< -o $@
$(O)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -c $< -o $@

# The Lua files as C strings, for the binary.
as_c = sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/    "/' -e 's/$$/\\n"/' $(1)
$(BUILD)/gen/lua_files.c: $(LUA_F) Makefile
	@mkdir -p $(@D)
	@{ echo '#include "bind/host.h"'; \
	  for f in $(LUA_F:lua/%=%); do \
	    echo "static const char file_$$(echo $$f | tr /. __)[] ="; $(call as_c,lua/$$f); echo '    "";'; \
	  done; \
	  echo 'const struct ct_lua_file ct_lua_files[] = {'; \
	  for f in $(LUA_F:lua/%=%); do \
	    n=file_$$(echo $$f | tr /. __); echo "    {\"$$f\", $$n, sizeof $$n - 1},"; \
	  done; echo '    {NULL, NULL, 0}};'; } > $@
# The words of the element expressions, for the source of compiled steps.
$(BUILD)/gen/kernel_text.c: src/graph/element.h src/graph/reduce.h src/kernel/words.h src/kernel/step.h Makefile
	@mkdir -p $(@D)
	@{ echo 'extern const char ct_element_text[], ct_reduce_text[], ct_words_text[], ct_step_text[];'; \
	  echo 'const char ct_words_text[] ='; $(call as_c,src/kernel/words.h); echo ';'; \
	  echo 'const char ct_step_text[] ='; $(call as_c,src/kernel/step.h); echo ';'; \
	  echo 'const char ct_element_text[] ='; $(call as_c,src/graph/element.h); echo ';'; \
	  echo 'const char ct_reduce_text[] ='; $(call as_c,src/graph/reduce.h); echo ';'; } > $@

$(LIB)/libctrain.a: $(CORE_O) $(BIND54_O)
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $^
$(LIB)/libctrain.so: $(CORE_O) $(BIND54_O)
	@mkdir -p $(@D)
	$(CC) -shared $(EXTRA) -Wl,-soname,libctrain.so -o $@ $^ $(LUA54_LIBS) $(LIBS)
# Once loaded a module stays: the threads of its pool live as long as the process.
$(SO54): $(CORE_O) $(MOD54_O)
	@mkdir -p $(@D)
	$(CC) -shared $(EXTRA) -Wl,-z,nodelete -o $@ $^ $(LIBS)
$(SO51): $(CORE_O) $(MOD51_O)
	@mkdir -p $(@D)
	$(CC) -shared $(EXTRA) -Wl,-z,nodelete -o $@ $^ $(LIBS)
$(BIN): $(CLI_O) $(LIB)/libctrain.a
	@mkdir -p $(@D)
	$(CC) $(EXTRA) -Wl,-E -o $@ $^ $(LUA54_LIBS) -ledit $(LIBS)
$(BUILD)/lua/share/%: lua/%
	@mkdir -p $(@D)
	@cp $< $@

-include $(wildcard $(O)/*/*.d)

# ---- packages ---------------------------------------------------------------------------------

# Says what is missing and installs it; silent where nothing is.
need:
	@missing=; \
	for tool in gcc pkg-config lua5.4 luajit busted luacheck; do \
	  command -v $$tool >/dev/null 2>&1 || missing="$$missing $$tool"; done; \
	for file in lua5.4 luajit libedit; do \
	  pkg-config --exists $$file 2>/dev/null || missing="$$missing $$file"; done; \
	pkg-config --exists hdf5-serial 2>/dev/null || pkg-config --exists hdf5 2>/dev/null || missing="$$missing hdf5"; \
	for header in dnnl.h xxhash.h cblas.h; do \
	  { [ -e /usr/include/$$header ] || ls /usr/include/*/$$header /usr/include/*/openblas-openmp/$$header >/dev/null 2>&1; } \
	  || missing="$$missing $$header"; done; \
	[ -z "$$missing" ] || { echo "missing:$$missing"; $(MAKE) deps; }

deps:
	@echo "ctrain needs these packages: $(PACKAGES)"
	@command -v apt-get >/dev/null 2>&1 || { echo "there is no apt-get here: install them by hand"; exit 1; }
	@sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $(PACKAGES) libc6-dev >/dev/null

# ---- checks -----------------------------------------------------------------------------------

RUN := spec/run
demo: need
	@$(MAKE) all
	@$(BIN) examples/digits.lua
test: need
	@$(MAKE) all $(BUILD)/bin/host
	@BUILD=$(BUILD) $(RUN) test
stress: need
	@$(MAKE) all
	@BUILD=$(BUILD) $(RUN) stress
bench: need
	@$(MAKE) all
	@$(BIN) spec/bench/workloads.lua $(ARGS)

# The suite under AddressSanitizer, LeakSanitizer and UBSan, then with an allocator that fails.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DCT_FAULTS
asan: need
	@$(MAKE) BUILD=build/asan OPT="-O1 -g" EXTRA="$(SANITIZE)" all
	@BUILD=build/asan $(RUN) asan

lint: need
	@BUILD=$(BUILD) $(RUN) lint

# Programs that embed ctrain, built as a user would against what `make install` lays out.
$(BUILD)/bin/host: examples/embed/host.c $(LIB)/libctrain.so src/ctrain.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 $(WARN) -Isrc -o $@ $< -L$(LIB) -Wl,-rpath,$(abspath $(LIB)) -lctrain -lm
$(BUILD)/spec/%: spec/c/%.c $(LIB)/libctrain.a
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 $(WARN) $(MATH) $(EXTRA) -Isrc -o $@ $< $(LIB)/libctrain.a $(LUA54_LIBS) $(LIBS)

# ---- installation -----------------------------------------------------------------------------

D = $(DESTDIR)$(PREFIX)
install: all
	install -d $(D)/bin $(D)/lib/pkgconfig $(D)/include $(D)/lib/lua/5.4/ctrain $(D)/lib/lua/5.1/ctrain
	install -m 755 $(BIN) $(D)/bin/ctrain
	install -m 755 $(LIB)/libctrain.so $(D)/lib/libctrain.so
	install -m 644 $(LIB)/libctrain.a $(D)/lib/libctrain.a
	install -m 644 src/ctrain.h $(D)/include/ctrain.h
	install -m 755 $(SO54) $(D)/lib/lua/5.4/ctrain/core.so
	install -m 755 $(SO51) $(D)/lib/lua/5.1/ctrain/core.so
	for version in 5.4 5.1; do for f in $(LUA_F:lua/%=%); do \
	  install -D -m 644 lua/$$f $(D)/share/lua/$$version/$$f; done; done
	printf 'prefix=%s\nName: ctrain\nDescription: deep-learning training runtime, scripted in Lua\nVersion: %s\n' \
	  '$(PREFIX)' '$(VERSION)' > $(D)/lib/pkgconfig/ctrain.pc
	printf 'Cflags: -I$${prefix}/include\nLibs: -L$${prefix}/lib -lctrain\nLibs.private: %s\n' \
	  '$(strip $(LUA54_LIBS) $(LIBS))' >> $(D)/lib/pkgconfig/ctrain.pc
uninstall:
	rm -rf $(D)/bin/ctrain $(D)/lib/libctrain.so $(D)/lib/libctrain.a $(D)/include/ctrain.h \
	  $(D)/lib/pkgconfig/ctrain.pc $(foreach v,5.4 5.1,$(D)/lib/lua/$(v)/ctrain $(D)/share/lua/$(v)/ctrain)

clean:
	rm -rf build

help:
	@echo "make            build everything under build/"
	@echo "make demo       install what is missing, build, train on handwritten digits"
	@echo "make test       every check, on Lua 5.4 and LuaJIT"
	@echo "make asan       the suite under sanitizers, and with a failing allocator"
	@echo "make lint       includes, file lengths, warnings, luacheck"
	@echo "make bench      the reference workloads (ARGS='tiny mlp')"
	@echo "make stress     long sweeps"
	@echo "make deps       install the packages ctrain needs (apt-get)"
	@echo "make install    under PREFIX=$(PREFIX) (DESTDIR is honoured); make uninstall takes it back"
	@echo "make clean      remove build/"
