# The manager: one static program in an empty image.
#
#   buildah build -t nephele .                                         builds the program in a container
#   buildah build -t nephele --target prebuilt --build-arg PROGRAM=nephele FOLDER
#                                                                      takes FOLDER/nephele, built before with
#     RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile dist --package nephele-cli --target "$(uname -m)-unknown-linux-gnu"
#
# The second way needs no network and no base image; the end-to-end tests use it. Its stage comes first, because
# older builders build every stage before the requested one. docker and podman take the same arguments.
#
# For another processor, for example arm64 on amd64, in either way:
#
#   buildah build --platform linux/arm64 -t nephele:arm64 .            in a container, emulated: needs qemu-user-static
#   buildah build --platform linux/arm64 -t nephele:arm64 --target prebuilt FOLDER
#                                                                      takes FOLDER/nephele, cross-compiled before with
#     rustup target add aarch64-unknown-linux-gnu                      and Debian's gcc-aarch64-linux-gnu
#     CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
#     JEMALLOC_SYS_WITH_LG_PAGE=16 RUSTFLAGS="-C target-feature=+crt-static" \
#     cargo build --profile dist --package nephele-cli --target aarch64-unknown-linux-gnu
#
# and both under one name:
#
#   buildah manifest create nephele:v0.1.0 nephele:amd64 nephele:arm64
#   buildah manifest push --all nephele:v0.1.0 docker://ghcr.io/nephele-dev/nephele:v0.1.0
#
# CI builds and runs the program for amd64 alone, and makes an image for arm64 without one.

FROM scratch AS prebuilt
ARG PROGRAM=nephele
COPY ${PROGRAM} /manager
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM docker.io/library/rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The target is named so that the flags do not apply to build scripts and procedural macros, which cannot be static.
# Kernels for arm64 have pages of 4, 16 or 64 KiB; an allocator that is built for the largest runs on all.
RUN if [ "$(uname -m)" = aarch64 ]; then export JEMALLOC_SYS_WITH_LG_PAGE=16; fi && \
    RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --profile dist --locked --package nephele-cli --target "$(uname -m)-unknown-linux-gnu" && \
    cp "target/$(uname -m)-unknown-linux-gnu/dist/nephele" /manager

FROM scratch
COPY --from=build /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
