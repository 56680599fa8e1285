# Two stages: a Go image builds the binary, a plain Debian runs it as nobody.
# Builds with the classic builder and with BuildKit.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=1 go build -tags duckdb_arrow -trimpath -ldflags "-s -w" -o /weir ./cmd/weir

FROM debian:bookworm-slim
RUN mkdir -p /data && chown 65534:65534 /data
COPY --from=build /weir /usr/local/bin/weir
ENV HOME=/data
USER 65534:65534
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["weir"]
CMD ["demo", "--addr", "0.0.0.0:8080", "--data", "/data", "--make-token"]
