# The gateway as an image without anything else in it: no shell, no user but its
# own. Build it with
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t taskgate .
#
# and run it with a policy, a configuration and a place for its tasks:
#
#   docker run --read-only -v taskgate-data:/data -v ./config.yaml:/config.yaml:ro \
#     -p 8080:8080 taskgate serve --config /config.yaml
#
# Inside a container the gateway must listen on more than loopback, which it
# refuses to do for callers without identity. See docs/identity.md.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/gateway ./cmd/gateway \
	&& mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/gateway /gateway
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENV TASKGATE_LISTEN=:8080 \
    TASKGATE_ADMIN_LISTEN=:8081 \
    TASKGATE_STORE=/data/taskgate.db
VOLUME /data
EXPOSE 8080 8081
ENTRYPOINT ["/gateway"]
CMD ["serve"]
