module taskgate

go 1.26

require (
	github.com/go-json-experiment/json v1.27.2
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/tmaxmax/go-sse v0.12.0
)
