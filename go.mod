module taskgate

go 1.26.0

require (
	github.com/agext/levenshtein v1.2.3
	github.com/caarlos0/env/v11 v11.4.2
	github.com/go-json-experiment/json v1.27.2
	github.com/gobwas/glob v1.1.0
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/tmaxmax/go-sse v0.12.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/net v0.62.0
)

require golang.org/x/text v0.43.0 // indirect
