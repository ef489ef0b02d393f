package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
	"taskgate/obs"
)

// serveCmd are the flags of serve. A flag that is not given leaves what the
// file and the environment say.
type serveCmd struct {
	Config      string   `help:"Configuration file." type:"path" placeholder:"FILE"`
	Listen      *string  `help:"Address of the MCP endpoint." placeholder:"HOST:PORT"`
	AdminListen *string  `help:"Address of health and metrics; empty for none." placeholder:"HOST:PORT"`
	Upstream    *string  `help:"The MCP server behind: its URL, or the command that starts it." placeholder:"URL|COMMAND"`
	Store       *string  `help:"Where tasks are kept: a file, redis://…, or memory." placeholder:"PATH|URL"`
	Policy      []string `help:"Policy file or directory of such; may be repeated." type:"path" sep:"none" placeholder:"FILE"`
	LogLevel    *string  `help:"debug, info, warn or error." placeholder:"LEVEL"`
	LogFormat   *string  `help:"json or console." placeholder:"FORMAT"`
}

// heapFloor, in bytes, is reserved and never touched, so that it takes no memory.
// The garbage collector runs when the heap is twice what was live; here that is a
// few MB, and under load it would run a hundred times a second.
const heapFloor = 32 << 20

// Run serves until the process is told to stop.
func (c *serveCmd) Run() error {
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	cfg, err := config.Load(c.Config, os.Environ(), c.overlay)
	if err != nil {
		return err
	}
	log, err := obs.Logger(string(cfg.Log.Level), string(cfg.Log.Format))
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // stderr cannot always be synced
	redis.SetLogger(redisLog{log})
	for _, name := range config.UnknownVariables(os.Environ(), cfg) {
		log.Warn("a variable of the environment looks like the gateway's but means nothing to it", zap.String("variable", name))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a, err := app.New(ctx, cfg, version, log)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	go reloadOnHangup(ctx, a)
	return a.Run(ctx)
}

// redisLog takes what the Redis library writes, which would else stand among our
// lines in a form of its own. What matters of it the gateway says itself.
type redisLog struct{ *zap.Logger }

func (l redisLog) Printf(_ context.Context, format string, args ...any) {
	l.Debug("redis library", zap.String("says", fmt.Sprintf(format, args...)))
}

func reloadOnHangup(ctx context.Context, a *app.App) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-hangup:
			a.Reload()
		case <-ctx.Done():
			return
		}
	}
}

func (c *serveCmd) overlay(cfg *config.Config) error {
	set(&cfg.Listen, c.Listen)
	set(&cfg.AdminListen, c.AdminListen)
	set(&cfg.Store, c.Store)
	set(&cfg.Log.Level, c.LogLevel)
	set(&cfg.Log.Format, c.LogFormat)
	if len(c.Policy) > 0 {
		cfg.Policy = c.Policy
	}
	if c.Upstream != nil {
		return cfg.SetUpstream(*c.Upstream)
	}
	return nil
}

func set[T ~string](field *T, flag *string) {
	if flag != nil {
		*field = T(*flag)
	}
}
