package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Finding is something about a server's settings that its operator should know.
type Finding struct {
	// Serious: tasks may be lost, or none can be made.
	Serious bool
	Text    string
}

// Report looks at each master's version, eviction policy and persistence.
func (s *Store) Report(ctx context.Context) ([]Finding, error) {
	var all []Finding
	err := s.eachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		info, err := readInfo(ctx, c, "server", "memory", "persistence", "replication")
		if err != nil {
			return fmt.Errorf("read settings of redis at %s: %w", c.Options().Addr, err)
		}
		for _, f := range append(findings(info, appendFsync(ctx, c)), s.copiesFinding(info)...) {
			f.Text = fmt.Sprintf("redis at %s: %s", c.Options().Addr, f.Text)
			all = append(all, f)
		}
		return nil
	})
	return all, err
}

// appendFsync is "" when the server does not say: CONFIG is often forbidden.
func appendFsync(ctx context.Context, c *redis.Client) string {
	values, err := c.ConfigGet(ctx, "appendfsync").Result()
	if err != nil {
		return ""
	}
	return values["appendfsync"]
}

func findings(i info, fsync string) []Finding {
	found := []Finding{versionFinding(i["redis_version"])}
	if policy := i["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		found = append(found, Finding{i.number("maxmemory") > 0, fmt.Sprintf(
			"maxmemory-policy is %s: it may evict tasks that were promised; set it to noeviction", policy)})
	}
	if i.number("maxmemory") == 0 {
		found = append(found, Finding{false, "maxmemory is not set: new tasks cannot be refused before the server runs out"})
	}
	switch {
	case i["aof_enabled"] == "0":
		found = append(found, Finding{true, "appendonly is off: a restart loses tasks; set it to yes"})
	case fsync == "no":
		found = append(found, Finding{true, "appendfsync is no: a failure of the machine loses what the system has not written"})
	case fsync == "everysec":
		found = append(found, Finding{false, "appendfsync is everysec: a failure of the machine may lose the last 1 to 2 s"})
	}
	return found
}

// copiesFinding tells of too few replicas for any call to become a task.
func (s *Store) copiesFinding(i info) []Finding {
	if n := i.number("connected_slaves"); n < int64(s.copies) {
		return []Finding{{true, fmt.Sprintf("it has %d replicas and waitReplicas is %d: until there are more, no call becomes a task", n, s.copies)}}
	}
	return nil
}

func versionFinding(version string) Finding {
	major, _, _ := strings.Cut(version, ".")
	if len(major) == 1 && major < "7" {
		return Finding{true, fmt.Sprintf("version %s is older than 7.0, which this program needs", version)}
	}
	return Finding{false, "version " + version}
}
