# make -f double.mk PROGRAM=DIR BUILD=DIR [SANITIZE=1]: builds PROGRAM/run.double from an emitted cuda program with the host
# compiler and the test double. Objects of the runtime and of the double lie in BUILD and serve every program.
HERE := $(abspath $(dir $(lastword $(MAKEFILE_LIST))))
ROOT := $(abspath $(HERE)/../../..)
comma := ,
MPICC ?= mpicc
MPICXX ?= mpicxx
SANITIZE ?=
# compiled anew by most tests that use it: what is higher than this costs more time to compile than it saves, and changes no number
FLAGS := $(if $(SANITIZE),-O1 -fsanitize=address$(comma)undefined -fno-omit-frame-pointer,-O2) -g1

WARN := -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers
COVER ?=
CFLAGS_ALL := -std=gnu11 $(FLAGS) -I$(ROOT)/runtime $(shell pkg-config --cflags jansson 2>/dev/null)
CXXFLAGS_ALL := -std=gnu++20 $(FLAGS) $(WARN) -DOMPI_SKIP_MPICXX -DFL_CUDA_TARGET -DFL_DEVICE_TWIN -I$(HERE) -I$(ROOT)/runtime $(COVER)
LIBS := $(shell pkg-config --libs jansson 2>/dev/null || echo -ljansson) -lpthread -lm

C := $(wildcard $(ROOT)/runtime/*.c)
CU := $(wildcard $(ROOT)/runtime/cuda/*.cu)
CPP := $(wildcard $(HERE)/*.cpp)
SHARED := $(C:$(ROOT)/runtime/%.c=$(BUILD)/runtime/%.o) $(CU:$(ROOT)/runtime/cuda/%.cu=$(BUILD)/cuda/%.o) \
    $(CPP:$(HERE)/%.cpp=$(BUILD)/double/%.o)
CLASSES := $(patsubst %.cu,%.double.o,$(wildcard $(PROGRAM)/class_*.cu))
TABLES := $(PROGRAM)/program.double.o $(PROGRAM)/ranks.double.o

program: $(PROGRAM)/run.double
shared: $(SHARED)

$(PROGRAM)/run.double: $(CLASSES) $(TABLES) $(SHARED)
	@$(MPICXX) $(FLAGS) $(COVER) -o $@ $^ $(LIBS)
$(PROGRAM)/class_%.double.o: $(PROGRAM)/class_%.cu
	@$(MPICXX) $(CXXFLAGS_ALL) -x c++ -c -o $@ $<
$(PROGRAM)/%.double.o: $(PROGRAM)/%.c
	@$(MPICC) $(CFLAGS_ALL) -I$(PROGRAM) -c -o $@ $<
$(BUILD)/runtime/%.o: $(ROOT)/runtime/%.c
	@mkdir -p $(@D)
	@$(MPICC) $(CFLAGS_ALL) -MMD -c -o $@ $<
$(BUILD)/cuda/%.o: $(ROOT)/runtime/cuda/%.cu
	@mkdir -p $(@D)
	@$(MPICXX) $(CXXFLAGS_ALL) -MMD -x c++ -c -o $@ $<
$(BUILD)/double/%.o: $(HERE)/%.cpp
	@mkdir -p $(@D)
	@$(MPICXX) $(CXXFLAGS_ALL) -MMD -c -o $@ $<

# The double alone, with programs that have planted faults.
FAULTS := $(patsubst $(HERE)/../faults/%.cu,$(BUILD)/faults/%.o,$(wildcard $(HERE)/../faults/*.cu))
DOUBLE := $(filter $(BUILD)/double/%,$(SHARED))
faults: $(BUILD)/faults/faults
$(BUILD)/faults/faults: $(FAULTS) $(DOUBLE)
	@$(MPICXX) $(FLAGS) -o $@ $^ $(LIBS)
$(BUILD)/faults/%.o: $(HERE)/../faults/%.cu
	@mkdir -p $(@D)
	@$(MPICXX) $(CXXFLAGS_ALL) -MMD -x c++ -c -o $@ $<

# The runtime's own tests of kernels and collectives, with the kernels of the cuda target.
TESTED := $(filter-out $(BUILD)/runtime/main.o,$(SHARED))
tests: $(patsubst %,$(BUILD)/tests/%,kernels attention types collectives)
$(BUILD)/tests/%: $(ROOT)/tests/runtime/%.c $(TESTED)
	@mkdir -p $(@D)
	@$(MPICC) $(CFLAGS_ALL) $(shell pkg-config --cflags cmocka) -MMD -c -o $@.o $<
	@$(MPICXX) $(FLAGS) $(COVER) -o $@ $@.o $(TESTED) $(shell pkg-config --libs cmocka) $(LIBS)

-include $(SHARED:.o=.d) $(FAULTS:.o=.d)
.PHONY: program shared faults tests
