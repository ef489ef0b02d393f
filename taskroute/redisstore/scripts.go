package redisstore

import (
	"context"
	"embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// The scripts; each file says what it takes and returns.
var (
	createScript    = script("create")
	replaceScript   = script("replace")
	heartbeatScript = script("heartbeat")
	retireScript    = script("retire")
	deadScript      = script("dead")
	unholdScript    = script("unhold")
	buryScript      = script("bury")
	countScript     = script("count")
	tellScript      = script("tell")

	scripts = []*redis.Script{
		createScript, replaceScript, heartbeatScript, retireScript, deadScript, unholdScript, buryScript, countScript,
		tellScript,
	}
)

func script(name string) *redis.Script {
	src, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil { // the program was built without it
		panic(err)
	}
	return redis.NewScript(string(src))
}

// loadScripts gives the scripts to every master: at the start, and when one has
// forgotten them, after a restart or a failover.
func (s *Store) loadScripts(ctx context.Context) error {
	for _, script := range scripts {
		if err := script.Load(ctx, s.client).Err(); err != nil {
			return fmt.Errorf("load script: %w", err)
		}
	}
	return nil
}
