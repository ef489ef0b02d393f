package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
	"taskgate/obs"
)

// serveCmd are the flags of serve. A flag that is not given leaves what the
// file and the environment say.
type serveCmd struct {
	Config                                                    string
	Listen, AdminListen, Upstream, Store, LogLevel, LogFormat *string
	Policy                                                    []string
}

func (c *serveCmd) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve MCP clients in front of one or more MCP servers.", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.Run() },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Config, "config", "", "configuration `FILE`")
	optional(flags, &c.Listen, "listen", "`HOST:PORT` of the MCP endpoint")
	optional(flags, &c.AdminListen, "admin-listen", "`HOST:PORT` of health and metrics; empty for none")
	optional(flags, &c.Upstream, "upstream", upstreamUsage)
	optional(flags, &c.Store, "store", storeUsage)
	flags.StringArrayVar(&c.Policy, "policy", nil, policyUsage)
	optional(flags, &c.LogLevel, "log-level", levelUsage)
	optional(flags, &c.LogFormat, "log-format", "json or console, the `FORMAT` of the log")
	return cmd
}

// What is said of flags that more than one command has.
const (
	upstreamUsage = "the MCP server behind, as `URL|COMMAND`: where it is or what starts it"
	storeUsage    = "`PATH|URL` of where tasks are kept: a file, redis://…, or memory"
	policyUsage   = "policy `FILE` or directory of such; may be repeated"
	levelUsage    = "debug, info, warn or error, the least `LEVEL` that is logged"
)

// The garbage collector runs when the heap has grown by heapGrowth percent of what was
// live, which is a few MB: under load it would run a hundred times a second. So
// heapFloor, in bytes, counts as live too; it is reserved and never touched, and takes
// no memory. With it half of Go's usual growth is as good, and when much is live, since
// there are many tasks, less is needed for what is not.
const (
	heapFloor  = 64 << 20
	heapGrowth = 50
)

// Run serves until the process is told to stop.
func (c *serveCmd) Run() error {
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
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
	debug.FreeOSMemory()         // what starting took, and heapFloor would keep
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
