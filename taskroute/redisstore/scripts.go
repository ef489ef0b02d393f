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
	createScript    = script("own", "count", "record", "each", "create")
	replaceScript   = script("own", "recount", "hold", "record", "each", "replace")
	enterScript     = script("own", "count", "enter")
	settleScript    = script("own", "recount", "settle")
	usageScript     = script("own", "usage")
	ownedScript     = script("owned")
	heartbeatScript = script("heartbeat")
	retireScript    = script("retire")
	deadScript      = script("dead")
	unholdScript    = script("hold", "unhold")
	buryScript      = script("bury")
	tellScript      = script("tell")

	scripts = []*redis.Script{
		createScript, replaceScript, enterScript, settleScript, usageScript, ownedScript, heartbeatScript, retireScript, deadScript,
		unholdScript, buryScript, tellScript,
	}
)

// script is made of files: functions first, then what uses them.
func script(names ...string) *redis.Script {
	var whole []byte
	for _, name := range names {
		src, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil { // the program was built without it
			panic(err)
		}
		whole = append(whole, src...)
	}
	return redis.NewScript(string(whole))
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
