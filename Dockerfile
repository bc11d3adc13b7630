# The manager: one static program in an empty image.
#
#   buildah build -t nephele .                                         builds the program in a container
#   buildah build -t nephele --target prebuilt --build-arg PROGRAM=nephele FOLDER
#                                                                      takes FOLDER/nephele, built before with
#     RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --package nephele-cli --target "$(uname -m)-unknown-linux-gnu"
#
# The second way needs no network and no base image; the end-to-end tests use it. Its stage comes first, because older
# builders build every stage before the one that is asked for. docker and podman take the same arguments.

FROM scratch AS prebuilt
ARG PROGRAM=nephele
COPY ${PROGRAM} /manager
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM docker.io/library/rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The target is named so that the flags do not apply to build scripts and procedural macros, which cannot be static.
RUN RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --release --locked --package nephele-cli --target "$(uname -m)-unknown-linux-gnu" && \
    cp "target/$(uname -m)-unknown-linux-gnu/release/nephele" /manager

FROM scratch
COPY --from=build /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
