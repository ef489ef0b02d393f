package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"taskgate/admin"
	"taskgate/policy"
)

const liveTimeout = 10 * time.Second

// askLive puts what a running gateway knows of the tool into the query. Notes
// tell where that gateway may decide otherwise than set.
func askLive(adminURL string, q *policy.Query, set *policy.Set, notes io.Writer) error {
	known, err := fetchTools(strings.TrimSuffix(adminURL, "/") + "/tools")
	if err != nil {
		return err
	}
	if known.Policy != set.Hash() {
		fmt.Fprintf(notes, "note: the gateway there has another policy (%s) than this one (%s)\n", known.Policy, set.Hash())
	}
	i := slices.IndexFunc(known.Tools, func(t admin.Tool) bool { return t.Upstream == q.Upstream && t.Name == q.Tool })
	if i < 0 {
		fmt.Fprintf(notes, "note: the gateway there knows no tool %q of %s; either there is none, or nobody has listed its tools yet\n", q.Tool, q.Upstream)
		return nil
	}
	t := known.Tools[i]
	q.Annotations, q.TaskSupport = t.Annotations, t.TaskSupport
	q.Pace = policy.Pace{Calls: t.Calls, Quick: seconds(t.QuickSeconds), Usual: seconds(t.UsualSeconds), Slow: seconds(t.SlowSeconds)}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func fetchTools(url string) (known admin.Tools, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), liveTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return known, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return known, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return known, fmt.Errorf("%s: %s; is this the adminListen of a gateway?", url, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&known); err != nil {
		return known, fmt.Errorf("%s: %w", url, err)
	}
	return known, nil
}
