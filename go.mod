module taskgate

go 1.26.0

require (
	github.com/go-json-experiment/json v1.27.2
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/tmaxmax/go-sse v0.12.0
	go.etcd.io/bbolt v1.5.0
)

require (
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
