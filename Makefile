# Makefile of quoth. Targets: make | make lib | make static | make wheel | make unit | syntax | test
# | fuzz | bench | long | long-san | check | install | deb | image | fmt | clean
#
# SAN=address,undefined or SAN=thread builds everything with sanitizers, in a separate build folder.
# DEBUG=1 disables optimization. Builds with SAN or DEBUG check all structures after every step
# (base/check.h). WERROR=1 treats warnings as errors, as in CI. All folders of src/ are compiled. A
# folder of src/kern has its own ISA flags.

# Without -j, as many jobs as processors run. Several goals, such as "clean all", run in the given
# order.
ifeq ($(MAKELEVEL)$(word 2,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

comma   := ,
BUILD   := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
PREFIX  ?= /usr/local
CC      ?= gcc
OBJCOPY ?= objcopy
ARCH    := $(shell $(CC) -dumpmachine | cut -d- -f1)
# Optional libraries. X_none.c replaces the file that uses a library if the library is missing or
# emptied (make CURL=).
CURL    := $(shell pkg-config --exists libcurl 2>/dev/null && echo libcurl)
LIBS    := jansson libpcre2-8 libutf8proc sqlite3 libedit libssl libcrypto $(CURL)
PKG     := $(if $(LIBS),$(filter-out -I/usr/include/%-linux-gnu,$(shell pkg-config --cflags $(LIBS))))
# libcurl is loaded at its first use (src/fetch/fetch_curl.c).
LDLIBS  := $(if $(LIBS),$(shell pkg-config --libs $(filter-out libcurl,$(LIBS)))) -lm -lpthread
OPT     := $(if $(DEBUG),-O0,-O2)
# Release builds have line numbers but no variables (-g1). Debug information of variables takes 8 %
# of the build's time, and a quarter of the time for unrolled loops of intrinsics. The generated
# code does not change.
OPT     += $(if $(DEBUG)$(SAN),-g,-g1) -pipe
# Hardening. FORTIFY_SOURCE needs optimization and replaces functions that sanitizers check, so
# builds with DEBUG or SAN do not use FORTIFY_SOURCE. Kernels (KERNEL) have neither stack guards nor
# FORTIFY_SOURCE, because they write only to memory of the caller. linear_test.c checks the bounds
# of these writes.
HARDEN  := -fstack-protector-strong -fstack-clash-protection $(if $(DEBUG)$(SAN),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2) \
           $(if $(filter x86_64,$(ARCH)),-fcf-protection=full) $(if $(filter aarch64,$(ARCH)),-mbranch-protection=standard)
# The C library's start code may lack the marks of control-flow protection. The linker would then
# clear the program's marks.
CET     := $(if $(filter x86_64,$(ARCH)),$(comma)-z$(comma)ibt$(comma)-z$(comma)shstk)
CFLAGS  := -std=c11 -D_GNU_SOURCE $(OPT) -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes \
           -Wmissing-prototypes -Wvla -fno-math-errno -ffp-contract=off -fno-strict-aliasing \
           -fPIC -fvisibility=hidden -Isrc -Iinclude $(HARDEN) \
           $(if $(WERROR),-Werror) $(if $(DEBUG)$(SAN),-DQUOTH_CHECK_STEPS) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) $(PKG) $(EXTRA)
LDFLAGS := -Wl,-z,relro,-z,now,-z,noexecstack$(CET) $(if $(SAN),-fsanitize=$(SAN))

# Functions begin at a cache line, so that the place of a loop in its lines does not depend on other
# files: prompts of Q8_0 are 3 % faster with AVX2 (docs/measurements.md, "Commit 5f214b9").
KERNEL := -O3 -g1 -fno-stack-protector -fno-stack-clash-protection -U_FORTIFY_SOURCE -falign-functions=64
# src/kern/LEVEL/isa.mk gives the processors and the compiler flags of a kernel folder. Each folder
# is compiled with only the flags that its cpu_flag requires. UNSAN_LEVEL: files without sanitizers,
# which take minutes for templates of linear layers with 25 formats in one file. Sanitizers check
# the reference. linear_test.c checks the bounds of the other levels' writes.
include $(wildcard src/kern/*/isa.mk)
KERN_OTHER := $(filter-out ref $(KERN_$(ARCH)),$(notdir $(wildcard src/kern/*)))
$(foreach k,ref $(KERN_$(ARCH)),$(eval $(BUILD)/src/kern/$(k)/%.o: ISA = $(KERNEL) $(ISA_$(k))))
# Tests run on every processor. Their functions of an instruction set have its target attribute.
$(foreach k,$(KERN_$(ARCH)),$(eval $(BUILD)/src/kern/$(k)/%_test.o: ISA =))
$(BUILD)/src/kern/panel.o $(BUILD)/src/quant/%.o: ISA = $(KERNEL)
UNSAN := $(foreach k,$(KERN_$(ARCH)),$(UNSAN_$(k):%=$(BUILD)/src/kern/$(k)/%.o))

ALL   := $(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c))
ALL   := $(filter-out $(foreach k,$(KERN_OTHER),src/kern/$(k)/%) src/fetch/fetch_$(if $(CURL),none,curl).c,$(ALL))
# make unit ROOMS="quant kern base/cpu" BUILD=build-some builds only some folders and files, with
# their tests.
ALL   := $(if $(ROOMS),$(filter $(foreach r,$(ROOMS),src/$(r)/% src/$(r).c),$(ALL)),$(ALL))
SRC   := $(filter-out %_test.c %_fuzz.c,$(ALL))
LIB   := $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/main.c,$(SRC)))
# How tests make allocations fail: the program defines malloc, unless sanitizers or a static C
# library define it.
ALLOC := $(if $(SAN)$(findstring -static,$(LDFLAGS)),wrap,own)
TESTS := $(patsubst %.c,$(BUILD)/%.o,$(filter %_test.c,$(ALL)) $(filter-out tests/alloc_$(if $(filter own,$(ALLOC)),wrap,own).c,\
           $(wildcard tests/*.c $(if $(ROOMS),,tests/calls/*.c tests/door/*.c tests/golden/*.c tests/memory/*.c))))
# Without optimization, tests compile in 0.4 of the time, and run as fast as with it, except with
# sanitizers.
$(TESTS): TEST_OPT := $(if $(SAN),-O1,-U_FORTIFY_SOURCE -O0)
FUZZ  := $(patsubst %.c,$(BUILD)/%.o,$(filter %_fuzz.c,$(ALL)) $(wildcard tests/fuzz/*.c))
WRAP  := $(if $(filter wrap,$(ALLOC)),-Wl$(comma)--wrap=malloc$(comma)--wrap=calloc$(comma)--wrap=realloc$(comma)--wrap=aligned_alloc)
# src/engine/threads_test.c checks which threads call these functions. src/api/batch_run_test.c lets
# sqlite3_step fail.
WRAP  += $(if $(ROOMS),,$(patsubst %,-Wl$(comma)--wrap=%,tokenizer_encode tokenizer_decode detok_push detok_flush sqlite3_step))

all: $(BUILD)/quoth lib
lib: $(BUILD)/libquoth.so $(BUILD)/libquoth.a
unit: $(BUILD)/unit
# web.c contains the page's files.
$(BUILD)/src/web/web.o: $(filter-out %.c %.h,$(wildcard src/web/*))

# The bundled model is appended to the program (BUNDLE= for none, or another GGUF).
BUNDLE := $(wildcard models/quoth-tiny/quoth-tiny-q8_0.gguf)
$(BUILD)/quoth: $(BUILD)/quoth.bare $(BUNDLE)
	$(if $(BUNDLE),$< pack --plain $(BUNDLE) -o $@,cp $< $@)
$(BUILD)/quoth.bare: $(BUILD)/src/main.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# The program without shared libraries, for images and other systems. The target lists the shared
# libraries that the program still needs. libcurl is omitted, because most libraries that its
# archive needs (Kerberos, LDAP ...) exist only as shared libraries.
static: $(BUILD)/quoth-static
$(BUILD)/quoth-static: $(BUILD)/quoth-static.bare $(BUNDLE)
	$(if $(BUNDLE),$(RUN) $< pack --plain $(BUNDLE) -o $@,cp $< $@)
$(BUILD)/quoth-static.bare: $(BUILD)/src/main.o $(LIB:%/fetch_curl.o=%/fetch_none.o) scripts/static
	@CC="$(CC)" LD="$(LD)" OBJCOPY="$(OBJCOPY)" scripts/static $@ $(filter %.o,$^) -- \
	    $(shell pkg-config --static --libs $(filter-out libcurl,$(LIBS))) -lm -lpthread
# The library: src/lib and the rooms that it uses. Symbols that include/quoth.h does not declare are
# hidden, also in the archive.
VERSION  := $(shell sed -n 's/^.define QUOTH_VERSION "\(.*\)"/\1/p' include/quoth.h)
SO       := libquoth.so.$(firstword $(subst ., ,$(VERSION)))
LIBDEPS  := jansson libpcre2-8 libutf8proc sqlite3
LIBQUOTH := $(filter $(BUILD)/src/lib/%,$(LIB)) $(BUILD)/rooms.a
$(BUILD)/rooms.a: $(filter-out $(foreach r,lib option bench load cli,$(BUILD)/src/$(r)/%),$(LIB))
	rm -f $@ && $(AR) rcsT $@ $^
$(BUILD)/libquoth.so: $(LIBQUOTH)
	$(CC) -shared $(LDFLAGS) $(if $(SAN),,-Wl,-z,defs) -Wl,-soname,$(SO) -o $(BUILD)/$(SO) $^ \
	    $(shell pkg-config --libs $(LIBDEPS)) -lm -lpthread
	ln -sf $(SO) $@
$(BUILD)/libquoth.a: $(LIBQUOTH)
	$(LD) -r -o $(BUILD)/libquoth.o $^
	$(OBJCOPY) --localize-hidden $(BUILD)/libquoth.o
	rm -f $@ && $(AR) rcs $@ $(BUILD)/libquoth.o
wheel: $(BUILD)/libquoth.so
	python3 python/build_wheel.py $(BUILD)/wheel
$(BUILD)/unit: $(TESTS) $(LIB)
	$(CC) $(LDFLAGS) $(WRAP) -o $@ $^ $(LDLIBS)
# A program that prints a model's logits as numbers, for tests/golden/make.py --fields.
$(BUILD)/logits: $(BUILD)/tests/golden/tool/logits.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/fuzz: $(FUZZ) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(ISA) $(TEST_OPT) $(if $(and $(SAN),$(filter $@,$(UNSAN))),-fno-sanitize=all) -MMD -MP -c $< -o $@

# Check that everything except the kernel levels compiles, with the CC of another processor.
syntax:
	$(CC) $(CFLAGS) -fsyntax-only $(filter-out src/kern/%,$(SRC)) $(wildcard src/kern/*.c)
# One worker more than processors, because some tests wait more than they compute.
test: $(BUILD)/quoth $(BUILD)/unit check-objects
	$(BUILD)/unit -j$(shell expr $$(nproc) + 1)
fuzz: $(BUILD)/fuzz
	scripts/fuzz $(BUILD) -t $(or $(SECONDS),10)
bench: $(BUILD)/quoth
	$(BUILD)/quoth bench tokenize $(MODEL)
# All stated counts and soaks (an hour of replay). Every test runs in full, and each fuzz target
# gets 100,000 inputs under the address and undefined sanitizers. The list is every script that reads
# QUOTH_LONG, by itself or as LONG of tests/e2e/server.py.
LONG = $(filter-out tests/e2e/server.py,$(shell grep -lE 'QUOTH_LONG|^from server import.*\<LONG\>' \
    tests/e2e/*.py tests/e2e/*.sh tests/connectors))
long: $(BUILD)/quoth $(BUILD)/unit
	QUOTH_LONG=1 $(BUILD)/unit
	set -e; for t in $(LONG); do \
	    echo "$$t"; \
	    QUOTH_LONG=1 QUOTH=$(CURDIR)/$(BUILD)/quoth QUOTH_ROOT=$(CURDIR) $$t; \
	done
	$(MAKE) SAN=address,undefined build-address-undefined/fuzz
	scripts/fuzz build-address-undefined -n 100000
# Hostile clients of the server, at all stated counts, under sanitizers.
long-san:
	QUOTH_LONG=1 SAN=address,undefined ./test tests/e2e/abuse.py tests/e2e/overload.py
	QUOTH_LONG=1 SAN=thread ./test tests/e2e/abuse.py tests/e2e/overload.py
# A short version of making the bundled model. It needs Python and takes minutes.
demo-check:
	scripts/demo/make.sh --quick build/demo-check
# Check the sources, in seconds, without a build. check-objects needs all objects: it checks the
# symbols that objects use of each other. `make test` and ./test run it, because they build anyway.
check:
	@[ '$(.DEFAULT_GOAL)' = all ] || { echo 'Makefile: the default goal is $(.DEFAULT_GOAL), not all'; exit 1; }
	@scripts/check && scripts/words && scripts/format
check-objects: $(BUILD)/src/main.o $(LIB)
	@scripts/arrows $^ && scripts/used $^
install: $(BUILD)/quoth
	install -D -m 755 $(BUILD)/quoth $(DESTDIR)$(PREFIX)/bin/quoth
	$(BUILD)/quoth help --man > $(BUILD)/quoth.1
	install -D -m 644 $(BUILD)/quoth.1 $(DESTDIR)$(PREFIX)/share/man/man1/quoth.1
	for s in bash zsh fish; do $(BUILD)/quoth completion $$s > $(BUILD)/completion.$$s || exit 1; done
	install -D -m 644 $(BUILD)/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/quoth
	install -D -m 644 $(BUILD)/completion.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quoth
	install -D -m 644 $(BUILD)/completion.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quoth.fish
	install -D -m 644 include/quoth.h $(DESTDIR)$(PREFIX)/include/quoth.h
	install -D -m 755 $(BUILD)/$(SO) $(DESTDIR)$(PREFIX)/lib/libquoth.so.$(VERSION)
	ln -sf libquoth.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/$(SO)
	ln -sf $(SO) $(DESTDIR)$(PREFIX)/lib/libquoth.so
	install -D -m 644 $(BUILD)/libquoth.a $(DESTDIR)$(PREFIX)/lib/libquoth.a
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: quoth' 'Description: run language models inside a program' \
	    'Version: $(VERSION)' 'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -lquoth' \
	    'Requires.private: $(LIBDEPS)' 'Libs.private: -lm -lpthread' >$(BUILD)/quoth.pc
	install -D -m 644 $(BUILD)/quoth.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/quoth.pc
# Debian packages in build/deb, for this machine's release or for RELEASE=trixie, which is built in a
# root of that release.
deb: $(if $(RELEASE),,$(BUILD)/quoth lib)
	+scripts/deb $(or $(DEB),$(BUILD)/deb) $(RELEASE)
# An image for amd64 and arm64 in build/image (scripts/image), without a container engine.
image:
	+scripts/image $(or $(IMAGE),$(BUILD)/image)
fmt:
	scripts/format --fix
clean:
	rm -rf build build-*

.PHONY: all lib static wheel unit syntax test fuzz bench long long-san demo-check check check-objects install deb image fmt clean
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
